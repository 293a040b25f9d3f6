"""saccade.check: right functions pass, planted faults are found by the check that is for them."""

import math
import unittest
import xml.etree.ElementTree

import support

support.require()

import torch

import saccade
import saccade.testing


def careful(query, key, value, offset=0, key_mask=None, *, scale=None, ahead=0, ignore_offset=False, careless_rows=False, causal=True):
    """Plain causal attention, with places for faults."""
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    rows = torch.arange(query.shape[2]) + (0 if ignore_offset else offset)
    allowed = rows[:, None] + ahead >= torch.arange(key.shape[2])
    allowed = allowed if causal else torch.ones_like(allowed)
    if key_mask is not None:
        allowed = allowed & key_mask[:, None, None]
        value = value.masked_fill(~key_mask[:, None, :, None], 0)
    scores = scores.masked_fill(~allowed, -math.inf)
    if careless_rows:
        return torch.softmax(scores, -1) @ value
    # A row without keys must not even pass through a softmax: its gradient would be NaN.
    empty = ~allowed.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(empty, 0), -1).masked_fill(empty, 0)
    return weights @ value


def with_fault(**fault):
    def attention(query, key, value, offset=0, key_mask=None):
        return careful(query, key, value, offset, key_mask, **fault)
    return attention


def failed(result):
    return {line.name for line in result.failures}


class RightFunctions(unittest.TestCase):
    def test_plain_attention_passes_everything(self):
        result = saccade.check(with_fault(), against="causal")
        self.assertTrue(result, str(result))
        self.assertEqual({line.outcome for line in result.lines}, {"pass"})

    def test_sdpa_and_our_own(self):
        def sdpa(query, key, value):
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        result = saccade.check(sdpa, kv_heads=2, against="causal")
        self.assertTrue(result, str(result))
        self.assertEqual(sum(line.outcome == "skip" for line in result.lines), 3)  # it has neither offset nor key_mask
        for name, kept in (("prior", {}), ("alibi", {}), ("softcap", {}), ("sigmoid", {"scale": None}), ("full", {"causal": False})):
            result = saccade.check(name, kv_heads=2, **kept)
            self.assertTrue(result, str(result))

    def test_a_flex_attention_function(self):
        formula = saccade.from_flex(lambda score, b, h, i, j: score - 0.5 * (i - j), lambda b, h, i, j: i >= j)
        self.assertTrue(saccade.check(formula, against="mask = causal\nscore = s - 0.5 * d"))


class PlantedFaults(unittest.TestCase):
    def test_a_leak(self):
        result = saccade.check(with_fault(ahead=1))
        self.assertIn("nothing leaks from later tokens", failed(result))
        self.assertIn("later tokens leak", str(result))
        self.assertIn("nothing leaks from later tokens", failed(saccade.check(with_fault(causal=False))))

    def test_a_forgotten_offset(self):
        self.assertEqual(failed(saccade.check(with_fault(ignore_offset=True))), {"decoding equals the full forward"})

    def test_a_row_of_nan(self):
        result = saccade.check(with_fault(careless_rows=True))
        self.assertIn("a row without keys is harmless", failed(result))
        self.assertIn("may see no key gives NaN", str(result))

    def test_a_wrong_scale(self):
        result = saccade.check(with_fault(scale=1 / 8))
        self.assertEqual(failed(result), {"dot products are scaled as expected"})
        self.assertIn("multiplied by 0.125; expected 0.3536", str(result))
        self.assertTrue(saccade.check(with_fault(scale=1 / 8), scale=1 / 8))

    def test_a_gradient_that_is_cut(self):
        def cut(query, key, value):
            return careful(query, key.detach(), value)
        self.assertEqual(failed(saccade.check(cut)), {"gradients equal finite differences"})

    def test_padding_that_shines_through(self):
        def attention(query, key, value, key_mask=None):
            mask = None if key_mask is None else key_mask[:, None, None]
            bias = torch.zeros(query.shape[0], 1, query.shape[2], key.shape[2], dtype=query.dtype)
            bias = bias.masked_fill(torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).triu(1), -math.inf)
            if mask is not None:
                bias = bias.masked_fill(~mask, -5.0)  # not low enough
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, bias)
        self.assertIn("padding does not matter", failed(saccade.check(attention)))

    def test_sequences_that_mix(self):
        def mixed(query, key, value):
            return careful(query, key, value) + 0.01 * value.mean(0, keepdim=True).cumsum(2)
        self.assertIn("sequences of a batch are independent", failed(saccade.check(mixed)))

    def test_a_view_that_ignores_strides(self):
        def flat(query, key, value):
            return careful(torch.as_strided(query, query.shape, torch.empty(query.shape).stride()), key, value)
        self.assertIn("memory layout does not matter", failed(saccade.check(flat)))

    def test_a_dtype_that_changes(self):
        self.assertIn("short dtypes are near", failed(saccade.check(lambda q, k, v: careful(q.double(), k.double(), v.double()))))

    def test_a_function_that_throws(self):
        def broken(query, key, value):
            raise KeyError("oops")
        result = saccade.check(broken)
        self.assertEqual(len(result.failures), 8)
        self.assertIn("KeyError: 'oops'", str(result))


class Results(unittest.TestCase):
    def test_the_helper_for_test_suites(self):
        self.assertTrue(saccade.testing.assert_conforms(with_fault()))
        with self.assertRaisesRegex(AssertionError, "FAIL  nothing leaks from later tokens: changing the tokens from 1 on"):
            saccade.testing.assert_conforms(with_fault(ahead=1))

    def test_lines_and_page(self):
        result = saccade.check(with_fault(ahead=1))
        self.assertIn("pass  shapes and dtypes", str(result))
        self.assertRegex(str(result), r"\d+ passed, \d+ failed")
        page = result._repr_html_()
        self.assertIn("checks fail", page)
        xml.etree.ElementTree.fromstring(page)


if __name__ == "__main__":
    support.main()
