"""certify_test.py PROGRAM: `saccade certify` beside the same comparisons of two models of the `transformers` package, on
small random models; exit codes, what is written, and what it says when something is wrong. Exits with 77, which ctest
shows as skipped, when a package is missing."""
import hashlib
import html.parser
import json
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

TEXT = (pathlib.Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text()[:3000]
CONTEXT = 64
SMALL = dict(num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=6, max_position_embeddings=256,
             attn_implementation="eager")


def bpe(size=400):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([TEXT], vocab_size=size, special_tokens=["<s>", "</s>"])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, bos_token="<s>", eos_token="</s>")


def word_piece():
    tokenizer = tokenizers.BertWordPieceTokenizer()
    tokenizer.train_from_iterator([TEXT], vocab_size=400)
    ids = {token: tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return transformers.BertTokenizerFast(tokenizer_object=tokenizer._tokenizer)


def randomise(model, size=0.1, seed=1):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * size)
    return model.eval()


def run(*words):
    return subprocess.run([PROGRAM, "certify", *map(str, words)], capture_output=True, text=True, timeout=300)


def last10(tokens):
    """The mask of the formula last10 as transformers takes it: what is added to the scores."""
    distance = torch.arange(tokens).unsqueeze(1) - torch.arange(tokens)
    return torch.where((distance >= 0) & (distance < 10), 0.0, torch.finfo(torch.float32).min).view(1, 1, tokens, tokens)


def look(model, ids, mask=None):
    """Logits, attention weights and, by layer, gradients of the loss by the attention's input and its projections."""
    inputs, hooks = [], []
    for block in model.model.layers:
        def keep(module, given, result):
            result.retain_grad()
            inputs.append(result)
        hooks.append(block.input_layernorm.register_forward_hook(keep))
    model.zero_grad()
    ids = torch.tensor([ids])
    told = model(ids, attention_mask=mask, output_attentions=True)
    torch.nn.functional.cross_entropy(told.logits[0, :-1], ids[0, 1:], reduction="sum").backward()
    for hook in hooks:
        hook.remove()
    weights = [[getattr(block.self_attn, name).weight.grad.clone().flatten() for name in
                ("q_proj", "k_proj", "v_proj", "o_proj")] for block in model.model.layers]
    return (told.logits[0].detach().double(), [each[0].detach().double() for each in told.attentions],
            [each.grad.flatten().double() for each in inputs], weights)


def cosine(a, b):
    return torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=0).item()


class Certify(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)  # of what models start from
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)
        self.data = self.path / "text.txt"
        self.data.write_text(TEXT)

    def tearDown(self):
        self.directory.cleanup()

    def save(self, model, tokenizer, name):
        model.save_pretrained(self.path / name)
        tokenizer.save_pretrained(self.path / name)
        return self.path / name

    def small_llama(self):
        tokenizer = bpe()
        model = randomise(transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=len(tokenizer))))
        return model, tokenizer, self.save(model, tokenizer, "model")

    def certify(self, *words, expected=(0, 1)):
        done = run(*words, "--json", "--memory-lengths", "")
        self.assertIn(done.returncode, expected, done.stderr)
        return json.loads(done.stdout)

    def assert_near(self, ours, theirs, what, relative=2e-3, absolute=1e-6):
        self.assertLess(abs(ours - theirs), relative * abs(theirs) + absolute, f"{what}: {ours} and {theirs}")

    def compare(self, found, baseline, candidate, tokenizer, mask_of):
        ids = tokenizer(TEXT)["input_ids"]
        windows = [ids[at:at + CONTEXT] for at in range(0, len(ids), CONTEXT)]
        windows = [window for window in windows if len(window) > 1]
        divergences, same, right = [], 0, [0, 0]
        with torch.no_grad():
            for window in windows:
                tokens = torch.tensor([window])
                before = baseline(tokens).logits[0, :-1].double().log_softmax(-1)
                after = candidate(tokens, attention_mask=mask_of(len(window))).logits[0, :-1].double().log_softmax(-1)
                divergences += (before.exp() * (before - after)).sum(-1).tolist()
                same += (before.argmax(-1) == after.argmax(-1)).sum().item()
                for index, each in enumerate((before, after)):
                    right[index] += (each.argmax(-1) == tokens[0, 1:]).sum().item()
        measured = found["measurements"]["tokens"]
        ranked = sorted(divergences)
        self.assertEqual(measured["compared"], len(divergences))
        self.assert_near(measured["kl"]["mean"], sum(divergences) / len(divergences), "mean KL")
        self.assert_near(measured["kl"]["median"], ranked[(len(ranked) + 1) // 2 - 1], "median KL")
        self.assert_near(measured["kl"]["largest"], ranked[-1], "largest KL")
        self.assertAlmostEqual(measured["same_top1"], same / len(divergences), delta=2 / len(divergences))
        for name, count in zip(("baseline", "candidate"), right):
            self.assertAlmostEqual(measured[name]["top1_accuracy"], count / len(divergences), delta=2 / len(divergences))

        chosen = [windows[0], windows[len(windows) // 2]]
        squares, pairs = torch.zeros(2, dtype=torch.double), 0
        gradients = [[], []]
        for window in chosen:
            sides = [look(baseline, window), look(candidate, window, mask_of(len(window)))]
            for layer in range(2):
                squares[layer] += (sides[0][1][layer] - sides[1][1][layer]).square().sum()
            pairs += len(window) * (len(window) + 1) / 2
            for index, side in enumerate(sides):
                gradients[index].append(side[2:])
        for layer, ours in enumerate(found["measurements"]["attention"]["layers"]):
            self.assert_near(ours["mse"], squares[layer].item() / pairs / 6, "attention MSE", absolute=1e-9)
        for layer, ours in enumerate(found["measurements"]["gradients"]["layers"]):
            def by_input(side):
                return torch.cat([window[0][layer] for window in gradients[side]])

            def by_weight(side, part):
                return sum(window[1][layer][part] for window in gradients[side])

            def by_weights(side):
                return torch.cat([by_weight(side, part) for part in range(4)])
            self.assert_near(ours["input"], cosine(by_input(0), by_input(1)), "input", 1e-3)
            self.assert_near(ours["weights"], cosine(by_weights(0), by_weights(1)), "weights", 1e-3)
            for part, name in enumerate(("query", "key", "value", "output")):
                self.assert_near(ours[name], cosine(by_weight(0, part), by_weight(1, part)), name, 1e-3)

    def test_another_model_is_compared_as_transformers_would(self):
        model, tokenizer, path = self.small_llama()
        other = randomise(transformers.LlamaForCausalLM.from_pretrained(path, attn_implementation="eager"), 0.01, 2)
        candidate = self.save(other, tokenizer, "candidate")
        found = self.certify(path, candidate, "--data", self.data, "--context", CONTEXT)
        self.compare(found, model, other, tokenizer, lambda tokens: None)
        weights = (candidate / "model.safetensors").read_bytes()
        self.assertIn({"name": "model.safetensors", "bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
                      found["candidate"]["files"])
        self.assertEqual(found["data"][0]["sha256"], hashlib.sha256(TEXT.encode()).hexdigest())

    def test_a_swapped_formula_is_compared_as_transformers_would(self):
        model, tokenizer, path = self.small_llama()
        found = self.certify(path, "--attention", "last10", "--data", self.data, "--context", CONTEXT, expected=(1,))
        self.compare(found, model, model, tokenizer, last10)
        self.assertFalse(found["certified"])

    def test_an_encoder_is_held_to_its_embeddings(self):
        tokenizer = word_piece()
        model = randomise(transformers.BertModel(transformers.BertConfig(**SMALL, vocab_size=len(tokenizer)),
                                                 add_pooling_layer=False))
        path = self.save(model, tokenizer, "model")
        other = randomise(transformers.BertModel.from_pretrained(path, add_pooling_layer=False), 0.02, 2)
        candidate = self.save(other, tokenizer, "candidate")
        found = self.certify(path, candidate, "--data", self.data)["measurements"]["embeddings"]
        cosines, difference, total = [], 0, 0
        for line in filter(None, map(str.strip, TEXT.splitlines())):
            given = tokenizer(line, return_tensors="pt")
            with torch.no_grad():
                before, after = (each(**given).last_hidden_state[0].double() for each in (model, other))
            cosines.append(cosine(before.mean(0), after.mean(0)))
            difference += (before - after).square().sum().item()
            total += before.square().sum().item()
        self.assertEqual(found["texts"], len(cosines))
        self.assertAlmostEqual(found["mean_cosine"], sum(cosines) / len(cosines), delta=1e-5)
        self.assertAlmostEqual(found["lowest_cosine"], min(cosines), delta=1e-5)
        self.assert_near(found["hidden_distance"], (difference / total) ** 0.5, "hidden distance")

    def test_a_masked_model_is_compared_at_every_token(self):
        tokenizer = word_piece()
        model = randomise(transformers.BertForMaskedLM(transformers.BertConfig(**SMALL, vocab_size=len(tokenizer))))
        path = self.save(model, tokenizer, "model")
        found = self.certify(path, path, "--data", self.data, "--context", CONTEXT, expected=(0,))
        measured = found["measurements"]["tokens"]
        self.assertGreater(measured["compared"], 4 * measured["baseline"]["tokens"])
        self.assertEqual(measured["kl"]["largest"], 0)

    def test_certificates_and_exit_codes(self):
        _, _, path = self.small_llama()
        out = self.path / "out"
        same = run(path, path, "--data", self.data, "--out", out, "--memory-lengths", "256",
                   "--task", "recall", "--max-perplexity-change", "0")
        self.assertEqual(same.returncode, 0, same.stderr)
        self.assertIn("certified: all", same.stdout)
        found = json.loads((out / "certificate.json").read_text())
        self.assertTrue(found["certified"])
        self.assertIn("--memory-lengths 256 --task recall --max-perplexity-change 0", found["command"])
        self.assertEqual([point["training"] for point in found["measurements"]["memory"]["points"]], [False, True])
        page = (out / "certificate.html").read_text()
        html.parser.HTMLParser().feed(page)
        for word in ("src=", "href=", "<script", "@import"):
            self.assertNotIn(word, page)
        swapped = run(path, "--attention", "last10", "--data", self.data, "--context", CONTEXT, "--memory-lengths", "")
        self.assertEqual(swapped.returncode, 1, swapped.stderr)
        self.assertIn("not certified", swapped.stdout)
        loose = run(path, "--attention", "last10", "--data", self.data, "--context", CONTEXT, "--memory-lengths", "",
                    "--min-accuracy", "0", "--max-attention-mse", "1", "--min-gradient-cosine", "-1", "--max-kl", "99")
        self.assertEqual(loose.returncode, 0, loose.stdout + loose.stderr)

    def test_the_command_in_a_certificate_makes_it_again(self):
        _, _, path = self.small_llama()
        data = self.path / "a text's name.txt"
        data.write_text(TEXT)
        first = self.certify(path, "--attention", "window", "--set", "w=20", "--layers", "1", "--data", data)
        again = subprocess.run(first["command"].replace("saccade", PROGRAM, 1) + " --json", shell=True,
                               capture_output=True, text=True, timeout=300)
        self.assertEqual(again.returncode, 1, again.stderr)
        second = json.loads(again.stdout)
        self.assertEqual(second["command"], first["command"])
        for name in ("tokens", "attention", "gradients"):
            self.assertEqual(second["measurements"][name], first["measurements"][name])

    def test_mistakes_are_named(self):
        model, _, path = self.small_llama()
        headless = self.save(model.model, bpe(), "headless")
        tokenizer = bpe(300)
        smaller = self.save(transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=len(tokenizer))), tokenizer, "smaller")
        empty, short = self.path / "empty.txt", self.path / "short.txt"
        empty.write_text("\n")
        short.write_text("a")
        for words, message in (
                ([path, "--data", self.data], "name a candidate, or a formula with --attention"),
                ([path, path], "name one with --data"),
                ([path, path, "--data", empty], "empty.txt: it is empty; expected a text"),
                ([path, path, "--data", short], "1 token in the text; expected at least 2"),
                ([path, smaller, "--data", self.data], "tokens and"),
                ([path, headless, "--data", self.data], "head"),
                ([path, path, "--data", self.data, "--context", "300"], "the model was made for 256"),
                ([path, path, "--data", self.data, "--memory-lengths", "many"], "cannot read 'many'"),
                ([path, path, "--data", self.data, "--max-kl", "-1"], "--max-kl"),
                ([path, self.path / "nowhere", "--data", self.data], "nowhere")):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
