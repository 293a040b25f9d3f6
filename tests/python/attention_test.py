"""saccade.attention: the definition's values and gradients for every mechanism, as one operator for compile, export and vmap; what is
refused, and by which exception."""

import os
import subprocess
import sys
import unittest
import warnings

import support

support.require()

import torch
from torch.utils.checkpoint import checkpoint

import saccade
from saccade import functional
from support import normal, qkv

PRIOR = "score s - abs(alpha*d)^beta; mask causal"
TOKENS, HEADS, WIDTH, MODEL = 7, 4, 8, 12


def inputs_of(formula, tokens=TOKENS, dtype=torch.float64):
    """Something sensible for each input of a shipped mechanism."""
    given = {"doc": torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 2]])[:, :tokens], "global": torch.arange(tokens) % 3 == 0,
             "lo": torch.arange(tokens) + 2, "hi": torch.arange(tokens) + 4, "keep": torch.ones(HEADS, 1, 1, dtype=torch.bool),
             "p": torch.tensor([2, 4]), "b": normal(HEADS, 2 * tokens - 1, seed=9, dtype=dtype)}
    return {table.name: given[table.name] for table in formula.inputs}


def call_of(name, *, grad=False, dtype=torch.float64):
    """A call of a mechanism with params off their start, and all tensors that have a gradient."""
    module = saccade.nn.Attention(name, HEADS, kv_heads=2, head_dim=WIDTH, model_dim=MODEL).to(dtype)
    formula = module.formula
    params = {n: (value.detach() + 0.1 * normal(*value.shape, seed=20 + i, dtype=dtype)).requires_grad_(grad)
              for i, (n, value) in enumerate(module.learned().items())}
    q, k, v = qkv(heads=HEADS, width=WIDTH, dtype=dtype, grad=grad)
    call = {"params": params, "inputs": inputs_of(formula, dtype=dtype)}
    leaves = [q, k, v, *params.values()]
    if formula.needs_layer_input:
        call["x"] = normal(2, TOKENS, MODEL, seed=30, dtype=dtype, grad=grad)
        leaves.append(call["x"])
    return (q, k, v, formula), call, leaves


class Values(unittest.TestCase):
    def test_both_paths_agree_for_every_mechanism(self):
        for name in saccade.mechanisms():
            with self.subTest(name):
                args, call, leaves = call_of(name, grad=True)
                mask = torch.ones(2, TOKENS, dtype=torch.bool)
                mask[1, 5:] = False
                for key_mask in (None, mask):
                    fused = saccade.attention(*args, **call, key_mask=key_mask, path="fused")
                    plain = saccade.attention(*args, **call, key_mask=key_mask, path="reference")
                    torch.testing.assert_close(fused, plain)
                    weight = normal(*fused.shape, seed=40)
                    for found, expected in zip(torch.autograd.grad((fused * weight).sum(), leaves, allow_unused=True),
                                               torch.autograd.grad((plain * weight).sum(), leaves, allow_unused=True)):
                        torch.testing.assert_close(found, torch.zeros_like(found) if expected is None else expected)

    def test_plain_softmax_is_torchs(self):
        q, k, v = qkv()
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        torch.testing.assert_close(saccade.attention(q, k, v, "causal"), expected)

    def test_params_need_no_declaration(self):
        q, k, v = qkv()
        alpha, beta = normal(4, seed=5).abs(), torch.full((4,), 1.5, dtype=torch.float64)
        found = saccade.attention(q, k, v, PRIOR, params={"alpha": alpha, "beta": beta})
        torch.testing.assert_close(found, saccade.attention(q, k, v, "prior", params={"alpha": alpha, "beta": beta}))

    def test_a_param_that_is_not_given_has_its_start_value(self):
        q, k, v = qkv()
        ones = torch.ones(4, dtype=torch.float64)
        torch.testing.assert_close(saccade.attention(q, k, v, "prior"), saccade.attention(q, k, v, "prior", params={"alpha": ones, "beta": 1.0}
                                   | {"beta": ones}))

    def test_constants_and_numbers(self):
        q, k, v = qkv()
        torch.testing.assert_close(saccade.attention(q, k, v, "window", set={"w": 3}), saccade.attention(q, k, v, "mask = 0 <= d < 3"))
        torch.testing.assert_close(saccade.attention(q, k, v, "score = a * s", params={"a": 2}), saccade.attention(q, k, v, "score = 2 * s"))

    def test_weights_sum_to_one_and_give_the_output(self):
        q, k, v = qkv(kv_heads=4)
        output, weights = saccade.attention(q, k, v, "alibi", need_weights=True)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 7, dtype=torch.float64))
        torch.testing.assert_close(weights @ v, output)

    def test_chunks_with_an_offset_are_the_whole(self):
        for name in ("prior", "sink_window", "t5", "gpam", "relu2"):
            args, call, _ = call_of(name)
            q, k, v, formula = args
            whole = saccade.attention(q, k, v, formula, **call)
            part = saccade.attention(q[:, :, 4:], k, v, formula, **call, offset=4)
            torch.testing.assert_close(part, whole[:, :, 4:])

    def test_keys_that_begin_later(self):
        q, k, v = qkv()
        whole = saccade.attention(q, k, v, "mask = 0 <= d < 3 and j >= 1\nscore = s - i - j")
        part = saccade.attention(q[:, :, 5:], k[:, :, 3:], v[:, :, 3:], "mask = 0 <= d < 3 and j >= 1\nscore = s - i - j", offset=5, first_key=3)
        torch.testing.assert_close(part, whole[:, :, 5:])

    def test_masks_of_pairs(self):
        q, k, v = qkv(kv_heads=4)
        allowed = normal(2, 1, 7, 7, seed=8) > -0.5
        sdpa = torch.nn.functional.scaled_dot_product_attention
        torch.testing.assert_close(saccade.attention(q, k, v, attn_mask=allowed), sdpa(q, k, v, allowed).nan_to_num())
        for shape in ((7, 7), (4, 7, 7), (2, 4, 7, 7)):
            bias = normal(*shape, seed=8, grad=True)
            torch.testing.assert_close(saccade.attention(q, k, v, attn_mask=bias), sdpa(q, k, v, bias))
        found, expected = (torch.autograd.grad(f.square().sum(), bias)[0] for f in (saccade.attention(q, k, v, attn_mask=bias), sdpa(q, k, v, bias)))
        torch.testing.assert_close(found, expected)

    def test_a_row_without_keys_is_zero_with_zero_gradients(self):
        q, k, v = qkv(grad=True)
        mask = torch.ones(2, 7, dtype=torch.bool)
        mask[0] = False
        for path in ("fused", "reference"):
            output = saccade.attention(q, k, v, "causal", key_mask=mask, path=path)
            self.assertEqual(float(output[0].detach().abs().max()), 0)
            for gradient in torch.autograd.grad(output.sum(), (q, k, v)):
                self.assertEqual(float(gradient[0].abs().max()), 0)

    def test_short_dtypes(self):
        q, k, v = qkv()
        exact = saccade.attention(q, k, v, "prior")
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)):
            found = saccade.attention(q.to(dtype), k.to(dtype), v.to(dtype), "prior")
            self.assertEqual(found.dtype, dtype)
            torch.testing.assert_close(found.double(), exact, atol=tolerance, rtol=tolerance)

    def test_dropout_is_the_references_and_said_once(self):
        q, k, v = qkv()
        functional._noted.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            saccade.attention(q, k, v, dropout=0.5)
            saccade.attention(q, k, v, dropout=0.5)
        self.assertEqual([str(w.message) for w in caught],
                         ["saccade: dropout of the weights is done by the reference, so the reference runs, which holds the n x n map"])
        with self.assertRaisesRegex(ValueError, "the fused path was asked for, but dropout"):
            saccade.attention(q, k, v, dropout=0.5, path="fused")

    def test_shapes_alone(self):
        q, k, v = (tensor.to("meta") for tensor in qkv())
        self.assertEqual(saccade.attention(q, k, v, "prior").shape, (2, 4, 7, 8))

    def test_another_device_takes_the_reference(self):
        class Elsewhere:
            device, shape = torch.device("cuda:0"), (2, 4, 7, 8)
        self.assertEqual(functional._obstacle(Elsewhere, 0.0, False), "the tensors are on cuda:0; the fused kernels run on the CPU")
        if torch.cuda.is_available():
            q, k, v = (tensor.cuda() for tensor in qkv())
            torch.testing.assert_close(saccade.attention(q, k, v, "prior").cpu(), saccade.attention(*qkv(), "prior"))


class Autograd(unittest.TestCase):
    def test_gradcheck(self):
        q, k, v = qkv(tokens=4, width=3, grad=True)
        alpha, beta = normal(4, seed=5).abs().requires_grad_(), torch.full((4,), 1.5, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda *t: saccade.attention(*t[:3], PRIOR, params={"alpha": t[3], "beta": t[4]}),
                                                 (q, k, v, alpha, beta)))

    def test_params_may_be_results(self):
        q, k, v = qkv()
        raw = normal(4, seed=5, grad=True)
        saccade.attention(q, k, v, PRIOR, params={"alpha": raw.exp(), "beta": raw.sigmoid()}).sum().backward()
        self.assertTrue(bool((raw.grad != 0).all()))

    def test_only_what_asks_gets_a_gradient(self):
        args, call, _ = call_of("gpam")
        call["params"]["lp"].requires_grad_()
        saccade.attention(*args, **call).sum().backward()
        self.assertIsNotNone(call["params"]["lp"].grad)
        self.assertIsNone(call["params"]["ln"].grad)

    def test_second_derivatives_are_the_references(self):
        q, k, v = qkv(tokens=3, width=3, grad=True)
        self.assertTrue(torch.autograd.gradgradcheck(lambda *t: saccade.attention(*t, "causal", path="reference"), (q, k, v)))
        first, = torch.autograd.grad(saccade.attention(q, k, v, "causal").sum(), q, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "the fused path has no second derivative; use the reference path"):
            first.sum().backward()

    def test_activation_checkpointing(self):
        args, call, leaves = call_of("diff", grad=True)
        plain = torch.autograd.grad(saccade.attention(*args, **call).square().sum(), leaves)

        def run(q, k, v):
            return saccade.attention(q, k, v, args[3], **call)

        kept = torch.autograd.grad(checkpoint(run, *args[:3], use_reentrant=False).square().sum(), leaves)
        for found, expected in zip(kept, plain):
            torch.testing.assert_close(found, expected)
        checkpoint(run, *args[:3], use_reentrant=True).square().sum().backward()
        for leaf, expected in zip(leaves, plain):
            torch.testing.assert_close(leaf.grad, expected)


class Tracing(unittest.TestCase):
    def test_torchs_rules_for_operators(self):
        for name in ("causal", "prior", "diff", "t5"):
            args, call, _ = call_of(name, grad=True)
            q, k, v, formula = args
            labels = [f"param:{n}" for n in call["params"]] + (["x"] if "x" in call else [])
            tensors = [*call["params"].values()] + ([call["x"]] if "x" in call else [])
            with self.subTest(name):
                torch.library.opcheck(torch.ops.saccade.attend.default, (formula.resolved, formula.name, q, k, v, labels, tensors, 0, 0, 0.0, False))

    def compare_compiled(self, name, **options):
        args, call, leaves = call_of(name, grad=True)
        formula = args[3]

        def run(q, k, v, params, x):
            return saccade.attention(2 * q, k, v, formula, params=params, x=x).sin()

        compiled = torch.compile(run, backend="aot_eager", fullgraph=True, **options)
        for tokens in (TOKENS, TOKENS - 2, TOKENS - 3):
            cut = [tensor[:, :, :tokens] for tensor in args[:3]]
            x = call["x"][:, :tokens] if "x" in call else None
            expected, found = run(*cut, call["params"], x), compiled(*cut, call["params"], x)
            torch.testing.assert_close(found, expected)
            for one, other in zip(torch.autograd.grad(found.sum(), leaves), torch.autograd.grad(expected.sum(), leaves)):
                torch.testing.assert_close(one, other)

    def test_compiled_whole(self):
        for name in ("prior", "gpam", "fox"):
            with self.subTest(name):
                self.compare_compiled(name)

    def test_compiled_for_sizes_that_vary(self):
        self.compare_compiled("prior", dynamic=True)

    def test_compiled_from_text_and_with_a_growing_offset(self):
        @torch.compile(backend="aot_eager", fullgraph=True)
        def step(q, k, v, offset):
            return saccade.attention(q, k, v, "mask = causal\nscore = s - 0.5 * d", offset=offset)

        q, k, v = qkv()
        whole = saccade.attention(q, k, v, "mask = causal\nscore = s - 0.5 * d")
        for place in range(2, 7):
            torch.testing.assert_close(step(q[:, :, place:place + 1], k[:, :, :place + 1], v[:, :, :place + 1], place), whole[:, :, place:place + 1])

    def test_exported(self):
        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = saccade.nn.Attention("prior", 4, kv_heads=2, head_dim=8)

            def forward(self, q, k, v):
                return self.attention(q, k, v)

        layer, tensors = Layer(), qkv(dtype=torch.float32)
        tokens = torch.export.Dim("tokens", min=2, max=64)
        program = torch.export.export(layer, tuple(tensors), dynamic_shapes=({2: tokens}, {2: tokens}, {2: tokens}))
        self.assertIn("saccade.attend", str(program.graph))
        for length in (7, 5):
            cut = [tensor[:, :, :length] for tensor in tensors]
            torch.testing.assert_close(program.module()(*cut), layer(*cut))

    def test_vmap_is_a_loop(self):
        q, k, v = (normal(3, 2, heads, 5, 8, seed=heads) for heads in (4, 2, 2))
        alpha, beta = normal(3, 4, seed=7).abs(), torch.full((4,), 1.5, dtype=torch.float64)
        doc = torch.tensor([0, 0, 1, 1, 1])

        def run(q, k, v, alpha):
            return saccade.attention(q, k, v, "input doc[token]: int\nscore = s - abs(alpha * d) ^ beta\nmask = causal and doc[i] == doc[j]",
                                     params={"alpha": alpha, "beta": beta}, inputs={"doc": doc})
        expected = torch.stack([run(*one) for one in zip(q, k, v, alpha)])
        torch.testing.assert_close(torch.vmap(run)(q, k, v, alpha), expected)
        torch.testing.assert_close(torch.vmap(run, in_dims=(1, 1, 1, None))(q.movedim(0, 1), k.movedim(0, 1), v.movedim(0, 1), alpha[0]),
                                   torch.stack([run(*one, alpha[0]) for one in zip(q, k, v)]))
        q.requires_grad_()
        found, = torch.autograd.grad(torch.vmap(run)(q, k, v, alpha).square().sum(), q)
        expected, = torch.autograd.grad(torch.stack([run(*one) for one in zip(q, k, v, alpha)]).square().sum(), q)
        torch.testing.assert_close(found, expected)

    def test_forward_derivatives_are_those_of_the_reference(self):
        q, k, v = qkv()
        direction, step = normal(*q.shape, seed=9), 1e-6

        def run(query, path="automatic"):
            return saccade.attention(query, k, v, "alibi", path=path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the reference runs
            _, found = torch.func.jvp(run, (q,), (direction,))
        torch.testing.assert_close(found, (run(q + step * direction) - run(q - step * direction)) / (2 * step), rtol=1e-6, atol=1e-8)
        with self.assertRaisesRegex(ValueError, "the fused path was asked for, but derivatives are taken forward"):
            torch.func.jvp(lambda query: run(query, "fused"), (q,), (direction,))


class Mistakes(unittest.TestCase):
    def refuses(self, error, message, *changes, **call):
        q, k, v = (changed if changed is not None else tensor for changed, tensor in zip([*changes, None, None, None], qkv()))
        formula = call.pop("formula", "prior")
        for path in call.pop("paths", ("fused", "reference")):
            with self.subTest(message, path=path), self.assertRaisesRegex(error, message):
                saccade.attention(q, k, v, formula, path=path, **call)

    def test_query_key_and_value(self):
        q, k, v = qkv()
        self.refuses(ValueError, r"attention: query has shape \[4, 7, 8\]; expected \[batch, heads, tokens, width\]", q[0])
        self.refuses(TypeError, "attention: query has dtype Long; expected float, double, bfloat16 or half", q.long())
        self.refuses(TypeError, "attention: key has dtype Float, query has Double; expected one dtype", None, k.float())
        self.refuses(ValueError, "attention: key has batch size 1, query has 2", None, k[:1])
        self.refuses(ValueError, "attention: key has 3 heads, query has 4; 4 is not a multiple of 3", None, k[:, :1].expand(2, 3, 7, 8),
                     v[:, :1].expand(2, 3, 7, 8))
        self.refuses(ValueError, "attention: value has 6 tokens, key has 7; expected the same", None, None, v[:, :, 1:])
        self.refuses(ValueError, "attention: key is on meta, query on cpu; expected one device", None, k.to("meta"))
        self.refuses(TypeError, "attention: query is of type ndarray; expected a tensor", q.numpy())
        self.refuses(TypeError, "attention: value has layout sparse_coo; expected a dense tensor", None, None, v.to_sparse())
        self.refuses(ValueError, "attention: 'alpha' is on meta, query on cpu; expected one device", params={"alpha": torch.ones(4, device="meta")})

    def test_params_and_inputs(self):
        self.refuses(ValueError, "attention: the formula 'prior' has no param 'alhpa'; did you mean 'alpha'?", params={"alhpa": torch.ones(4)})
        self.refuses(ValueError, "attention: 'alpha' has size 3 in its dimension 'head'; expected 4", params={"alpha": torch.ones(3)})
        self.refuses(TypeError, "attention: 'alpha' has dtype Long; expected a floating type", params={"alpha": torch.ones(4).long()})
        self.refuses(TypeError, "attention: 'alpha' is of type str; expected a tensor or a number", params={"alpha": "1"})
        self.refuses(TypeError, "attention: params is of type list; expected tensors by name", params=[torch.ones(4)])
        self.refuses(ValueError, "attention: the formula 'document' needs the input 'doc'", formula="document")
        self.refuses(TypeError, "attention: 'doc' is of type list; expected a tensor", formula="document", inputs={"doc": [0] * 7})
        self.refuses(ValueError, "attention: the formula 'document' has no input 'dco'; did you mean 'doc'", formula="document",
                     inputs={"doc": torch.zeros(7).long(), "dco": torch.zeros(7).long()})
        self.refuses(TypeError, "attention: 'doc' has dtype Float; expected an integer type", formula="document", inputs={"doc": torch.zeros(7)})
        self.refuses(ValueError, r"attention: 'z' is given for each of 2 sequences; the kernels need that to be declared, as 'z\[batch, ...\]'",
                     formula="input z[head]\nscore = z * s", inputs={"z": normal(2, 4, seed=1)}, paths=("fused",))
        self.refuses(ValueError, "attention: the formula 'fox' is computed from the layer's input x, which this call does not give", formula="fox")
        self.refuses(ValueError, "attention: the learned weights 'F.project.weight' of shape 4 x 12 are not given", formula="fox",
                     x=normal(2, 7, 12, seed=1))

    def test_numbers(self):
        self.refuses(ValueError, "attention: the offset is -1; expected 0 or more", offset=-1)
        self.refuses(ValueError, "attention: the first key is at 3, the first query at 2", offset=2, first_key=3)
        self.refuses(ValueError, "attention: epsilon is 2; expected 0 or more and less than 1", epsilon=2.0, paths=("fused",))
        self.refuses(ValueError, "attention: dropout is 1; expected 0 or more and less than 1", dropout=1.0)
        self.refuses(ValueError, "attention: dropout is nan; expected 0 or more and less than 1", dropout=float("nan"))
        self.refuses(TypeError, "attention: offset is 1.5; expected a whole number", offset=1.5)
        self.refuses(ValueError, "attention: path is 'quick'; expected one of automatic, fused, reference", paths=("quick",))

    def test_masks(self):
        self.refuses(TypeError, "attention: the key mask has dtype Float; expected bool, true for real keys", key_mask=torch.ones(2, 7))
        self.refuses(ValueError, r"attention: the key mask has shape \[7\]; expected \[2, 7\]", key_mask=torch.ones(7, dtype=torch.bool))
        self.refuses(TypeError, "attention: attn_mask has dtype int64; expected bool or a floating type", attn_mask=torch.ones(7, 7).long())
        self.refuses(ValueError, r"attention: attn_mask has shape \[7\]", attn_mask=torch.ones(7))
        self.refuses(ValueError, "has size 6 in its dimension 'key'; expected 7", attn_mask=torch.ones(7, 6, dtype=torch.bool))

    def test_formulas(self):
        self.refuses(saccade.FormulaError, "unknown name 'aplha'; did you mean 'alpha'?", formula="score s - abs(aplha*d)", params={"alpha": 1.0})


class Import(unittest.TestCase):
    def test_it_is_quick(self):
        # The process's own time: other processes must not make this fail.
        code = "import time, torch; start = time.process_time(); import saccade; print(time.process_time() - start)"
        best = min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout) for _ in range(3))
        self.assertLess(best, 0.3)

    def test_a_missing_library_is_named(self):
        environment = {**os.environ, "SACCADE_LIBRARY": "/nowhere/lib.so"}
        found = subprocess.run([sys.executable, "-c", "import saccade"], capture_output=True, text=True, env=environment)
        self.assertIn("ImportError: saccade: there is no /nowhere/lib.so; SACCADE_LIBRARY names it", found.stderr)


if __name__ == "__main__":
    support.main()
