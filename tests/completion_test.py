"""What `saccade completion` prints does what shells expect of it."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv[1]


def script(shell):
    return subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, check=True, timeout=60).stdout


def in_bash(*words, folder=None):
    """What bash would offer for the last of the words."""
    quoted = " ".join("'" + word + "'" for word in words)
    text = (f"{script('bash')}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _saccade\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n')
    result = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, timeout=60, cwd=folder)
    assert result.returncode == 0 and not result.stderr, result.stderr
    return result.stdout.split("\n")[:-1]


class TestBash(unittest.TestCase):
    def test_commands(self):
        self.assertEqual(in_bash("saccade", "expl"), ["explain"])
        self.assertIn("--version", in_bash("saccade", "--"))
        listed = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        for command in in_bash("saccade", ""):
            if not command.startswith("-"):
                self.assertIn(f"\n  {command} ", listed)

    def test_options(self):
        offered = in_bash("saccade", "check", "--")
        for option in ("--all", "--brief", "--json", "--help", "--quiet"):
            self.assertIn(option, offered)
        self.assertEqual(in_bash("saccade", "train", "--res"), ["--resume"])

    def test_values(self):
        self.assertEqual(in_bash("saccade", "check", "--path", "f"), ["fused"])
        self.assertEqual(in_bash("saccade", "completion", "z"), ["zsh"])
        self.assertIn("alibi", in_bash("saccade", "explain", "ali"))
        self.assertIn("alibi", in_bash("saccade", "eval", "model", "--attention", "al"))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine with blank.attn").touch()
            self.assertEqual(in_bash("saccade", "check", "mine", folder=folder), ["mine with blank.attn"])
            self.assertEqual(in_bash("saccade", "eval", "m", "--data", "mine", folder=folder), ["mine with blank.attn"])


class TestOthers(unittest.TestCase):
    def test_zsh_reads_its_script(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        text = "autoload -U compinit && compinit -D -u\n" + script("zsh") + "\nprint -r -- ${_comps[saccade]}\n"
        result = subprocess.run(["zsh", "-f", "-c", text], capture_output=True, text=True, timeout=60)
        self.assertEqual((result.stdout.strip(), result.stderr), ("_saccade", ""))

    def test_fish_offers_commands_options_and_values(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")

        def offered(line):
            text = script("fish") + f"\ncomplete -C '{line}'\n"
            result = subprocess.run(["fish", "--no-config", "-c", text], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.stderr, "")
            return [each.split("\t")[0] for each in result.stdout.splitlines()]

        self.assertIn("explain", offered("saccade expl"))
        self.assertIn("--path", offered("saccade check --pa"))
        self.assertIn("fused", offered("saccade check --path f"))
        self.assertIn("alibi", offered("saccade explain al"))

    def test_another_shell_is_refused(self):
        result = subprocess.run([PROGRAM, "completion", "tcsh"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("bash", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
