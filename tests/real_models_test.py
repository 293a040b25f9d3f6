"""Real weights: SmolLM2 and MiniLM, fetched once into the build directory, beside the `transformers` package. Exits with 77,
which ctest shows as skipped, when a package is missing or the weights cannot be fetched."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from probe import probe

SACCADE, PROBE, STORE = sys.argv[1:4]
sys.argv = sys.argv[:1]
os.environ.update(SACCADE_HOME=STORE, SACCADE_PYTHON=sys.executable)
try:
    import torch
    import transformers
    import safetensors  # noqa: F401, which the probe needs
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(2)


def saccade(*words):
    return subprocess.run([SACCADE, *map(str, words)], capture_output=True, text=True)


PATHS = {}
for name in ("smollm2", "minilm"):
    done = saccade("fetch", name, "--json")
    if done.returncode != 0:
        print(f"skipped: {name} cannot be fetched here: {done.stderr.strip().splitlines()[-1:]}")
        sys.exit(77)
    PATHS[name] = pathlib.Path(json.loads(done.stdout)["path"])


class SmolLM2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = PATHS["smollm2"]
        cls.model = transformers.AutoModelForCausalLM.from_pretrained(
            path, gguf_file=next(path.glob("*.gguf")).name, dtype=torch.float32).eval()
        cls.directory = tempfile.TemporaryDirectory()
        # The tokenizer that transformers makes of the GGUF file splits numbers in another way than the model's own.
        done = saccade("convert", "smollm2", cls.directory.name, "--verify")
        assert done.returncode == 0, done.stderr
        cls.tokenizer = transformers.AutoTokenizer.from_pretrained(cls.directory.name)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def test_logits(self):
        ids = torch.randint(0, 49152, (1, 40), generator=torch.Generator().manual_seed(3))
        with torch.no_grad():
            theirs = self.model(ids).logits
        for words in ((), ("attention", "causal")):
            ours = probe(PROBE, PATHS["smollm2"], "decode", *words, ids=ids)
            for key in ("logits", "decoded"):
                self.assertLess((ours[key] - theirs).abs().max().item(), 5e-3, key)
                self.assertTrue(torch.equal(ours[key].argmax(-1), theirs.argmax(-1)), key)

    def test_a_converted_model_is_the_same_in_transformers(self):
        converted = transformers.AutoModelForCausalLM.from_pretrained(self.directory.name, dtype=torch.float32).eval()
        ids = torch.randint(0, 49152, (1, 16), generator=torch.Generator().manual_seed(4))
        with torch.no_grad():
            self.assertTrue(torch.allclose(converted(ids).logits, self.model(ids).logits, atol=1e-3))

    def test_greedy_text(self):
        for prompt in ("The meaning of life is", "In 1492, 1776 and 2024", "def add(a, b):\n"):
            given = self.tokenizer(prompt, return_tensors="pt")
            theirs = self.model.generate(**given, max_new_tokens=40, do_sample=False, pad_token_id=2)[0].tolist()
            done = saccade("generate", "smollm2", "--prompt", prompt, "--max-new-tokens", 40, "--temperature", 0, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            text = json.loads(done.stdout)["texts"][0]
            self.assertEqual(text["prompt_ids"] + text["ids"], theirs, prompt)

    def test_perplexity(self):
        shared = pathlib.Path(__file__).parents[2] / "shared/data/wikitext-2/valid.txt"
        text = shared if shared.exists() else pathlib.Path(__file__).parents[1] / "docs/language.md"
        done = saccade("eval", "smollm2", "--data", text, "--context", 512, "--max-tokens", 4096, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        ids = self.tokenizer(text.read_text())["input_ids"][:4096]
        total, count = 0.0, 0
        with torch.no_grad():
            for begin in range(0, len(ids), 512):
                window = torch.tensor([ids[begin:begin + 512]])
                if window.size(1) < 2:
                    continue
                scores = self.model(window).logits[0, :-1].double().log_softmax(-1)
                total -= scores.gather(1, window[0, 1:, None]).sum().item()
                count += window.size(1) - 1
        found = perplexity_in(json.loads(done.stdout))
        self.assertAlmostEqual(found / math.exp(total / count), 1, delta=5e-5)

    def test_swapping_reports_the_damage(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("The eye jumps to what matters, and rests there for a moment. " * 40)
            file.flush()
            done = saccade("eval", "smollm2", "--data", file.name, "--context", 256, "--attention", "last10", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        own, swapped = perplexities_in(json.loads(done.stdout))
        self.assertGreater(swapped, 1.5 * own)


def perplexities_in(report):
    return [row["perplexity"]["perplexity_per_token"] for row in report["evaluations"]]


def perplexity_in(report):
    return perplexities_in(report)[0]


class MiniLM(unittest.TestCase):
    def test_sentence_embeddings(self):
        path = PATHS["minilm"]
        model, tokenizer = transformers.AutoModel.from_pretrained(path).eval(), transformers.AutoTokenizer.from_pretrained(path)
        texts = ["A saccade is a jump of the eye.", "Attention", "Zwei Sätze. Und noch einer!"]
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        real = batch["attention_mask"].unsqueeze(-1).float()
        theirs = torch.nn.functional.normalize((hidden * real).sum(1) / real.sum(1), dim=1)
        ours = probe(PROBE, path, ids=batch["input_ids"], mask=batch["attention_mask"], types=batch["token_type_ids"])["sentences"]
        self.assertLess((ours - theirs).abs().max().item(), 1e-5)


unittest.main(verbosity=2)
