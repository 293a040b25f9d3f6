"""bleu_test.py PROGRAM: `saccade eval --bleu` beside the `sacrebleu` package, on random text of all scripts and on real sentences.
Exit code 77 (skipped) where the package is missing."""
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
sys.argv[1:2] = []
try:
    import sacrebleu
    from sacrebleu.metrics import BLEU, CHRF
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SEED = 20241
REAL = pathlib.Path(__file__).resolve().parents[1].parent / "shared/data/multi30k-en-de"
TOKENIZERS = ("13a", "intl", "char", "none")
SMOOTHINGS = ("exp", "floor", "add-k", "none")
WORDS = "the a cat sat on mat , . 3.5 2-3 1,000 don't \"hi\" &quot;x&amp; <b> (yes) e.g. U.S. 50% $5 #1 a/b x_y ... - -- ; : ? ! 7. .7 A-1".split()
SPACES = [" ", "  ", "\t", "\u00a0", "\u3000", "\x1c", "\u2028", "\x0b"]
# Letters, digits, punctuation and symbols of many scripts, marks that combine, and characters of four bytes.
CHARACTERS = ("aZ09.,;:!?'\"-_/\\()[]{}<>&@#$%^*+=|~`äßÉçñøŁžğı€£©®™°±×÷½²·¿¡«»„“”‘’–—…•†§¶"
              "дЖ№ёあア。、「」漢字！？（）％٠١٢،؟ةअक।१२ไทย๑ฯ𝔸𝟘😀🇩🇪👩‍💻\u0301\u200b\ufeff\u00ad\ufffdǅʰ")


def random_line(draw):
    kind = draw.random()
    if kind < 0.05:
        return ""
    if kind < 0.1:
        return draw.choice(SPACES) * draw.randint(1, 3)
    if kind < 0.2:
        return draw.choice(WORDS)
    if kind < 0.6:
        return "".join(draw.choice(WORDS) + draw.choice(SPACES + ["", " ", " "]) for _ in range(draw.randint(1, 25)))
    return "".join(draw.choice(CHARACTERS + "    ab") for _ in range(draw.randint(1, 40)))


def changed(draw, line):
    """Something that shares runs with the line: words or characters left out, doubled or exchanged."""
    pieces = line.split(" ") if draw.random() < 0.7 else list(line)
    for _ in range(draw.randint(0, 4)):
        if not pieces:
            break
        at = draw.randrange(len(pieces))
        pieces[at:at + 1] = draw.choice([[], [pieces[at]] * 2, [draw.choice(WORDS)], pieces[at:at + 2][::-1]])
    return (" " if " " in line else "").join(pieces)


def random_pairs(count, seed):
    draw = random.Random(seed)
    references = [random_line(draw).replace("\n", " ") for _ in range(count)]
    hypotheses = [changed(draw, line) if draw.random() < 0.8 else random_line(draw) for line in references]
    return hypotheses, references


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="saccade-bleu-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def write(self, name, lines):
        path = self.path / name
        path.write_text("".join(line + "\n" for line in lines), newline="\n", encoding="utf-8")
        return path

    def run_eval(self, *words, **options):
        return subprocess.run([PROGRAM, "eval", *map(str, words)], capture_output=True, text=True, timeout=300, **options)

    def scores(self, hypotheses, references, *words):
        files = [self.write(f"reference{number}", lines) for number, lines in enumerate(references)]
        done = self.run_eval("--hypotheses", self.write("hypotheses", hypotheses), "--json", *words, "--bleu", *files)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def compare(self, hypotheses, references, tokenizer="13a", smoothing="exp", value=None, words=0):
        options = ["--sentence-level", "--tokenize", tokenizer, "--smooth", smoothing, "--chrf-words", words]
        if value is not None:
            options += ["--smooth-value", value]
        ours = self.scores(hypotheses, references, *options)
        bleu = BLEU(tokenize=tokenizer, smooth_method=smoothing, smooth_value=value, force=True)
        peer = bleu.corpus_score(hypotheses, references)
        self.assertEqual(ours["bleu"]["text"], peer.format(width=2))
        self.assertAlmostEqual(ours["bleu"]["score"], peer.score, places=9)
        self.assertEqual(ours["bleu"]["signature"].split("|version")[0], str(bleu.get_signature()).split("|version")[0])
        chrf = CHRF(word_order=words)
        self.assertAlmostEqual(ours["chrf"]["score"], chrf.corpus_score(hypotheses, references).score, places=9)
        self.assertEqual(ours["chrf"]["signature"].split("|version")[0], str(chrf.get_signature()).split("|version")[0])
        self.assertEqual(ours["chrf"]["name"], chrf.corpus_score(hypotheses, references).name)
        alone = BLEU(tokenize=tokenizer, smooth_method=smoothing, smooth_value=value, effective_order=True)
        for number, (line, sentence) in enumerate(zip(hypotheses, ours["sentences"])):
            wanted = [file[number] for file in references]
            where = f"line {number}: {line!r} for {wanted!r} with {tokenizer}, {smoothing}"
            self.assertAlmostEqual(sentence["bleu"], alone.sentence_score(line, wanted).score, places=9, msg=where)
            self.assertAlmostEqual(sentence["chrf"], chrf.sentence_score(line, wanted).score, places=9, msg=where)


class TestEqualsSacrebleu(Case):
    def test_random_lines_of_all_scripts_with_every_tokenizer_and_smoothing(self):
        for number, (tokenizer, smoothing) in enumerate((t, s) for t in TOKENIZERS for s in SMOOTHINGS):
            with self.subTest(tokenizer=tokenizer, smoothing=smoothing):
                hypotheses, references = random_pairs(250, SEED + number)
                self.compare(hypotheses, [references], tokenizer, smoothing, words=number % 3)

    def test_every_character_of_the_basic_plane_is_cut_alike(self):
        # Unassigned characters may be assigned in a newer Unicode; surrogates are none; line ends would end the line.
        import unicodedata
        known = [chr(code) for code in range(32, 0x10000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co") and code != 0x85]
        groups = [known[begin:begin + 6] for begin in range(0, len(known), 6)]  # one score for six: a score takes long, its length does not
        lines = [" ".join(f"a{one}b 1{one}2 {one}{one}" for one in group) for group in groups]
        targets = [" ".join(f"a {one} b 1 {one} 2 {one} {one}" for one in group) for group in groups]
        for tokenizer in ("13a", "intl"):
            ours = self.scores(lines, [targets], "--sentence-level", "--tokenize", tokenizer)["sentences"]
            alone = BLEU(tokenize=tokenizer, effective_order=True)
            wrong = [f"U+{ord(group[0]):04X} to U+{ord(group[-1]):04X}" for group, line, target, got in zip(groups, lines, targets, ours)
                     if abs(got["bleu"] - alone.sentence_score(line, [target]).score) > 1e-9]
            self.assertEqual(wrong, [], tokenizer)

    def test_several_references(self):
        hypotheses, first = random_pairs(300, SEED + 100)
        draw = random.Random(SEED)
        self.compare(hypotheses, [first, [changed(draw, line) for line in first], [random_line(draw) for _ in first]], words=2)

    def test_smoothing_values(self):
        hypotheses, references = random_pairs(60, SEED + 101)
        for smoothing, value in (("floor", 0.01), ("floor", 0), ("add-k", 0.5), ("add-k", 3)):
            self.compare(hypotheses, [references], smoothing=smoothing, value=value)

    def test_small_corpora_where_orders_are_missing(self):
        # Each is a run of the program, so smoothings take turns.
        for turn, lines in enumerate((["a"], ["a b"], [""], ["", ""], ["x y z"], ["a", ""], ["a b c d e"])):
            for number, other in enumerate(("a", "", "q", "a b c d e f")):
                smoothing = SMOOTHINGS[(turn + number) % 4]
                hypotheses, references = lines, [other] * len(lines)
                ours = self.scores(hypotheses, [references], "--smooth", smoothing)
                peer = BLEU(smooth_method=smoothing).corpus_score(hypotheses, [references])
                self.assertEqual(ours["bleu"]["text"], peer.format(width=2), (lines, other, smoothing))

    @unittest.skipUnless(REAL.exists(), f"no {REAL}")
    def test_real_sentences(self):
        with gzip.open(REAL / "test_2016_flickr.de.gz", "rt", encoding="utf-8") as file:
            references = file.read().splitlines()
        with gzip.open(REAL / "val.de.gz", "rt", encoding="utf-8") as file:
            others = file.read().splitlines()
        draw = random.Random(SEED)
        hypotheses = [changed(draw, line) if draw.random() < 0.9 else draw.choice(others) for line in references]
        for tokenizer in TOKENIZERS:
            self.compare(hypotheses, [references], tokenizer, words=2)


class TestCommand(Case):
    def test_compressed_files_and_a_text_for_people(self):
        packed = self.path / "reference.gz"
        packed.write_bytes(gzip.compress("the cat sat on the mat\n".encode()))
        done = self.run_eval("--bleu", packed, "--hypotheses", self.write("h", ["the cat sat on the mat"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("BLEU = 100.00 100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)", done.stdout)
        self.assertIn("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:saccade-", done.stdout)

    def test_translations_from_standard_input(self):
        done = self.run_eval("--bleu", self.write("r", ["a b c d"]), "--hypotheses", "-", input="a b c d\n")
        self.assertIn("BLEU = 100.00", done.stdout)

    def test_files_of_different_lengths_are_refused_by_name(self):
        reference, hypotheses = self.write("reference.de", ["a", "b", "c"]), self.write("german.txt", ["a", "b"])
        done = self.run_eval("--bleu", reference, "--hypotheses", hypotheses)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"german.txt has 2 lines, .*reference.de has 3 lines")

    def test_nothing_to_compare_is_said(self):
        empty = self.write("empty", [])
        done = self.run_eval("--bleu", empty, "--hypotheses", empty)
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no line", done.stderr)

    def test_bytes_that_are_no_text_are_counted_and_do_no_harm(self):
        broken = self.path / "broken"
        broken.write_bytes(b"a \xff\xfe b c\n")
        done = self.run_eval("--bleu", broken, "--hypotheses", broken, "--json")
        self.assertAlmostEqual(json.loads(done.stdout)["bleu"]["score"], 100, places=6)

    def test_what_does_not_go_together_is_refused(self):
        file = self.write("h", ["a"])
        for words, part in ((["--hypotheses", file], "--bleu"), (["model", "--bleu", file, "--hypotheses", file], "nothing to do"),
                            ([], "which model"), (["--bleu", file, "--hypotheses", file, "--tokenize", "13b"], "13b")):
            done = self.run_eval(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    print(f"seed {SEED}, sacrebleu {sacrebleu.__version__}")
    unittest.main()
