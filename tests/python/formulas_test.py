"""Formulas as Python objects: what is known of them, their errors, Python functions traced to them, and how they look."""

import math
import pathlib
import pickle
import tempfile
import unittest
import warnings
import xml.etree.ElementTree

import support

support.require()

import torch

import saccade
from support import normal, qkv

MECHANISMS = pathlib.Path(__file__).parents[2] / "mechanisms"


class Facts(unittest.TestCase):
    def test_all_mechanisms_are_there_with_their_text(self):
        files = {path.stem: path.read_text() for path in MECHANISMS.glob("*.attn")}
        self.assertEqual({name: formula.text for name, formula in saccade.mechanisms().items()}, files)

    def test_params_inputs_and_decoding(self):
        prior, document, full = (saccade.formula(name) for name in ("prior", "document", "full"))
        self.assertEqual([str(table) for table in prior.params], ["alpha[head]", "beta[head]"])
        self.assertEqual((prior.params[1].low, prior.params[1].high), (0.01, 4))
        self.assertEqual((prior.params[0].low, prior.params[0].high), (-math.inf, math.inf))
        self.assertEqual([str(table) for table in document.inputs], ["doc[token]: int"])
        self.assertTrue(prior.decodes and document.decodes)
        self.assertFalse(full.decodes)
        self.assertIn("later tokens" if "later" in full.decoding_reason else "mask", full.decoding_reason)
        self.assertEqual(saccade.formula("last10").ring, 10)

    def test_what_a_formula_reads(self):
        facts = {name: saccade.formula(name) for name in ("alibi", "sink_window", "ape", "fox", "off_by_one", "document", "block_list")}
        self.assertEqual({name for name, f in facts.items() if f.uses_places}, {"sink_window", "block_list"})
        self.assertEqual({name for name, f in facts.items() if f.uses_length}, {"ape"})
        self.assertEqual({name for name, f in facts.items() if f.needs_layer_input}, {"fox"})
        self.assertEqual({name for name, f in facts.items() if f.keeps_running_sums}, {"fox"})

    def test_constants_can_be_set(self):
        self.assertEqual(saccade.formula("window").constants, {"w": 256})
        narrow = saccade.formula("window", set={"w": 3})
        self.assertEqual((narrow.constants, narrow.ring), ({"w": 3}, 3))
        self.assertNotEqual(narrow, saccade.formula("window"))
        with self.assertRaisesRegex(TypeError, "formula: 'w' is set to '3'; expected a number"):
            saccade.formula("window", set={"w": "3"})
        self.assertEqual(narrow, saccade.formula(saccade.formula("window"), set={"w": 3}))

    def test_a_file_by_name_and_by_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.attn"
            path.write_text("mask = causal\nscore = 2 * s\n")
            self.assertEqual(saccade.formula(path), saccade.formula(str(path)))
            self.assertEqual(saccade.formula(path).name, str(path))
            path.write_text("mask = causal\nscore = 3 * s\n")
            self.assertIn("3", saccade.formula(str(path)).weights)

    def test_it_can_be_pickled(self):
        self.assertEqual(pickle.loads(pickle.dumps(saccade.formula("prior"))), saccade.formula("prior"))

    def test_an_explanation_names_the_derivatives(self):
        text = saccade.formula("prior").explain(length=1024)
        self.assertIn("alpha", text)
        self.assertIn("1024", text)

    def test_the_language_is_documented(self):
        self.assertEqual(saccade.language().strip(), (MECHANISMS.parent / "docs" / "language.md").read_text().strip())


class Mistakes(unittest.TestCase):
    def test_a_missing_file_is_told_as_one(self):
        with self.assertRaisesRegex(FileNotFoundError, "nowhere.attn"):
            saccade.formula("nowhere.attn")

    def test_all_are_shown_with_a_caret(self):
        with self.assertRaises(saccade.FormulaError) as caught:
            saccade.formula("param alpha[head] = 1\nscore = s - abs(aplha * d)\nmask = causl", name="mine.attn")
        text = str(caught.exception)
        self.assertIn("mine.attn:2:17: unknown name 'aplha'; did you mean 'alpha'?\n    score = s - abs(aplha * d)\n                    ^^^^^", text)
        self.assertIn("mine.attn:3:8: unknown name 'causl'; did you mean 'causal'?", text)
        self.assertEqual(len(caught.exception.diagnostics), 2)
        self.assertIsInstance(caught.exception, ValueError)

    def test_an_unknown_name(self):
        with self.assertRaisesRegex(ValueError, "'alibii' is neither a file nor a shipped mechanism; did you mean 'alibi'?"):
            saccade.formula("alibii")

    def test_an_unknown_constant(self):
        with self.assertRaisesRegex(saccade.FormulaError, "v"):
            saccade.formula("window", set={"v": 3})

    def test_what_is_no_formula(self):
        with self.assertRaisesRegex(TypeError, "formula: got int; expected text"):
            saccade.formula(3)


def same_output(test, formula, expected, **call):
    q, k, v = qkv()
    torch.testing.assert_close(saccade.attention(q, k, v, formula, **call), expected(q, k, v))


class Tracing(unittest.TestCase):
    def test_a_lambda_is_its_formula(self):
        traced = saccade.trace(lambda s, d, alpha=1, beta=1: s - abs(alpha * d) ** beta, mask="causal")
        self.assertEqual([str(table) for table in traced.params], ["alpha[head]", "beta[head]"])
        same_output(self, traced, lambda q, k, v: saccade.attention(q, k, v, saccade.formula("prior")))

    def test_params_of_a_call_say_their_shape(self):
        q, k, v = qkv()
        alpha, beta = normal(4, seed=5).abs(), torch.tensor(1.5, dtype=torch.float64)
        found = saccade.attention(q, k, v, lambda s, d, alpha, beta: s - abs(alpha * d) ** beta, params={"alpha": alpha, "beta": beta})
        expected = saccade.attention(q, k, v, "param alpha[head] = 0\nparam beta = 0\nscore = s - abs(alpha * d) ^ beta",
                                     params={"alpha": alpha, "beta": beta})
        torch.testing.assert_close(found, expected)

    def test_masks_weights_and_functions(self):
        traced = saccade.trace(mask=lambda i, j, d: (d >= 0) & ((j < 2) | ~(d > 3)), weights=lambda s, i: torch.relu(s) ** 2 / (i + 1))
        same_output(self, traced, lambda q, k, v: saccade.attention(
            q, k, v, "mask = causal and (j < 2 or d <= 3)\nweights = relu(s) ^ 2 / (i + 1)"))

    def test_every_function(self):
        def score(s, d, h):
            near = torch.where(d < 2, torch.tanh(s), torch.sigmoid(s) + torch.log1p(torch.abs(d)))
            return near.clamp(-3, 3) + torch.minimum(torch.sqrt(abs(d)), torch.exp(-d.float())) - torch.maximum(torch.sin(d), torch.cos(h)).square() \
                + (d // 2 % 3) - 1 / (2 + abs(d)) + torch.sign(s) * torch.floor(s) - torch.clamp(s, max=1) + (+s) * 2 ** -abs(d) \
                + torch.log2(abs(d) + 1.0) * torch.rsqrt(abs(d) + 1.0) + torch.reciprocal(abs(d) + 3) + torch.exp2(-abs(d)) + s.new_ones(())
        text = ("score = min(max(where(d < 2, tanh(s), sigmoid(s) + log1p(abs(d))), -3), 3) + min(sqrt(abs(d)), exp(-d)) - max(sin(d), cos(h)) ^ 2"
                " + (d // 2 % 3) - 1 / (2 + abs(d)) + sign(s) * floor(s) - min(s, 1) + s * 2 ^ (-abs(d))"
                " + log(abs(d) + 1) / log(2) / sqrt(abs(d) + 1) + 1 / (abs(d) + 3) + 2 ^ (-abs(d)) + 1")
        same_output(self, saccade.trace(score), lambda q, k, v: saccade.attention(q, k, v, text))

    def test_flex_attention_functions_with_tensors_they_close_over(self):
        slopes, documents = normal(4, seed=3).abs(), torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 2]])

        def score_mod(score, b, h, q_idx, kv_idx):
            return score - slopes[h] * (q_idx - kv_idx)

        def mask_mod(b, h, q_idx, kv_idx):
            return (q_idx >= kv_idx) & (documents[b, q_idx] == documents[b, kv_idx])

        q, k, v = qkv(kv_heads=4)
        place = torch.arange(7)
        allowed = (place[:, None] >= place) & (documents[:, :, None] == documents[:, None])
        bias = -slopes[:, None, None] * (place[:, None] - place)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(8) + bias).masked_fill(~allowed[:, None], -math.inf)
        expected = torch.softmax(scores, -1) @ v
        torch.testing.assert_close(saccade.attention(q, k, v, saccade.from_flex(score_mod, mask_mod)), expected)

    def test_flex_attention_itself_gives_the_same(self):
        from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention, or_masks

        slopes = normal(4, seed=3).abs()

        def score_mod(score, b, h, q_idx, kv_idx):
            near = torch.tanh(score) + torch.exp2(-((h + 1) * 8.0 / 4)) * (kv_idx - q_idx)
            return torch.where(q_idx - kv_idx < 3, near, score - slopes[h] * torch.log1p((q_idx - kv_idx).abs()))

        def causal(b, h, q_idx, kv_idx):
            return q_idx >= kv_idx

        mask_mod = and_masks(causal, or_masks(lambda b, h, q_idx, kv_idx: kv_idx < 2, lambda b, h, q_idx, kv_idx: q_idx - kv_idx <= 4))
        q, k, v = qkv(kv_heads=4)
        block_mask = create_block_mask(mask_mod, None, None, 7, 7, device="cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is not compiled
            expected = flex_attention(q, k, v, score_mod, block_mask)
        torch.testing.assert_close(saccade.attention(q, k, v, saccade.from_flex(score_mod, mask_mod)), expected)
        torch.testing.assert_close(saccade.attention(q, k, v, saccade.from_flex(score_mod, block_mask)), expected)
        torch.testing.assert_close(saccade.attention(q, k, v, causal), saccade.attention(q, k, v, "causal"))
        with self.assertRaisesRegex(TypeError, "from_flex: score_mod is of type int; expected a function"):
            saccade.from_flex(3)

    def test_a_flex_score_is_known_by_its_first_argument(self):
        traced = saccade.trace(lambda score, b, h, q_idx, kv_idx: score + (kv_idx - q_idx), mask="causal")
        same_output(self, traced, lambda q, k, v: saccade.attention(q, k, v, "mask = causal\nscore = s - d"))

    def test_what_a_function_closes_over_gets_a_gradient(self):
        slopes = normal(4, seed=3).abs().requires_grad_()
        q, k, v = qkv()
        traced = saccade.from_flex(lambda score, b, h, i, j: score - slopes[h] * abs(i - j))
        found, = torch.autograd.grad(saccade.attention(q, k, v, traced).square().sum(), slopes)
        other = slopes.detach().requires_grad_()
        expected, = torch.autograd.grad(
            saccade.attention(q, k, v, "score = s - a * abs(d)", params={"a": other}).square().sum(), other)
        torch.testing.assert_close(found, expected)

    def test_what_cannot_be_traced_is_refused_with_the_reason(self):
        table = torch.ones(3, 3)
        for error, message, function in (
                (TypeError, r"Python asks whether '\(d > 3\)' holds.*torch.where", lambda s, d: s if d > 3 else 0),
                (TypeError, "Python asks whether.*torch.minimum", lambda s, d: s - min(d, 3)),
                (TypeError, "math module got 'd'.*use that of torch", lambda s, d: s - math.log(d)),
                (ValueError, "'erf' cannot be written as a formula", lambda s: torch.erf(s)),
                (ValueError, r"tensor of shape \[3, 3\] cannot be part", lambda s: s + table),
                (ValueError, r"shape \[3, 3\] is indexed by 1 numbers; expected 2", lambda s, i: s + table[i]),
                (ValueError, "cannot read the number of the sequence", lambda score, b, h, q_idx, kv_idx: score + b),
                (ValueError, "a tensor of shape 3 cannot be part of a formula", lambda s: s + s.new_ones(3)),
                (TypeError, "the arguments of .* have no names", lambda *scores: scores[0]),
                (TypeError, "str cannot be part of a formula", lambda s: s + "1"),
                (AttributeError, "'sum' of 's' cannot be written as a formula", lambda s: s.sum()),
                (TypeError, "the param 'a' starts at 'x'; expected a number", lambda s, a="x": s),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                saccade.trace(function)
        with self.assertRaisesRegex(TypeError, "nothing to trace"):
            saccade.trace()


class Looks(unittest.TestCase):
    def test_a_formula_is_html_with_its_signs_escaped(self):
        page = saccade.formula("mask = 0 <= d < 3\nparam a[head] = 1\nscore = a * s")._repr_html_()
        self.assertIn("0 &lt;= d", page)
        self.assertIn("a[head]", page)
        xml.etree.ElementTree.fromstring(page)

    def test_a_module_shows_what_it_learned(self):
        page = saccade.nn.Attention("prior", heads=2)._repr_html_()
        self.assertIn("alpha", page)
        xml.etree.ElementTree.fromstring(page)

    def test_a_prior_curve_has_the_formulas_values(self):
        curve = saccade.figures.prior("prior", params={"alpha": torch.full((2,), 0.5), "beta": torch.full((2,), 2.0)}, heads=2, length=9)
        torch.testing.assert_close(curve, -(0.5 * torch.arange(9.0, dtype=torch.float64)).square().expand(2, 9))
        drawn = xml.etree.ElementTree.fromstring(saccade.prior_curve("last10", heads=3, length=16).svg)
        lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual([len(line.get("points").split()) for line in lines], [10, 10, 10])
        with self.assertRaisesRegex(ValueError, "'document' also depends on inputs"):
            saccade.prior_curve("document")

    def test_a_heat_map_has_a_cell_for_each_weight(self):
        weights = torch.tensor([[1.0, 0.0], [-0.5, 0.5]])
        drawn = xml.etree.ElementTree.fromstring(saccade.heat_map(weights).svg)
        cells = [cell.get("fill") for cell in drawn.findall("{http://www.w3.org/2000/svg}rect")]
        self.assertEqual(len(cells), 1 + 3)  # the frame and what is not 0
        self.assertEqual(cells[1], "#005aaa")
        self.assertGreater(int(cells[2][1:3], 16), int(cells[2][5:7], 16))  # negative is red
        large = saccade.heat_map(torch.rand(2, 300, 300))
        self.assertLess(len(large.svg), 5_000_000)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "map.svg"
            saccade.heat_map(weights).save(path)
            self.assertTrue(path.read_text().startswith("<svg"))
        with self.assertRaisesRegex(ValueError, r"weights have shape \[2\]"):
            saccade.heat_map(torch.ones(2))
        for weights, problem in ((torch.full((2, 2), math.nan), "hold NaN or infinity"), (torch.ones(0, 2), "are none")):
            with self.assertRaisesRegex(ValueError, problem):
                saccade.heat_map(weights)


if __name__ == "__main__":
    support.main()
