"""Formulas in models of the transformers package: logits with and without cache, training, saving and loading, padding, generate() and
Trainer. Models are small and random; nothing is downloaded."""

import pathlib
import tempfile
import unittest
import warnings

import support

support.require("transformers", "accelerate")

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, DynamicCache, StaticCache

import saccade
from saccade import hugging_face
from support import normal

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
saccade.register_with_transformers()

VOCABULARY, TOKENS = 37, 11
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 6}
CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=4, n_positions=64, attn_pdrop=0.0, embd_pdrop=0.0,
                                            resid_pdrop=0.0, bos_token_id=1, eos_token_id=2, pad_token_id=0),
    "llama": lambda: transformers.LlamaConfig(**GROUPED),
    "qwen2": lambda: transformers.Qwen2Config(**{k: v for k, v in GROUPED.items() if k != "head_dim"}),
    "qwen3": lambda: transformers.Qwen3Config(**GROUPED),
    "gemma3": lambda: transformers.Gemma3TextConfig(**GROUPED, sliding_window=5, query_pre_attn_scalar=16,
                                                    layer_types=["sliding_attention", "full_attention"]),
    "bert": lambda: transformers.BertConfig(**SMALL, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0),
}
DECODABLE = [name for name, formula in saccade.mechanisms().items() if formula.decodes]


def build(family, implementation="sdpa", seed=0):
    torch.manual_seed(seed)
    kind = AutoModelForMaskedLM if family == "bert" else AutoModelForCausalLM
    config = CONFIGS[family]()
    config.initializer_range = 0.2  # attention matters from the start
    return kind.from_config(config, attn_implementation=implementation)


def tokens(batch=2, length=TOKENS, seed=3):
    return torch.randint(3, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def inputs_of(formula, length):
    every = {"doc": torch.arange(length) // 4, "global": torch.arange(length) % 3 == 0, "lo": torch.arange(length) + 2,
             "hi": torch.arange(length) + 4, "keep": torch.ones(4, 1, 1, dtype=torch.bool)}
    return {table.name: every[table.name] for table in formula.inputs}


def with_cache(model, ids, cache=None, sizes=(4, 1, 3, 1, 2)):
    """The logits of all tokens, given in chunks to a cache."""
    cache, parts, first = cache or DynamicCache(config=model.config), [], 0
    for size in sizes:
        parts.append(model(ids[:, first:first + size], past_key_values=cache, use_cache=True).logits)
        first += size
    return torch.cat(parts, 1)


class EveryMechanism(unittest.TestCase):
    def test_logits_do_not_depend_on_a_cache(self):
        for family in ("gpt2", "llama"):
            for name in DECODABLE:
                with self.subTest(family=family, mechanism=name), torch.no_grad():
                    model = build(family, f"saccade:{name}").eval()
                    with hugging_face.given(model, **inputs_of(saccade.formula(name), 64)):
                        torch.testing.assert_close(with_cache(model, tokens()), model(tokens()).logits, atol=2e-5, rtol=1e-4)

    def test_training_for_20_steps_and_saving(self):
        for family in ("gpt2", "llama"):
            for name in DECODABLE:
                with self.subTest(family=family, mechanism=name):
                    model = build(family, f"saccade:{name}").train()
                    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
                    losses = []
                    with hugging_face.given(model, **inputs_of(saccade.formula(name), 64)):
                        for _ in range(20):
                            optimizer.zero_grad()
                            loss = model(tokens(), labels=tokens()).loss
                            loss.backward()
                            optimizer.step()
                            losses.append(float(loss.detach()))
                        self.assertLess(losses[-1], 0.7 * losses[0])
                        learned = {n: p for n, p in model.named_parameters() if ".saccade." in n}
                        self.assertTrue(all(p.grad is not None for p in learned.values()))
                        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                            model.eval().save_pretrained(folder)
                            again = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=f"saccade:{name}").eval()
                            for n, p in learned.items():
                                torch.testing.assert_close(again.get_parameter(n), p)
                            with hugging_face.given(again, **inputs_of(saccade.formula(name), 64)):
                                torch.testing.assert_close(again(tokens()).logits, model(tokens()).logits)


class Families(unittest.TestCase):
    def test_plain_softmax_is_what_the_model_had(self):
        for family in CONFIGS:
            with self.subTest(family), torch.no_grad():
                plain = build(family).eval()
                ours = build(family, "saccade:" + ("full" if family == "bert" else "causal")).eval()
                ours.load_state_dict(plain.state_dict())
                torch.testing.assert_close(ours(tokens()).logits, plain(tokens()).logits, atol=1e-5, rtol=1e-4)
                mask = torch.ones(2, TOKENS, dtype=torch.long)
                mask[0, :3] = 0
                found, expected = (model(tokens(), attention_mask=mask).logits for model in (ours, plain))
                torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-4)

    def test_gradients_are_those_of_the_model(self):
        for family in ("gpt2", "llama", "gemma3", "bert"):
            plain = build(family)
            ours = build(family, "saccade:" + ("full" if family == "bert" else "causal"))
            ours.load_state_dict(plain.state_dict())
            for model in (plain, ours):
                model.eval()(tokens()).logits.square().mean().backward()
            for (name, one), other in zip(plain.named_parameters(), ours.parameters()):
                with self.subTest(family, parameter=name):
                    torch.testing.assert_close(other.grad, one.grad, atol=1e-6, rtol=1e-3)

    def test_caches_of_every_family(self):
        for family in ("qwen2", "qwen3", "gemma3"):
            for name in ("prior", "sink_window", "diff", "relu2"):
                with self.subTest(family=family, mechanism=name), torch.no_grad():
                    model = build(family, f"saccade:{name}").eval()
                    torch.testing.assert_close(with_cache(model, tokens()), model(tokens()).logits, atol=2e-5, rtol=1e-4)

    def test_a_static_cache(self):
        with torch.no_grad():
            model = build("llama", "saccade:prior").eval()
            cache = StaticCache(config=model.config, max_cache_len=16)
            torch.testing.assert_close(with_cache(model, tokens(), cache), model(tokens()).logits, atol=2e-5, rtol=1e-4)
            model = build("llama", "saccade:fox").eval()
            with self.assertRaisesRegex(ValueError, "the formula 'fox' remembers the layer's input, which a static cache cannot hold"):
                with_cache(model, tokens(), StaticCache(config=model.config, max_cache_len=16))

    def test_an_encoder_looks_ahead(self):
        with torch.no_grad():
            model = build("bert", "saccade:alibi").eval()
            ids = tokens(1)
            other = ids.clone()
            other[0, -1] = 5 if ids[0, -1] != 5 else 6
            self.assertGreater(float((model(ids).logits - model(other).logits)[0, 0].abs().max()), 1e-6)

    def test_attention_weights(self):
        model = build("llama", "saccade:prior").eval()
        weights = model(tokens(), output_attentions=True).attentions
        self.assertEqual(len(weights), 2)
        torch.testing.assert_close(weights[0].sum(-1), torch.ones(2, 4, TOKENS))

    def test_padding_in_front_takes_no_positions(self):
        ids = tokens(1, 7)
        padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), ids), 1)
        mask = (padded != 0).long()
        places = (mask.cumsum(1) - 1).clamp(min=0)
        for name in ("prior", "relu2", "diff", "mask = causal and (j < 2 or d < 2)"):
            with self.subTest(name), torch.no_grad():
                model = saccade.swap(build("llama"), name).eval()
                expected = model(ids).logits
                torch.testing.assert_close(model(padded, attention_mask=mask, position_ids=places).logits[:, 3:], expected, atol=2e-5, rtol=1e-4)
                cache = DynamicCache(config=model.config)
                model(padded[:, :8], attention_mask=mask[:, :8], position_ids=places[:, :8], past_key_values=cache)
                last = model(padded[:, 8:], attention_mask=mask, position_ids=places[:, 8:], past_key_values=cache).logits
                torch.testing.assert_close(last, expected[:, 5:], atol=2e-5, rtol=1e-4)

    def test_packed_sequences_do_not_see_each_other(self):
        model = build("llama", "saccade:prior").eval()
        ids = tokens(1, 8)
        with torch.no_grad():
            packed = model(ids, position_ids=torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]]), use_cache=False).logits
            torch.testing.assert_close(packed[:, 4:], model(ids[:, 4:]).logits, atol=1e-5, rtol=1e-4)


class Conformance(unittest.TestCase):
    def test_functions_of_transformers_can_be_checked(self):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        layer = build("llama").eval().model.layers[0].self_attn

        def attention(query, key, value):
            return sdpa_attention_forward(layer, query, key, value, None, scaling=8 ** -0.5)[0].transpose(1, 2)

        result = saccade.check(attention, heads=4, kv_heads=2, against="causal")
        self.assertTrue(result, str(result))
        with self.assertRaisesRegex(AssertionError, "multiplied by 1; expected 0.3536"):
            saccade.testing.assert_conforms(lambda q, k, v: sdpa_attention_forward(layer, q, k, v, None, scaling=1.0)[0].transpose(1, 2), kv_heads=2)


class Generation(unittest.TestCase):
    def test_greedy_beams_and_padding(self):
        for family in ("gpt2", "llama"):
            for name in ("prior", "fox", "sink_window", "relu2", "logn"):
                with self.subTest(family=family, mechanism=name):
                    model = build(family, f"saccade:{name}").eval()
                    ids, settings = tokens(1, 5), {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
                    cached = model.generate(ids, **settings)
                    self.assertEqual(cached.tolist(), model.generate(ids, use_cache=False, **settings).tolist())
                    beams = model.generate(ids, num_beams=3, **settings)
                    self.assertEqual(beams.tolist(), model.generate(ids, num_beams=3, use_cache=False, **settings).tolist())
                    # Padding in front changes nothing, also where positions count.
                    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), ids), 1)
                    mask = (padded != 0).long()
                    self.assertEqual(model.generate(padded, attention_mask=mask, **settings)[:, 3:].tolist(), cached.tolist())


class Loading(unittest.TestCase):
    def test_a_pretrained_model_gets_the_start_values(self):
        with tempfile.TemporaryDirectory() as folder:
            build("llama").save_pretrained(folder)
            for name, start in (("prior", {"alpha": 1.0, "beta": 1.0}), ("sink_logit", {"z": 0.0}), ("diff", {"lam": 0.8})):
                model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=f"saccade:{name}")
                for layer in model.model.layers:
                    learned = layer.self_attn.saccade.learned()
                    for parameter, value in start.items():
                        torch.testing.assert_close(learned[parameter].detach(), torch.full((4,), value))
                    if name == "diff":
                        weight = learned["q2.project.weight"].detach()
                        self.assertTrue(bool(weight.isfinite().all()) and 0 < float(weight.abs().max()) <= 24 ** -0.5)

    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.attn"
            path.write_text("param a[head] = 0.25\nmask = causal\nscore = s - a * d\n")
            model = build("llama", f"saccade:{path}").eval()
            self.assertIn("model.layers.1.self_attn.saccade.a", model.state_dict())
            with torch.no_grad():
                torch.testing.assert_close(with_cache(model, tokens()), model(tokens()).logits, atol=2e-5, rtol=1e-4)

    def test_mistakes(self):
        with self.assertRaisesRegex(ValueError, "'alibii' is neither a file nor a shipped mechanism; did you mean 'alibi'?"):
            build("llama", "saccade:alibii")
        model = build("llama", "saccade:document").eval()
        with self.assertRaisesRegex(ValueError, "the formula 'document' needs the input 'doc'"):
            model(tokens())
        with self.assertRaisesRegex(ValueError, "LlamaForCausalLM has no formula"):
            saccade.restore(build("llama"))
        with self.assertRaisesRegex(ValueError, "Linear has no self-attention layer"):
            saccade.swap(torch.nn.Linear(2, 2), "prior")
        bart = transformers.BartForConditionalGeneration(transformers.BartConfig(
            vocab_size=37, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16,
            decoder_ffn_dim=16, max_position_embeddings=32))
        with self.assertRaisesRegex(ValueError, "BartForConditionalGeneration is an encoder-decoder"):
            saccade.swap(bart, "prior")
        capped = transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**GROUPED, query_pre_attn_scalar=6)).eval()
        with self.assertRaisesRegex(ValueError, "the model caps its scores at 50.0, which the formula replaces"):
            saccade.swap(capped, "prior")(tokens())


class Swapping(unittest.TestCase):
    def test_there_and_back(self):
        for family in ("gpt2", "llama", "gemma3", "bert"):
            with self.subTest(family), torch.no_grad():
                model = build(family).eval()
                before, names = model(tokens()).logits, set(model.state_dict())
                self.assertIs(saccade.swap(model, "prior"), model)
                changed = model(tokens()).logits
                self.assertGreater(float((changed - before).abs().max()), 1e-4)
                self.assertEqual(sum(".saccade." in name for name in model.state_dict()), 4)
                saccade.swap(model, "mask = causal\nscore = s - 0.5 * d")
                self.assertFalse(any(".saccade." in name for name in model.state_dict()))
                saccade.restore(model)
                self.assertEqual(set(model.state_dict()), names)
                torch.testing.assert_close(model(tokens()).logits, before)

    def test_a_model_that_came_with_a_formula_goes_back_to_none(self):
        with torch.no_grad():
            model = saccade.swap(build("llama", "saccade:prior"), "window")
            saccade.restore(model)
            self.assertEqual(model.config._attn_implementation, "sdpa")
            self.assertEqual(set(model.state_dict()), set(build("llama").state_dict()))
            model(tokens())

    def test_a_python_function(self):
        with torch.no_grad():
            model, other = build("llama").eval(), build("llama").eval()
            saccade.swap(model, saccade.trace(lambda s, d: s - 0.5 * d, mask="causal"))
            saccade.swap(other, "mask = causal; score = s - 0.5 * d")
            torch.testing.assert_close(model(tokens()).logits, other(tokens()).logits)

    def test_set_attn_implementation_follows(self):
        model = build("llama").eval()
        model.set_attn_implementation("saccade:prior")
        self.assertIn("model.layers.0.self_attn.saccade.alpha", model.state_dict())
        model(tokens())


class Training(unittest.TestCase):
    def test_trainer_with_checkpointing_of_activations(self):
        rows = [{"input_ids": row, "labels": row} for row in tokens(8, 9).tolist()]
        for checkpointing in (False, True):
            model = build("llama", "saccade:prior")
            start = {n: p.detach().clone() for n, p in model.named_parameters() if ".saccade." in n}
            with tempfile.TemporaryDirectory() as folder:
                arguments = transformers.TrainingArguments(folder, max_steps=6, learning_rate=5e-2, per_device_train_batch_size=4, report_to=[],
                                                           save_strategy="no", logging_steps=1, use_cpu=True, disable_tqdm=True,
                                                           gradient_checkpointing=checkpointing, log_level="error")
                trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    trainer.train()
            losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
            self.assertLess(losses[-1], losses[0])
            for name, value in start.items():
                self.assertGreater(float((model.get_parameter(name).detach() - value).abs().max()), 0, name)

    def test_bounds_hold(self):
        model = build("llama", "saccade:prior")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
        model(tokens(), labels=tokens()).loss.backward()
        optimizer.step()
        for layer in model.model.layers:
            beta = layer.self_attn.saccade.beta
            self.assertTrue(bool(((0.01 <= beta) & (beta <= 4)).all()))


if __name__ == "__main__":
    support.main()
