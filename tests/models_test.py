"""Our models beside the `transformers` package: logits, hidden states, loss and gradients for each family, on random
weights of the real shape scaled down; real weights are in real_models_test.py. Exits with 77, which ctest shows as
skipped, when a package is missing."""
import json
import pathlib
import sys
import tempfile
import unittest

from probe import probe

PROBE = sys.argv[1]
sys.argv = sys.argv[:1]
try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

SMALL = dict(num_hidden_layers=3, hidden_size=48, intermediate_size=80, num_attention_heads=6, vocab_size=97)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}


def llama(**options):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SMALL, "num_key_value_heads": 2, **options}))


# Name, and a function that makes the model.
FAMILIES = {
    "llama": lambda: llama(),
    "llama with biases": lambda: llama(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama 3": lambda: llama(rope_parameters=LLAMA3, max_position_embeddings=256, head_dim=16),
    "llama, linear": lambda: llama(rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}),
    "qwen 2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL, num_key_value_heads=2)),
    "qwen 3": lambda: transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(**SMALL, num_key_value_heads=3, head_dim=16, tie_word_embeddings=True)),
    "gemma 3": lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        **{**SMALL, "num_hidden_layers": 7}, num_key_value_heads=2, head_dim=16, sliding_window=8,
        query_pre_attn_scalar=24, final_logit_softcapping=5.0)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=3, n_embd=48, n_head=4, vocab_size=97, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
}
BERT = dict(**SMALL, max_position_embeddings=64, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
ENCODERS = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**BERT), add_pooling_layer=False),
    "masked bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**BERT)),
    "labelling bert": lambda: transformers.BertForSequenceClassification(transformers.BertConfig(**BERT, num_labels=5)),
}


def randomise(model):
    """Norms and biases start at 1 and 0, which would hide mistakes."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


def ids_for(model, batch=2, tokens=21):
    return torch.randint(0, model.config.vocab_size, (batch, tokens), generator=torch.Generator().manual_seed(2))


class Parity(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)  # of what models start from
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def near(self, ours, theirs, what, tolerance=2e-4):
        self.assertEqual(tuple(ours.shape), tuple(theirs.shape), what)
        difference = (ours - theirs).abs().max().item() / max(1e-3, theirs.abs().max().item())
        self.assertLess(difference, tolerance, what)

    def test_decoders(self):
        for name, make in FAMILIES.items():
            with self.subTest(name):
                torch.manual_seed(0)
                model = randomise(make())
                model.save_pretrained(self.path / name)
                ids = ids_for(model)
                with torch.no_grad():
                    theirs = model(ids, output_hidden_states=True)
                saved, gradients = self.path / (name + " saved"), self.path / (name + " gradients")
                ours = probe(PROBE, self.path / name, "decode", "save", saved, "gradients", gradients, ids=ids)
                for layer, hidden in enumerate(theirs.hidden_states):
                    self.near(ours[f"hidden.{layer}"], hidden, f"{name}, hidden states {layer}")
                self.near(ours["logits"], theirs.logits, f"{name}, logits")
                self.near(ours["decoded"], theirs.logits, f"{name}, logits through the cache")

                loss = model(ids, labels=ids).loss
                loss.backward()
                self.near(ours["loss"], loss.detach().reshape(1), f"{name}, loss", 1e-5)
                written = load_file(gradients / "model.safetensors")
                for key, parameter in model.named_parameters():
                    gradient = written[key] + 1 if "gemma" in name and key.endswith("norm.weight") else written[key]
                    self.near(gradient, parameter.grad, f"{name}, gradient of {key}", 2e-3)

                # What we write, transformers loads, and it is the same model.
                again = transformers.AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32).eval()
                with torch.no_grad():
                    self.assertTrue(torch.allclose(again(ids).logits, theirs.logits, atol=1e-5), f"{name}, written")

    def test_padding_on_the_left_changes_nothing(self):
        for name, make in FAMILIES.items():
            with self.subTest(name):
                torch.manual_seed(0)
                model = randomise(make())
                model.save_pretrained(self.path / name)
                ids = ids_for(model, tokens=12)
                mask = torch.ones_like(ids)
                mask[0, :5] = 0
                padded = probe(PROBE, self.path / name, "decode", ids=ids, mask=mask)
                alone = probe(PROBE, self.path / name, ids=ids[:1, 5:])
                for key in ("logits", "decoded"):
                    self.near(padded[key][:1, 5:], alone["logits"], f"{name}, {key}")

    def test_encoders(self):
        for name, make in ENCODERS.items():
            with self.subTest(name):
                torch.manual_seed(0)
                model = randomise(make())
                model.save_pretrained(self.path / name)
                ids = ids_for(model)
                mask, types = torch.ones_like(ids), (torch.arange(21) > 9).long().expand(2, -1)
                mask[1, 15:] = 0
                with torch.no_grad():
                    theirs = model(ids, attention_mask=mask, token_type_ids=types, output_hidden_states=True)
                saved = self.path / (name + " saved")
                ours = probe(PROBE, self.path / name, "save", saved, ids=ids, mask=mask, types=types)
                real = mask.bool()
                for layer, hidden in enumerate(theirs.hidden_states):
                    self.near(ours[f"hidden.{layer}"][real], hidden[real], f"{name}, hidden states {layer}")
                if name == "masked bert":
                    self.near(ours["logits"][real], theirs.logits[real], name)
                elif name == "labelling bert":
                    self.near(ours["labels"], theirs.logits, name)
                again = type(model).from_pretrained(saved, dtype=torch.float32, **({"add_pooling_layer": False} if name == "bert" else {})).eval()
                with torch.no_grad():
                    repeated = again(ids, attention_mask=mask, token_type_ids=types)
                self.assertTrue(torch.allclose(repeated[0], theirs[0], atol=1e-5), f"{name}, written")

    def test_swapping_in_causal_changes_no_bit(self):
        for name in ("llama", "gpt2", "qwen 3"):
            model = randomise(FAMILIES[name]())
            model.save_pretrained(self.path / name)
            ids = ids_for(model)
            plain, swapped = probe(PROBE, self.path / name, ids=ids), probe(PROBE, self.path / name, "attention", "causal", ids=ids)
            self.assertTrue(torch.equal(plain["logits"], swapped["logits"]), name)
            window = probe(PROBE, self.path / name, "attention", "last10", ids=ids)
            self.assertFalse(torch.allclose(plain["logits"], window["logits"], atol=1e-3), name)

    def test_clear_words_for_what_cannot_be_loaded(self):
        model = FAMILIES["llama"]()
        model.save_pretrained(self.path / "model")
        config = json.loads((self.path / "model/config.json").read_text())
        ids = ids_for(model)

        def refuses(text, **changes):
            (self.path / "model/config.json").write_text(json.dumps({**config, **changes}))
            with self.assertRaisesRegex(RuntimeError, text):
                probe(PROBE, self.path / "model", ids=ids)

        refuses("the architecture 'mamba' is not known; known are llama", model_type="mamba")
        refuses("expected default, linear or llama3", rope_parameters={"rope_type": "yarn", "factor": 2.0})
        refuses("hidden_act", hidden_act="tanhshrink")
        refuses("has shape", hidden_size=96)
        refuses("num_hidden_layers", num_hidden_layers=0)
        refuses("there is no tensor|no tensor", num_hidden_layers=4)
        refuses("has no place in a llama model", num_hidden_layers=2)
        with self.assertRaisesRegex(RuntimeError, "token 97; expected 0 to 96"):
            (self.path / "model/config.json").write_text(json.dumps(config))
            probe(PROBE, self.path / "model", ids=torch.full((1, 2), 97))


unittest.main(verbosity=2)
