"""diagnose_test.py PROGRAM: `saccade diagnose` beside the same measures of the `transformers` package's weights, hidden
states and gradients, on small random models; and what it does with training runs and wrong input. Exits with 77, which
ctest shows as skipped, when a package is missing."""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
try:
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

TEXT = (pathlib.Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text()
TOKENS, BATCH = 40, 3


def bpe(bos):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([TEXT], vocab_size=400, special_tokens=["<s>", "</s>"])
    if bos:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, bos_token="<s>", eos_token="</s>")


def randomise(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


def run(*words):
    return subprocess.run([PROGRAM, "diagnose", *map(str, words)], capture_output=True, text=True, timeout=300)


def mean(values):
    return sum(values) / len(values)


class Diagnose(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)  # of what models start from
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)
        self.data = self.path / "text.txt"
        self.data.write_text(TEXT)

    def tearDown(self):
        self.directory.cleanup()

    def save(self, model, tokenizer):
        model.save_pretrained(self.path / "model")
        tokenizer.save_pretrained(self.path / "model")
        return self.path / "model"

    def small_llama(self, bos=False):
        tokenizer = bpe(bos)
        config = transformers.LlamaConfig(
            num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=6, num_key_value_heads=2,
            max_position_embeddings=128, vocab_size=len(tokenizer), attn_implementation="eager")
        model = randomise(transformers.LlamaForCausalLM(config))
        return model, tokenizer, self.save(model, tokenizer)

    def small_gpt2(self):
        tokenizer = bpe(False)
        config = transformers.GPT2Config(n_layer=2, n_embd=48, n_head=6, n_positions=128, vocab_size=len(tokenizer),
                                         attn_implementation="eager")
        model = randomise(transformers.GPT2LMHeadModel(config))
        return model, tokenizer, self.save(model, tokenizer)

    def diagnose(self, *words):
        done = run(*words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def assert_near(self, ours, theirs, what):
        self.assertLess(abs(ours - theirs), 2e-3 * abs(theirs) + 1e-5, f"{what}: {ours} and {theirs}")

    def compare(self, ours, model, ids):
        ids = torch.tensor(ids)
        told = model(ids, labels=ids, output_attentions=True, output_hidden_states=True)
        for hidden in told.hidden_states:
            hidden.retain_grad()
        told.loss.backward()
        self.assert_near(ours["loss"], told.loss.item(), "loss")
        self.assert_near(ours["gradient"], math.sqrt(sum(p.grad.double().square().sum().item() for p in model.parameters())),
                         "gradient")
        for layer, weights in enumerate(told.attentions):
            measured = ours["layers"][layer]["weights"]
            for head in range(weights.shape[1]):
                rows = [weights[b, head, i, :i + 1].double() for b in range(len(ids)) for i in range(1, ids.shape[1])]
                self.assert_near(measured["entropy"][head], mean([-(r * r.log()).sum().item() for r in rows]), "entropy")
                self.assert_near(measured["first_token"][head], mean([r[0].item() for r in rows]), "first token")
                self.assert_near(measured["distance"][head],
                                 mean([sum(w.item() * (len(r) - 1 - j) for j, w in enumerate(r)) for r in rows]), "distance")
                self.assertEqual(sum(measured["positive"][head]), sum(len(r) for r in rows))
            self.assert_near(ours["layers"][layer]["gradients"]["entering"],
                             told.hidden_states[layer].grad.norm().item(), "entering")
        places = {0: told.hidden_states[0], 1: told.hidden_states[1], 3: told.hidden_states[2]}
        for place, hidden in places.items():
            measured, ranks, cosines = ours["ranks"][place], [], []
            for x in hidden.detach().double():
                values = torch.linalg.svdvals(x)
                shares = values / values.sum()
                ranks.append(math.exp(-(shares * shares.log()).sum().item()))
                unit = x / x.norm(dim=1, keepdim=True)
                cosines.append(((unit @ unit.T).sum().item() - len(x)) / (len(x) * (len(x) - 1)))
            self.assert_near(measured["effective_rank"], mean(ranks), "effective rank")
            self.assert_near(measured["cosine"], mean(cosines), "cosine")

    def windows(self, tokenizer, bos=False):
        ids, inside = tokenizer(TEXT, add_special_tokens=False)["input_ids"], TOKENS - bos
        return [[0] * bos + ids[at * inside:(at + 1) * inside] for at in range(BATCH)]

    def test_llama_measures_are_those_of_transformers(self):
        for bos in (False, True):
            model, tokenizer, path = self.small_llama(bos)
            ours = self.diagnose(path, "--data", self.data, "--tokens", TOKENS, "--batch-size", BATCH)
            self.compare(ours, model, self.windows(tokenizer, bos))
            for layer, block in enumerate(model.model.layers):
                found = ours["layers"][layer]["gradients"]
                self.assert_near(found["query"], block.self_attn.q_proj.weight.grad.norm().item(), "query")
                self.assert_near(found["key"], block.self_attn.k_proj.weight.grad.norm().item(), "key")
                self.assert_near(found["value"], block.self_attn.v_proj.weight.grad.norm().item(), "value")
                self.assert_near(found["output"], block.self_attn.o_proj.weight.grad.norm().item(), "output")

    def test_gpt2_measures_are_those_of_transformers(self):
        model, tokenizer, path = self.small_gpt2()
        ours = self.diagnose(path, "--data", self.data, "--tokens", TOKENS, "--batch-size", BATCH)
        self.compare(ours, model, self.windows(tokenizer))
        for layer, block in enumerate(model.transformer.h):
            query, key, value = block.attn.c_attn.weight.grad.chunk(3, dim=1)  # stored by inputs
            found = ours["layers"][layer]["gradients"]
            self.assert_near(found["query"], query.norm().item(), "query")
            self.assert_near(found["value"], value.norm().item(), "value")

    def test_a_model_without_out_is_only_printed(self):
        _, _, path = self.small_llama()
        before = sorted(p.name for p in self.path.rglob("*"))
        done = run(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("How different the tokens are", done.stdout)
        self.assertIn("128 tokens of a built-in story", done.stdout)  # no longer than the model's context
        self.assertEqual(before, sorted(p.name for p in self.path.rglob("*")))

    def test_pictures_are_xml_and_belong_to_the_json(self):
        _, _, path = self.small_llama()
        out = self.path / "a" / "b"
        done = run(path, "--attention", "diff", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads((out / "diagnosis.json").read_text())
        self.assertEqual(sorted(told["pictures"] + ["diagnosis.json"]), sorted(p.name for p in out.iterdir()))
        self.assertIn("negative.svg", told["pictures"])
        for picture in told["pictures"]:
            xml.etree.ElementTree.parse(out / picture)

    def test_a_run_is_its_newest_checkpoint_and_its_history(self):
        _, _, path = self.small_llama()
        run_path = self.path / "run"
        for step in (500, 1500, 90):
            shutil.copytree(path, run_path / "checkpoints" / f"step-{step:08d}")
        (run_path / "checkpoints" / "step-00009999").mkdir()  # not finished
        told = self.diagnose(run_path, "--tokens", 16)
        self.assertTrue(told["model"].endswith("step-00001500"), told["model"])
        self.assertIn("rank.svg", [p.name for p in (run_path / "diagnosis").iterdir()])
        self.assertNotIn("steps_rank.svg", told["pictures"])
        (run_path / "diagnostics.jsonl").write_text("".join(json.dumps({"step": s, **told}) + "\n" for s in (0, 100, 200)))
        told = self.diagnose(run_path, "--tokens", 16, "--out", self.path / "elsewhere")
        self.assertIn("steps_rank.svg", told["pictures"])
        self.assertTrue((self.path / "elsewhere" / "steps_entropy.svg").exists())

    def test_wrong_input_is_said(self):
        _, _, path = self.small_llama(bos=True)
        empty = self.path / "empty.txt"
        empty.write_text(" \n")
        (self.path / "young" / "checkpoints").mkdir(parents=True)
        broken = self.path / "broken"
        shutil.copytree(path, broken / "checkpoints" / "step-00000001")
        (broken / "diagnostics.jsonl").write_text('{"step": 1}\n{"loss": 1}\n')
        for words, expected in (
                ((self.path / "nothing",), "there is no file or directory"),
                ((path, "--data", self.path / "none.txt"), "none.txt"),
                ((path, "--data", empty), "it is empty"),
                ((path, "--tokens", 129), "made for at most 128"),
                ((path, "--tokens", 1), "special tokens"),
                ((path, "--attention", "alibbi"), "did you mean 'alibi'"),
                ((self.path / "young",), "no checkpoint yet"),
                ((broken,), "diagnostics.jsonl, line 2: it has no step"),
                ((path, "--out", self.data), "text.txt")):
            done = run(*words)
            self.assertEqual(done.returncode, 2, f"{words}: {done.stdout}{done.stderr}")
            self.assertIn(expected, done.stderr)

    def test_one_token_gives_null(self):
        _, _, path = self.small_llama()
        told = self.diagnose(path, "--tokens", 1, "--batch-size", 1)
        self.assertIsNone(told["loss"])
        self.assertIsNone(told["layers"][0]["weights"]["entropy"][0])


if __name__ == "__main__":
    unittest.main()
