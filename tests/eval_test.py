"""eval_test.py PROGRAM: `saccade eval` beside the usual loops around the `transformers` package, on small random models
with real tokenizers, and what it says when something is wrong. Exits with 77, which ctest shows as skipped, when a
package is missing."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

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
SMALL = dict(num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=6, max_position_embeddings=256)


def bpe(bos):
    """A byte-level tokenizer of 400 tokens, which may put <s> before a text."""
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([TEXT], vocab_size=400, special_tokens=["<s>", "</s>"])
    if bos:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, bos_token="<s>", eos_token="</s>")


def word_piece():
    tokenizer = tokenizers.BertWordPieceTokenizer()
    tokenizer.train_from_iterator([TEXT], vocab_size=400)
    ids = {token: tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return transformers.BertTokenizerFast(tokenizer_object=tokenizer._tokenizer)


def randomise(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


def run(*words):
    return subprocess.run([PROGRAM, "eval", *map(str, words)], capture_output=True, text=True, timeout=300)


def guide(model, ids, context, stride):
    """https://huggingface.co/docs/transformers/perplexity, summed over tokens."""
    total, count, correct, previous = 0.0, 0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        window = torch.tensor([ids[begin:end]])
        target = window.clone()
        target[:, :-(end - previous)] = -100
        with torch.no_grad():
            logits = model(window).logits[0, :-1].double()
        target = target[0, 1:]
        total += torch.nn.functional.cross_entropy(logits, target, ignore_index=-100, reduction="sum").item()
        count += (target != -100).sum().item()
        correct += (logits.argmax(-1) == target).sum().item()
        previous = end
        if end == len(ids):
            break
    return total / count, count, correct / count


class Eval(unittest.TestCase):
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
        model = randomise(transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=len(tokenizer))))
        return model, tokenizer, self.save(model, tokenizer)

    def evaluate(self, *words):
        done = run(*words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["evaluations"]

    def test_perplexity_is_that_of_the_guide(self):
        for bos in (False, True):
            model, tokenizer, path = self.small_llama(bos)
            ids = tokenizer(TEXT)["input_ids"]
            for context, stride in ((64, 64), (64, 16), (256, 256), (100, 99)):
                nll, count, accuracy = guide(model, ids, context, stride)
                ours = self.evaluate(path, "--data", self.data, "--context", context, "--stride", stride)[0]["perplexity"]
                self.assertEqual(ours["tokens_scored"], count)
                self.assertAlmostEqual(ours["mean_nll"], nll, delta=1e-4)
                self.assertAlmostEqual(ours["perplexity_per_token"], math.exp(nll), delta=1e-4 * math.exp(nll))
                self.assertAlmostEqual(ours["top1_accuracy"], accuracy, delta=2 / count)
                text_tokens = len(ids) - bos
                self.assertEqual(ours["text"], {"tokens": text_tokens, "words": len(TEXT.split()),
                                                "bytes": len(TEXT.encode()), "special_tokens": int(bos)})
                self.assertAlmostEqual(ours["bits_per_byte"],
                                       nll / math.log(2) * text_tokens / len(TEXT.encode()), delta=1e-3)

    def test_a_swapped_attention_is_shown_beside_the_own(self):
        _, _, path = self.small_llama()
        words = (path, "--data", self.data, "--context", 128, "--dtype", "double")
        own = self.evaluate(*words)[0]["perplexity"]["mean_nll"]
        both = self.evaluate(*words, "--attention", "last10")
        self.assertEqual([each["attention"] for each in both], ["own attention", "last10"])
        self.assertAlmostEqual(both[0]["perplexity"]["mean_nll"], own, delta=1e-9)
        swapped = both[1]["perplexity"]["mean_nll"]
        self.assertNotAlmostEqual(swapped, own, places=4)
        alone = self.evaluate(*words, "--attention", "window", "--set", "w=10", "--no-baseline", "--layers", "0-1")
        self.assertEqual(len(alone), 1)
        one = self.evaluate(*words, "--attention", "last10", "--no-baseline", "--layers", "1")[0]["perplexity"]["mean_nll"]
        self.assertNotAlmostEqual(one, swapped, places=4)
        self.assertNotAlmostEqual(one, own, places=4)
        table = run(*words, "--attention", "last10").stdout
        self.assertRegex(table, r"mean NLL \(nats\) +\d\.\d{4} +\d\.\d{4} +[+-]\d\.\d{4}")
        self.assertIn("convention: strided", table)

    def test_further_measurements_have_their_tables(self):
        _, _, path = self.small_llama(True)
        words = (path, "--data", self.data, "--context", 256, "--robustness", "--length-curve", "--retrieval")
        result = self.evaluate(*words)[0]
        self.assertEqual(len(result["robustness"]["points"]), 10)
        self.assertEqual(len({point["tokens_scored"] for point in result["robustness"]["points"]}), 1)
        self.assertEqual(sum(bucket["tokens_scored"] for bucket in result["perplexity"]["length_curve"]),
                         result["perplexity"]["tokens_scored"])
        self.assertTrue(result["retrieval"]["recall"])
        done = run(*words, "--attention", "last10")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("tokens seen", "typos", "pairs recalled, last10", "peak memory"):
            self.assertIn(word, done.stdout)

    def test_masked_and_labelled_texts(self):
        tokenizer = word_piece()
        config = transformers.BertConfig(**SMALL, vocab_size=len(tokenizer), num_labels=3)
        path = self.save(randomise(transformers.BertForMaskedLM(config)), tokenizer)
        masked = self.evaluate(path, "--data", self.data, "--masked")[0]["masked"]
        ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
        self.assertAlmostEqual(masked["tokens_scored"] / len(ids), 0.15, delta=0.03)
        again = self.evaluate(path, "--data", self.data, "--batch-size", 1)[0]["masked"]
        self.assertAlmostEqual(again["mean_nll"], masked["mean_nll"], delta=1e-5)

        model = randomise(transformers.BertForSequenceClassification(config))
        path = self.save(model, tokenizer)
        lines = [line for line in TEXT.splitlines() if line.strip()]
        labels = [index % 3 for index in range(len(lines))]
        file = self.path / "labels.jsonl"
        file.write_text("".join(json.dumps({"text": line, "label": label}) + "\n" for line, label in zip(lines, labels)))
        ours = self.evaluate(path, "--labels", file)[0]["classification"]
        confusion = [[0] * 3 for _ in range(3)]
        for line, label in zip(lines, labels):
            with torch.no_grad():
                confusion[label][model(**tokenizer(line, return_tensors="pt")).logits.argmax().item()] += 1
        self.assertEqual(ours["confusion"], confusion)
        self.assertEqual(ours["accuracy"], sum(confusion[i][i] for i in range(3)) / len(lines))

    def test_says_what_is_wrong(self):
        _, _, path = self.small_llama()
        empty = self.path / "empty.txt"
        empty.write_text("")
        data = ("--data", self.data)
        for words, message in (
                ((path,), "nothing to do"),
                ((path, "--data", self.path / "missing.txt"), "missing.txt"),
                ((path, "--data", empty), "empty.txt: it is empty"),
                ((path, *data, "--context", 257), "a context of 257 tokens; the model was made for 256"),
                ((path, *data, "--context", 64, "--stride", 65), "a stride of 65"),
                ((path, *data, "--masked"), "no masked model"),
                ((path, "--labels", self.data), "no head for labels"),
                ((path, *data, "--attention", "last11"), "last11"),
                ((path, *data, "--attention", "last10", "--layers", "2"), "there is no layer 2"),
                ((path, *data, "--attention", "last10", "--layers", "1-"), "cannot read '1-'"),
                ((path, *data, "--layers", "1"), "--attention"),
                ((path, *data, "--no-baseline"), "--no-baseline"),
                ((self.path / "none", *data), "none")):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(message, done.stderr)
        self.assertEqual(run(path, *data, "--context", 300, "--extend", "-q").returncode, 0)
        self.assertIn("look too good", run(path, *data, "--attention", "full").stderr)


if __name__ == "__main__":
    unittest.main()
