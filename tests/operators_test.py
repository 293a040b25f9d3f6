"""operators_test.py LIBRARY TORCH_DIR: the operators as Python sees them, held to torch's own rules for operators. Ends with code 77,
which ctest shows as skipped, when there is no torch for Python, or another one than the library was built with."""

import os
import pathlib
import sys
import unittest

LIBRARY = str(pathlib.Path(sys.argv.pop(1)).resolve())
TORCH_DIR = os.path.realpath(sys.argv.pop(1))
SKIPPED = 77

try:
    import torch
except ImportError as error:
    print(f"skipped: this Python has no torch ({error})")
    sys.exit(SKIPPED)
if os.path.realpath(os.path.dirname(torch.__file__)) != TORCH_DIR:
    print(f"skipped: the library was built with the torch in {TORCH_DIR}, Python has that in {os.path.dirname(torch.__file__)}")
    sys.exit(SKIPPED)
torch.ops.load_library(LIBRARY)
torch.set_num_threads(1)

ATTENTION = torch.ops.saccade.attention.default
BACKWARD = torch.ops.saccade.attention_backward.default

CAUSAL = "mask = causal"
PRIOR = "param alpha[head] = 1\nparam beta[head] = 1 in [0.01, 4]\nmask = causal\nscore = s - abs(alpha * d) ^ beta"
TABLE = "param b[head, 8] = 0\ninput t[token]\nmask = causal\nscore = s + b[min(d, 7)] * t[j]"
TWO_VECTORS = ("vector a = linear(q)\nstream t = a . k\nparam c[head] = 0.3\nmask = causal\n"
               "weights = (1 + c) * softmax(s) - c * softmax(t)")
NO_NORM = "mask = causal\nweights = sigmoid(s)"


def normal(*shape, seed, dtype=torch.float32, grad=False):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(grad)


def arguments(formula=CAUSAL, *, batch=2, heads=4, kv_heads=2, queries=5, keys=7, width=6, value_width=3, dtype=torch.float32,
              grad=False, **changes):
    """The arguments of saccade::attention by name, with whatever tables and vectors the formula needs."""
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    vectors = {"seed": 1, "dtype": dtype, "grad": grad}
    result = {"formula": formula, "queries": [normal(batch, heads, queries, width, **vectors)],
              "keys": [normal(batch, kv_heads, keys, width, **{**vectors, "seed": 2})],
              "value": normal(batch, kv_heads, keys, value_width, **{**vectors, "seed": 3}), "tables": [], "key_mask": None,
              "list_starts": None, "list_keys": None, "offset": keys - queries, "first_key": 0, "query_tile": 2, "key_tile": 1,
              "epsilon": 0.0, "skip": True, "gather": True, "training": False}
    if formula == PRIOR:
        result["tables"] = [torch.full((1, heads), value, dtype=compute).requires_grad_(grad) for value in (0.7, 0.9)]
    if formula == TABLE:
        result["tables"] = [normal(1, heads, 8, seed=4, dtype=compute, grad=grad), normal(batch, 1, keys, seed=5, dtype=compute, grad=grad)]
    if formula == TWO_VECTORS:
        result["queries"].append(normal(batch, heads, queries, width, **{**vectors, "seed": 6}))
        result["tables"] = [torch.full((1, heads), 0.3, dtype=compute).requires_grad_(grad)]
    return {**result, **changes}


def mask_of(batch=2, keys=7):
    mask = torch.ones(batch, keys, dtype=torch.bool)
    mask[0, 2] = mask[1, 5] = False
    return mask


def lists():
    """For 5 queries in tiles of 2: the keys 0 and 3; none; 1, 5 and 6."""
    return {"list_starts": torch.tensor([[[0, 2, 2, 5]]], dtype=torch.int32), "list_keys": torch.tensor([0, 3, 1, 5, 6], dtype=torch.int32)}


def run(given):
    return ATTENTION(*given.values())


def leaves(given):
    return [*given["queries"], *given["keys"], given["value"], *given["tables"]]


def with_leaves(given, tensors):
    """The same call with other tensors in the places of leaves()."""
    rest = list(tensors)
    take = lambda count: [rest.pop(0) for _ in range(count)]
    return {**given, "queries": take(len(given["queries"])), "keys": take(len(given["keys"])), "value": take(1)[0],
            "tables": take(len(given["tables"]))}


def backward_arguments(given):
    """Those of saccade::attention_backward for a call."""
    output, log_sums, partials = run({**given, "training": True})
    call = [value for name, value in given.items() if name != "training"]
    gradient = normal(*output.shape, seed=7, dtype=output.dtype)
    return [gradient, normal(*log_sums.shape, seed=8, dtype=log_sums.dtype), output, log_sums, partials, *call, [1] * len(given["tables"])]


CALLS = {
    "causal": {},
    "prior": {"formula": PRIOR},
    "tables": {"formula": TABLE},
    "two vectors": {"formula": TWO_VECTORS},
    "no norm": {"formula": NO_NORM},
    "key mask": {"formula": PRIOR, "key_mask": mask_of()},
    "lists": {"formula": TWO_VECTORS, **lists()},
    "bfloat16": {"formula": PRIOR, "dtype": torch.bfloat16},
    "double": {"formula": TABLE, "dtype": torch.float64},
}


class TorchsRules(unittest.TestCase):
    def test_the_operator(self):
        for name, changes in CALLS.items():
            for grad in (False, True):
                with self.subTest(name, grad=grad):
                    torch.library.opcheck(ATTENTION, tuple(arguments(grad=grad, **changes).values()), atol=1e-2 if name == "bfloat16" else None,
                                          rtol=1e-2 if name == "bfloat16" else None)

    def test_its_gradient(self):
        for name, changes in CALLS.items():
            with self.subTest(name):
                torch.library.opcheck(BACKWARD, tuple(backward_arguments(arguments(**changes))))

    def test_transposed_vectors(self):
        given = arguments(PRIOR, grad=True)
        swapped = with_leaves(given, [leaf.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() if leaf.dim() == 4 else leaf
                                      for leaf in leaves(given)])
        torch.library.opcheck(ATTENTION, tuple(swapped.values()))
        torch.testing.assert_close(run(swapped)[0], run(given)[0])


class Results(unittest.TestCase):
    def test_causal_attention_is_torchs_own(self):
        given = arguments(queries=7, keys=7)
        expected = torch.nn.functional.scaled_dot_product_attention(given["queries"][0], given["keys"][0], given["value"], is_causal=True,
                                                                    enable_gqa=True)
        torch.testing.assert_close(run(given)[0], expected)

    def test_lists_look_at_the_listed_keys_alone(self):
        output, log_sums, _ = run(arguments(**lists()))
        self.assertTrue(torch.all(output[:, :, 2:4] == 0))
        self.assertTrue(torch.all(log_sums[0, :, :, 2:4] == -torch.inf))
        self.assertTrue(torch.all(torch.isfinite(log_sums[0, :, :, :2])))

    def test_gradients_equal_finite_differences(self):
        for name, changes in CALLS.items():
            with self.subTest(name):
                given = arguments(**{**changes, "dtype": torch.float64}, grad=True, batch=2, heads=2, kv_heads=1)

                def function(*tensors):
                    output, log_sums, _ = run(with_leaves(given, tensors))
                    return output, torch.where(torch.isinf(log_sums), 0, log_sums)

                self.assertTrue(torch.autograd.gradcheck(function, leaves(given)))

    def test_training_need_not_be_announced(self):
        for formula in (TWO_VECTORS, NO_NORM):
            both = []
            for training in (False, True):
                given = arguments(formula, grad=True, training=training)
                both.append(torch.autograd.grad(run(given)[0].square().sum(), leaves(given)))
            for a, b in zip(*both):
                self.assertTrue(torch.equal(a, b))

    def test_nothing_is_kept_for_a_gradient_that_nobody_can_ask_for(self):
        self.assertEqual(run(arguments(TWO_VECTORS))[2].numel(), 0)
        with torch.no_grad():
            self.assertEqual(run(arguments(TWO_VECTORS, grad=True))[2].numel(), 0)
        self.assertGreater(run(arguments(TWO_VECTORS, grad=True))[2].numel(), 0)

    def test_gradients_of_some_inputs_alone(self):
        given = arguments(PRIOR, grad=True)
        every = torch.autograd.grad(run(given)[0].square().sum(), leaves(given))
        for index, expected in enumerate(every):
            alone = with_leaves(given, [leaf.detach().requires_grad_(place == index) for place, leaf in enumerate(leaves(given))])
            found, = torch.autograd.grad(run(alone)[0].square().sum(), [leaves(alone)[index]])
            self.assertTrue(torch.equal(found, expected), index)

    def test_nothing_to_look_at_and_nobody_to_look(self):
        for formula in (CAUSAL, PRIOR, TABLE, TWO_VECTORS, NO_NORM):
            for sizes in ({"queries": 0}, {"keys": 0}, {"batch": 0}, {"value_width": 0}, {"queries": 0, "keys": 0}):
                with self.subTest(formula=formula, **sizes):
                    given = arguments(formula, grad=True, **sizes, offset=0)
                    if formula == TABLE:
                        tokens = max(given["queries"][0].size(2), given["keys"][0].size(2))
                        given["tables"][1] = normal(given["value"].size(0), 1, tokens, seed=5, grad=True)
                    output, log_sums, _ = run(given)
                    if "keys" in sizes:
                        self.assertTrue(torch.all(output == 0))
                    finite = torch.where(torch.isinf(log_sums), 0, log_sums)
                    for gradient in torch.autograd.grad(output.sum() + finite.sum(), leaves(given)):
                        self.assertTrue(torch.all(torch.isfinite(gradient)))
                        if "value_width" not in sizes:
                            self.assertTrue(torch.all(gradient == 0))

    def test_a_second_derivative_is_refused(self):
        given = arguments(PRIOR, grad=True)
        first, = torch.autograd.grad(run(given)[0].square().sum(), given["queries"], create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "the fused path has no second derivative; use the reference path"):
            first.sum().backward()


class Compiled(unittest.TestCase):
    def compare(self, dynamic):
        for formula in (CAUSAL, TWO_VECTORS):
            def function(*tensors):
                output, log_sums, _ = run(with_leaves(given, [2 * tensor for tensor in tensors]))
                return torch.tanh(output).sum() + log_sums.sum()

            given = arguments(formula, grad=True, queries=5, keys=5)
            compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            expected, found = function(*leaves(given)), compiled(*leaves(given))
            torch.testing.assert_close(found, expected)
            for left, right in zip(torch.autograd.grad(found, leaves(given)), torch.autograd.grad(expected, leaves(given))):
                torch.testing.assert_close(left, right)

    def test_a_function_is_compiled_whole(self):
        self.compare(dynamic=False)

    def test_with_sizes_that_vary(self):
        self.compare(dynamic=True)


class Mistakes(unittest.TestCase):
    def refuses(self, message, changes=None, formula=CAUSAL, **more):
        given = {**arguments(formula), **(changes or {}), **more}
        with self.assertRaisesRegex(RuntimeError, message):
            run(given)

    def test_vectors(self):
        good = arguments()
        query, key, value = good["queries"][0], good["keys"][0], good["value"]
        self.refuses("attention: 0 query vectors are given; the formula has 1", queries=[])
        self.refuses("attention: 0 key vectors are given; the formula has 1", keys=[])
        self.refuses("attention: 1 query vectors are given; the formula has 2", formula=TWO_VECTORS, queries=[query])
        self.refuses("attention: 2 key vectors are given; the formula has 1", keys=[key, key])
        self.refuses("attention: query has 3 dimensions; expected 4", queries=[query[0]])
        self.refuses("attention: value has 2 dimensions; expected 4", value=value[0, 0])
        self.refuses("attention: query has dtype Long; expected float, double, bfloat16 or half", queries=[query.long()])
        self.refuses("attention: key has dtype Double, query has Float; expected one dtype", keys=[key.double()])
        self.refuses("attention: value has dtype BFloat16, query has Float; expected one dtype", value=value.bfloat16())
        self.refuses("attention: key has batch size 1, query has 2", keys=[key[:1]])
        self.refuses("attention: value has batch size 1, query has 2", value=value[:1])
        self.refuses("attention: key has 3 heads, query has 4; 4 is not a multiple of 3", keys=[key[:, :1].expand(2, 3, 7, 6)],
                     value=value[:, :1].expand(2, 3, 7, 3))
        self.refuses("attention: value has 1 heads, key has 2", value=value[:, :1])
        self.refuses("attention: value has 6 tokens, key has 7", value=value[:, :, 1:])
        self.refuses("attention: key has width 5, query has 6", keys=[key[..., 1:]])
        self.refuses("attention: query and key have width 0", queries=[query[..., :0]], keys=[key[..., :0]])

    def test_further_vectors(self):
        query = arguments()["queries"][0]
        for other, shape in ((query[:1], r"\[1, 4, 5, 6\]"), (query[:, :2], r"\[2, 2, 5, 6\]"), (query[:, :, 1:], r"\[2, 4, 4, 6\]")):
            self.refuses(rf"attention: a has shape {shape}; expected \[2, 4, 5, 6\]", formula=TWO_VECTORS, queries=[query, other])
        self.refuses("attention: a has width 5, key has 6; expected the same", formula=TWO_VECTORS, queries=[query, query[..., 1:]])
        self.refuses("attention: a has dtype Half, query has Float", formula=TWO_VECTORS, queries=[query, query.half()])

    def test_tables(self):
        alpha, beta = arguments(PRIOR)["tables"]
        b, t = arguments(TABLE)["tables"]
        self.refuses("attention: 1 tables are given; the formula has 2", formula=PRIOR, tables=[alpha])
        self.refuses("attention: 1 tables are given; the formula has 0", tables=[alpha])
        self.refuses("attention: the table 'alpha' has 1 dimensions; expected 2", formula=PRIOR, tables=[alpha[0], beta])
        self.refuses("attention: the table 'beta' has size 3 in its dimension 'head'; expected 4", formula=PRIOR, tables=[alpha, beta[:, :3]])
        self.refuses("attention: the table 'beta' has size 0 in its dimension 'head'; expected 4", formula=PRIOR, tables=[alpha, beta[:, :0]])
        self.refuses("attention: the table 'alpha' has size 3 in its dimension 'batch'; expected 2", formula=PRIOR, tables=[alpha.expand(3, 4), beta])
        self.refuses("attention: the table 'alpha' has dtype ComplexFloat; expected real numbers", formula=PRIOR, tables=[alpha.cfloat(), beta])
        self.refuses("attention: the table 'b' has size 7 in its dimension '8'; expected 8", formula=TABLE, tables=[b[..., 1:], t])
        self.refuses("attention: the table 't' has size 6 in its dimension 'token'; expected 7", formula=TABLE, tables=[b, t[..., 1:]])
        self.refuses("attention: the table 't' has size 0 in its dimension 'token'; expected 7", formula=TABLE, tables=[b, t[..., :0]])

    def test_key_mask(self):
        mask = mask_of()
        self.refuses("attention: the key mask has dtype Float; expected bool", key_mask=mask.float())
        self.refuses("attention: the key mask has 1 dimensions; expected 2", key_mask=mask[0])
        self.refuses(r"attention: the key mask has shape \[1, 7\]; expected \[2, 7\]", key_mask=mask[:1])
        self.refuses(r"attention: the key mask has shape \[2, 6\]; expected \[2, 7\]", key_mask=mask[:, 1:])

    def test_lists(self):
        good = lists()
        starts, keys = good["list_starts"], good["list_keys"]
        self.refuses("attention: lists need both their starts and their keys", good, list_keys=None)
        self.refuses("attention: lists need both their starts and their keys", good, list_starts=None)
        self.refuses("dtype Long, their keys Int; expected int", good, list_starts=starts.long())
        self.refuses("dtype Int, their keys Long; expected int", good, list_keys=keys.long())
        self.refuses("starts have 1 dimensions, their keys 1; expected 3 and 1", good, list_starts=starts[0, 0])
        self.refuses("starts have 3 dimensions, their keys 2; expected 3 and 1", good, list_keys=keys[None])
        self.refuses(r"starts have shape \[1, 1, 3\]; expected \[2 or 1, 4 or 1, 4\]", good, list_starts=starts[..., 1:])
        self.refuses(r"starts have shape \[1, 3, 4\]; expected \[2 or 1, 4 or 1, 4\]", good, list_starts=starts.expand(1, 3, 4))
        self.refuses("list 2 goes from 2 to 6 of 5 entries", good, list_starts=starts + torch.tensor([0, 0, 0, 1], dtype=torch.int32))
        self.refuses("list 0 goes from -1 to 2 of 5 entries", good, list_starts=starts - torch.tensor([1, 0, 0, 0], dtype=torch.int32))
        self.refuses("list 1 goes from 2 to 1 of 5 entries", good, list_starts=starts - torch.tensor([0, 0, 1, 0], dtype=torch.int32))
        self.refuses("list 2 names key tile 7; expected ascending numbers below 7", good, list_keys=keys + (keys == 6).int())
        self.refuses("list 0 names key tile -1; expected ascending", good, list_keys=keys - (keys == 0).int())
        self.refuses("list 2 names key tile 5; expected ascending", good, list_keys=keys - (keys == 6).int())
        self.refuses("list 0 names key tile 3; expected ascending numbers below 2", good, key_tile=4)
        for tile in (0, -1, 2**62):
            self.refuses("expected at least 1 x 1", good, query_tile=tile)
            self.refuses("expected at least 1 x 1", good, key_tile=tile)

    def test_numbers(self):
        for position in (-1, -2**63, 2**63 - 1):
            self.refuses(f"attention: the offset is {position}; expected a position", offset=position)
            self.refuses(f"attention: the first key is {position}; expected a position", first_key=position)
        for epsilon in (-1e-9, 1.0, float("nan"), float("inf")):
            self.refuses("attention: epsilon is .*; expected 0 or more and less than 1", epsilon=epsilon)

    def test_formula(self):
        self.refuses("unknown name 'aplha'", {"formula": "score = s - aplha"})
        self.refuses("expected|unexpected|needs|unknown", {"formula": "mask = "})

    def test_what_a_gradient_is_given(self):
        good = backward_arguments(arguments(TWO_VECTORS))
        output, log_sums, partials = good[2:5]

        def refuses(message, **places):
            given = list(good)
            for place, value in places.items():
                given[int(place[1:])] = value
            with self.assertRaisesRegex(RuntimeError, message):
                BACKWARD(*given)

        refuses(r"attention: the output's gradient has shape \[1, 4, 5, 3\]; expected \[2, 4, 5, 3\]", p0=output[:1])
        refuses("attention: the output's gradient has dtype Double; expected Float", p0=output.double())
        refuses(r"attention: the gradient of log_sums has shape \[1, 2, 4, 5\]; expected \[2, 2, 4, 5\]", p1=log_sums[:1])
        refuses(r"attention: the output has shape \[2, 4, 4, 3\]; expected", p2=output[:, :, 1:])
        refuses(r"attention: log_sums has shape \[2, 2, 4, 4\]; expected", p3=log_sums[..., 1:])
        refuses("attention: log_sums has dtype Double; expected Float", p3=log_sums.double())
        refuses("attention: the gradient needs the partial outputs; run the forward pass with training = true", p4=partials[:0])
        refuses(r"attention: partials has shape \[1, 2, 4, 5, 3\]; expected \[2, 2, 4, 5, 3\]", p4=partials[:1])
        refuses("attention: wanted has 0 entries; expected one per table, 1", p20=[])

    def test_without_memory_the_kinds_are_checked_too(self):
        given = {name: value.to("meta") if isinstance(value, torch.Tensor) else value for name, value in arguments().items()}
        given["queries"] = [tensor.to("meta") for tensor in given["queries"]]
        given["keys"] = [tensor.to("meta") for tensor in given["keys"]]
        self.assertEqual(run(given)[0].shape, (2, 4, 5, 3))
        with self.assertRaisesRegex(RuntimeError, "0 key vectors are given"):
            run({**given, "keys": []})
        with self.assertRaisesRegex(RuntimeError, "value has 3 dimensions"):
            run({**given, "value": given["value"][0]})


if __name__ == "__main__":
    sys.exit(unittest.main())
