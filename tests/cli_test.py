"""cli_test.py PROGRAM: the program as a process: exit codes, streams, and where and how it may be started."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())


def run(*arguments, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True, **options}
    return subprocess.run([PROGRAM, *arguments], timeout=60, **options)


def commands():
    """The names of all commands, as the help lists them."""
    listing = run("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listing.splitlines()]


class Help(unittest.TestCase):
    def test_alone_it_prints_a_short_help_with_an_example(self):
        result = run()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"Example:\n  saccade \w+")
        self.assertIn("info", commands())
        self.assertLess(len(result.stdout.splitlines()), 50)

    def test_every_command_shows_an_example_first(self):
        for command in commands():
            result = run(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertTrue(result.stdout.startswith(f"Example:\n  saccade {command}"), result.stdout)
            self.assertIn(f"Usage: saccade {command}", result.stdout)
            self.assertNotIn("ENUM", result.stdout)  # a choice shows its names, not what they are inside

    def test_version_is_that_of_the_project(self):
        version = re.search(r"project\(saccade VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(run("--version").stdout, f"saccade {version}\n")


class Mistakes(unittest.TestCase):
    def check(self, arguments, message):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
        self.assertIn(message, result.stderr)

    def test_unknown_command_names_the_nearest(self):
        self.check(["inof"], "unknown command 'inof'; did you mean 'info'?")
        self.check(["INFO"], "did you mean 'info'?")

    def test_unknown_option_names_the_nearest(self):
        self.check(["info", "--jsno"], "info: unknown option '--jsno'; did you mean '--json'?")
        self.check(["--vresion"], "unknown option '--vresion'; did you mean '--version'?")

    def test_every_command_refuses_an_unknown_option(self):
        for command in commands():
            self.check([command, "--no-such-option"], "unknown option '--no-such-option'")

    def test_unexpected_argument(self):
        self.check(["info", "stray"], "unexpected argument 'stray'")

    def test_numbers_out_of_range_say_what_was_expected(self):
        for number in ("0", "-1", "nan"):
            self.check(["distill", "model", "--data", "text", "--kl", number],
                       f"distill: --kl: {number}; expected a number above 0")
        for number in ("-0.1", "nan"):
            self.check(["certify", "model", "other", "--data", "text", "--max-kl", number],
                       f"certify: --max-kl: {number}; expected a number of at least 0")

    def test_words_that_are_not_text(self):
        for word in ("", "-", "--", "%s%n", "{}", "x" * 100_000):
            self.assertEqual(run(word).returncode, 2, word[:10])
        self.assertEqual(run(b"\xff\xfe", text=False).returncode, 2)


class Info(unittest.TestCase):
    def test_json_and_text_agree(self):
        info = json.loads(run("info", "--json").stdout)
        text = run("info").stdout
        self.assertEqual(set(info), {"version", "compiler", "simd", "kernels", "torch", "threads", "mpi", "mechanisms", "tuning"})
        for value in (info["version"], info["compiler"], info["simd"][0], info["torch"], str(info["threads"])):
            self.assertIn(value, text)
        self.assertRegex(info["torch"], r"^\d+\.\d+")

    def test_it_counts_the_shipped_mechanisms(self):
        files = list((ROOT / "mechanisms").glob("*.attn"))
        self.assertEqual(json.loads(run("info", "--json").stdout)["mechanisms"], len(files))

    def test_threads_follow_the_environment(self):
        result = run("info", "--json", env={"OMP_NUM_THREADS": "1"})
        self.assertEqual(json.loads(result.stdout)["threads"], 1)


class Streams(unittest.TestCase):
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = run("info", stdout=full)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, "error: standard output: cannot write: No space left on device\n")

    def test_a_closed_standard_output_is_an_error(self):
        result = run("info", stdout=None, preexec_fn=lambda: os.close(1))
        self.assertEqual(result.returncode, 2)
        self.assertIn("standard output: cannot write", result.stderr)

    def test_a_reader_who_left_causes_no_message(self):
        for restore in (True, False):  # with and without the parent ignoring SIGPIPE, as Python does
            reader, writer = os.pipe()
            os.close(reader)
            result = run("info", stdout=writer, restore_signals=restore)
            os.close(writer)
            self.assertEqual((result.returncode, result.stderr), (-signal.SIGPIPE, ""))

    def test_output_into_a_file_is_plain(self):
        for stream in (run("info").stdout, run("inof").stderr):
            self.assertNotIn("\x1b", stream)

    def test_wrong_level_in_the_environment_is_told_but_harmless(self):
        result = run("info", "--verbose", env={"SACCADE_LOG": "debgu"})
        self.assertEqual(result.returncode, 0)
        self.assertIn("did you mean 'debug'?", result.stderr)


class Surroundings(unittest.TestCase):
    def test_it_runs_from_anywhere_without_an_environment(self):
        with tempfile.TemporaryDirectory() as directory:
            result = run("info", cwd=directory, env={})
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(os.listdir(directory), [])

    def test_it_runs_through_a_symbolic_link(self):
        with tempfile.TemporaryDirectory() as directory:
            link = os.path.join(directory, "saccade")
            os.symlink(PROGRAM, link)
            self.assertEqual(subprocess.run([link, "--version"], env={}, capture_output=True).returncode, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
