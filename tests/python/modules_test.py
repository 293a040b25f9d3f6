"""saccade.nn: parameters of formulas, and MultiheadAttention held to torch's class over its options and arguments."""

import copy
import io
import itertools
import unittest

import support

support.require()

import torch

import saccade
from support import normal, qkv

EMBED, HEADS, BATCH, QUERIES, KEYS = 12, 3, 2, 4, 5


class Attention(unittest.TestCase):
    def test_parameters_have_the_formulas_names_shapes_and_starts(self):
        found = {name: tuple(value.shape) for name, value in saccade.nn.Attention("fox", 4, model_dim=6).named_parameters()}
        self.assertEqual(found, {"F.project.weight": (4, 6), "F.project.bias": (4,)})
        kerple = saccade.nn.Attention("kerple_log", 4)
        torch.testing.assert_close(kerple.a.detach(), torch.tensor([0.25, 0.5, 0.75, 1]))
        self.assertEqual(len(list(saccade.nn.Attention("alibi", 4).parameters())), 0)
        self.assertEqual(saccade.nn.Attention("prior", 4, dtype=torch.float64).alpha.dtype, torch.float64)

    def test_it_is_the_function_with_its_parameters(self):
        layer = saccade.nn.Attention("prior", 4, kv_heads=2, head_dim=8).double()
        with torch.no_grad():
            layer.alpha.copy_(normal(4, seed=3).abs())
        q, k, v = qkv()
        torch.testing.assert_close(layer(q, k, v), saccade.attention(q, k, v, "prior", params={"alpha": layer.alpha, "beta": layer.beta}))
        output, weights = layer(q, k, v, need_weights=True)
        self.assertEqual(weights.shape, (2, 4, 7, 7))

    def test_after_a_step_parameters_are_within_their_bounds(self):
        for make in (lambda layer: layer, copy.deepcopy, lambda layer: torch.load(saved(layer), weights_only=False)):
            layer = make(saccade.nn.Attention("prior", 4, head_dim=8))
            optimizer = torch.optim.SGD(layer.parameters(), lr=1e4)
            layer.beta.grad = torch.tensor([1.0, -1.0, 0.0, 1e-9])
            optimizer.step()
            torch.testing.assert_close(layer.beta.detach(), torch.tensor([0.01, 4.0, 1.0, 1.0 - 1e-5]))

    def test_state_goes_into_another_one(self):
        one, other = (saccade.nn.Attention("gpam", 4, head_dim=8) for _ in range(2))
        other.load_state_dict(one.state_dict())
        q, k, v = qkv(kv_heads=4, dtype=torch.float32)
        torch.testing.assert_close(one(q, k, v), other(q, k, v))

    def test_it_learns(self):
        torch.manual_seed(0)
        layer = saccade.nn.Attention("prior", 2, head_dim=4)
        q, k, v = qkv(heads=2, kv_heads=2, width=4, dtype=torch.float32)
        goal = saccade.attention(q, k, v, "prior", params={"alpha": torch.tensor([0.3, 2.0]), "beta": torch.tensor([0.7, 1.3])})
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = (layer(q, k, v) - goal).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        self.assertLess(losses[-1], 0.02 * losses[0])

    def test_mistakes(self):
        with self.assertRaisesRegex(ValueError, "attention: 'q2' projects the layer's input x, so model_dim must be given"):
            saccade.nn.Attention("diff", 4)
        with self.assertRaisesRegex(ValueError, "attention: query has 2 heads; expected 4"):
            saccade.nn.Attention("prior", 4)(*qkv(heads=2))
        with self.assertRaisesRegex(ValueError, "4 heads are not a multiple of 3 key heads"):
            saccade.nn.Attention("prior", 4, kv_heads=3)


def saved(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return buffer


def both(seed=0, **options):
    """Torch's module and ours with its weights, in double."""
    torch.manual_seed(seed)
    torchs = torch.nn.MultiheadAttention(EMBED, HEADS, **options).double()
    with torch.no_grad():
        for parameter in torchs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    ours = saccade.nn.MultiheadAttention(EMBED, HEADS, **options).double()
    ours.load_state_dict(torchs.state_dict())
    return torchs, ours


def triple(options, *, batched=True, same=False, grad=False):
    kdim, vdim = options.get("kdim") or EMBED, options.get("vdim") or EMBED
    shapes = [(QUERIES, BATCH, EMBED), (KEYS, BATCH, kdim), (KEYS, BATCH, vdim)]
    if options.get("batch_first"):
        shapes = [(b, t, w) for t, b, w in shapes]
    if not batched:
        shapes = [tuple(size for place, size in enumerate(shape) if place != (0 if options.get("batch_first") else 1)) for shape in shapes]
    tensors = [normal(*shape, seed=seed, grad=grad) for seed, shape in enumerate(shapes)]
    return [tensors[0]] * 3 if same else tensors


def attn_masks(queries, keys):
    """Without rows that see nothing: there torch gives NaN."""
    hidden = normal(queries, keys, seed=5) > 0.7
    hidden[:, 0] = False
    deep = normal(BATCH * HEADS, queries, keys, seed=6) > 0.7
    deep[:, :, 0] = False
    return {"none": None, "bool": hidden, "real": normal(queries, keys, seed=7), "deep bool": deep,
            "deep real": normal(BATCH * HEADS, queries, keys, seed=8)}


def padding_masks(keys):
    hidden = torch.zeros(BATCH, keys, dtype=torch.bool)
    hidden[1, -2:] = True
    return {"none": None, "bool": hidden, "real": torch.zeros(BATCH, keys, dtype=torch.float64).masked_fill(hidden, float("-inf"))}


class Multihead(unittest.TestCase):
    def compare(self, torchs, ours, tensors, **call):
        expected, found = torchs(*tensors, **call), ours(*tensors, **call)
        torch.testing.assert_close(found[0], expected[0])
        self.assertEqual(found[1] is None, expected[1] is None)
        if expected[1] is not None:
            torch.testing.assert_close(found[1], expected[1])

    def test_options(self):
        for bias, bias_kv, zero, batch_first, (kdim, vdim) in itertools.product(
                (True, False), (False, True), (False, True), (False, True), ((None, None), (5, 7))):
            options = {"bias": bias, "add_bias_kv": bias_kv, "add_zero_attn": zero, "batch_first": batch_first, "kdim": kdim, "vdim": vdim}
            with self.subTest(**options):
                torchs, ours = both(**options)
                self.assertEqual({n: p.shape for n, p in ours.state_dict().items()}, {n: p.shape for n, p in torchs.state_dict().items()})
                for batched in (True, False):
                    self.compare(torchs, ours, triple(options, batched=batched))
                self.compare(torchs, ours, triple(options), key_padding_mask=padding_masks(KEYS)["bool"], attn_mask=attn_masks(QUERIES, KEYS)["bool"])

    def test_the_cases_of_torchs_own_tests(self):
        try:
            from torch.testing._internal.common_modules import module_db
        except ImportError as error:
            self.skipTest(f"torch's tests need another package: {error}")
        info = next(entry for entry in module_db if entry.name == "nn.MultiheadAttention")
        cases = [case for training in (True, False)
                 for case in info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training)]
        self.assertGreater(len(cases), 100)
        for number, case in enumerate(cases):
            options = {**case.constructor_input.kwargs, "dtype": torch.float64}
            with self.subTest(case=number, **options):
                torchs = torch.nn.MultiheadAttention(*case.constructor_input.args, **options)
                ours = saccade.nn.MultiheadAttention(*case.constructor_input.args, **options)
                ours.load_state_dict(torchs.state_dict())
                tensors = case.forward_input.args
                self.compare(torchs, ours, tensors, **case.forward_input.kwargs)
                weight = normal(*torchs(*tensors, **case.forward_input.kwargs)[0].shape, seed=12)
                expected, found = (torch.autograd.grad((module(*tensors, **case.forward_input.kwargs)[0] * weight).sum(), tuple(module.parameters()))
                                   for module in (torchs, ours))
                for one, other in zip(found, expected):
                    torch.testing.assert_close(one, other)

    def test_masks_and_weights(self):
        for appended in ({}, {"add_bias_kv": True, "add_zero_attn": True}):
            torchs, ours = both(**appended)
            tensors = triple({})
            for (name, mask), (padding_name, padding), weights, average in itertools.product(
                    attn_masks(QUERIES, KEYS).items(), padding_masks(KEYS).items(), (True, False), (True, False)):
                with self.subTest(mask=name, padding=padding_name, weights=weights, average=average, **appended):
                    if mask is not None and padding is not None and mask.dtype != padding.dtype:
                        padding = padding_masks(KEYS)["bool" if mask.dtype == torch.bool else "real"]  # torch no longer takes a mixture
                    self.compare(torchs, ours, tensors, attn_mask=mask, key_padding_mask=padding, need_weights=weights, average_attn_weights=average)

    def test_self_attention_and_gradients(self):
        for batch_first in (False, True):
            options = {"batch_first": batch_first}
            torchs, ours = both(**options)
            for same in (True, False):
                tensors = triple(options, same=same, grad=True)
                weight = normal(*tensors[0].shape, seed=11)
                leaves = tensors[:1] if same else tensors
                gradients = []
                for module in (torchs, ours):
                    output, _ = module(*tensors, need_weights=False)
                    gradients.append(torch.autograd.grad((output * weight).sum(), [*leaves, *module.parameters()]))
                for expected, found in zip(*gradients):
                    torch.testing.assert_close(found, expected)

    def test_a_seed_gives_the_same_start(self):
        for options in ({}, {"kdim": 5, "vdim": 7}, {"add_bias_kv": True}, {"bias": False}):
            torch.manual_seed(3)
            torchs = torch.nn.MultiheadAttention(EMBED, HEADS, **options)
            torch.manual_seed(3)
            ours = saccade.nn.MultiheadAttention(EMBED, HEADS, **options)
            for name, value in torchs.state_dict().items():
                torch.testing.assert_close(ours.state_dict()[name], value)

    def test_a_query_without_keys_gives_the_bias(self):
        _, ours = both()
        padding = torch.zeros(BATCH, KEYS, dtype=torch.bool)
        padding[0] = True
        output, weights = ours(*triple({}), key_padding_mask=padding)
        torch.testing.assert_close(output[:, 0], ours.out_proj.bias.expand(QUERIES, EMBED))
        self.assertEqual(float(weights[0].detach().abs().max()), 0)

    def test_dropout_is_of_the_weights_and_in_training_only(self):
        ours = saccade.nn.MultiheadAttention(EMBED, HEADS, dropout=0.5).double()
        x = normal(QUERIES, BATCH, EMBED, seed=1)
        _, dropped = ours(x, x, x, average_attn_weights=False)
        self.assertTrue(bool((dropped == 0).any()))
        ours.eval()
        _, kept = ours(x, x, x, average_attn_weights=False)
        torch.testing.assert_close(dropped[dropped != 0], 2 * kept[dropped != 0])

    def test_a_formula(self):
        ours = saccade.nn.MultiheadAttention(EMBED, HEADS, batch_first=True, formula="prior").double()
        self.assertEqual({n for n in ours.state_dict() if n.startswith("attention.")}, {"attention.alpha", "attention.beta"})
        x = normal(BATCH, 6, EMBED, seed=1, grad=True)
        output, weights = ours(x, x, x)
        self.assertEqual(float(weights.detach().triu(1).abs().max()), 0)
        output.sum().backward()
        self.assertTrue(bool((ours.attention.alpha.grad != 0).all()))
        causal = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
        masked, _ = ours(x, x, x, attn_mask=causal, is_causal=True)
        torch.testing.assert_close(masked, output)

    def test_formulas_from_the_layers_input(self):
        for name in ("diff", "fox", "gpam"):
            ours = saccade.nn.MultiheadAttention(EMBED, HEADS, batch_first=True, formula=name).double()
            x = normal(BATCH, 6, EMBED, seed=1)
            whole, _ = ours(x, x, x, need_weights=False)
            plain, _ = ours(x, x, x, need_weights=True)
            torch.testing.assert_close(whole, plain)
            shorter, _ = ours(*[x[:, :4]] * 3, need_weights=False)
            torch.testing.assert_close(shorter, whole[:, :4])

    def test_inside_torchs_encoder_layer_the_formula_counts(self):
        layer = torch.nn.TransformerEncoderLayer(EMBED, HEADS, 16, dropout=0.0, batch_first=True).double().eval()
        layer.self_attn = saccade.nn.MultiheadAttention(EMBED, HEADS, batch_first=True, formula="causal").double().eval()
        x = normal(BATCH, 6, EMBED, seed=1)
        with torch.no_grad():
            torch.testing.assert_close(layer(x)[:, :3], layer(x[:, :3]))

    def test_mistakes(self):
        make = saccade.nn.MultiheadAttention
        for message, call in (("embed_dim 10 is not a multiple of num_heads 3", lambda: make(10, 3)),
                              ("embed_dim is 0 and num_heads 3", lambda: make(0, 3)),
                              ("dropout is 1; expected", lambda: make(12, 3, dropout=1)),
                              ("a key that add_zero_attn appends is no token", lambda: make(12, 3, add_zero_attn=True, formula="prior")),
                              ("a key that add_bias_kv appends is no token", lambda: make(12, 3, add_bias_kv=True, formula="fox"))):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                call()
        ours = make(EMBED, HEADS).double()
        q, k, v = triple({})
        for error, message, call in (
                (ValueError, r"multihead: query has shape \[4, 2, 12, 1\]", lambda: ours(q[..., None], k, v)),
                (ValueError, "multihead: key has width 11; expected kdim 12", lambda: ours(q, k[..., 1:], v)),
                (ValueError, "multihead: key has batch size 1, query has 2", lambda: ours(q, k[:, :1], v)),
                (ValueError, "multihead: value has 4 tokens, key has 5", lambda: ours(q, k, v[1:])),
                (ValueError, r"multihead: attn_mask has shape \[5, 4\]; expected \[4, 5\] or \[6, 4, 5\]", lambda: ours(q, k, v, attn_mask=torch.ones(5, 4))),
                (TypeError, "multihead: attn_mask has dtype int64", lambda: ours(q, k, v, attn_mask=torch.ones(4, 5).long())),
                (ValueError, r"multihead: key_padding_mask has shape \[5\]", lambda: ours(q, k, v, torch.ones(5))),
                (ValueError, "multihead: is_causal is a hint about attn_mask", lambda: ours(q, k, v, is_causal=True))):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()


if __name__ == "__main__":
    support.main()
