"""Conformance of any attention function: properties that attention must have, tested from outside.

    print(saccade.check(my_attention))

The function takes query, key and value, [batch, heads, tokens, width], and gives the output. If it has an argument `offset`, the position
of the first query, decoding is tested too; if it has `key_mask`, [batch, keys] and true for real keys, padding is.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .formulas import Formula, FormulaLike, formula as to_formula

# Differences of this size are rounding: results are compared in double, and differ by the order of sums.
TOLERANCE = 1e-8


@dataclass(frozen=True)
class CheckLine:
    """What one check found."""

    name: str
    outcome: str  # "pass", "FAIL" or "skip"
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.outcome:4}  {self.name}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class CheckResult:
    """What all checks found; true when none failed."""

    subject: str
    lines: list[CheckLine] = field(default_factory=list)

    @property
    def failures(self) -> list[CheckLine]:
        return [line for line in self.lines if line.outcome == "FAIL"]

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        passed = sum(line.outcome == "pass" for line in self.lines)
        skipped = sum(line.outcome == "skip" for line in self.lines)
        ending = f"{passed} passed, {len(self.failures)} failed" + (f", {skipped} skipped" if skipped else "")
        return "\n".join([self.subject, *(f"  {line}" for line in self.lines), f"  {ending}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .display import check_html

        return check_html(self)


@dataclass
class Subject:
    """The function under test and what is expected of it."""

    function: Callable[..., Any]
    heads: int
    kv_heads: int
    width: int
    causal: bool
    scale: float | None
    against: Callable[..., Tensor] | None
    seed: int
    takes_offset: bool = False
    takes_key_mask: bool = False

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **call: Any) -> Tensor:
        output = self.function(query, key, value, **call)
        output = output[0] if isinstance(output, tuple) else output
        if not isinstance(output, Tensor):
            raise TypeError(f"check: the function gave {type(output).__name__}; expected a tensor")
        return output

    def tensors(self, tokens: int = 7, *, batch: int = 2, keys: int | None = None, dtype: torch.dtype = torch.float64,
                grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        shapes = ((batch, self.heads, tokens, self.width), *2 * ((batch, self.kv_heads, keys or tokens, self.width),))
        return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(grad)
                     for shape in shapes)  # type: ignore[return-value]


class Skipped(Exception):
    """The check does not apply; the text says why."""


def _difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, infinite where one is not a number."""
    if found.shape != expected.shape:
        return math.inf
    gap = (found.double() - expected.double()).abs()
    return float(gap.nan_to_num(nan=math.inf).max()) if gap.numel() else 0.0


def _expect(ok: bool, detail: str) -> None:
    if not ok:
        raise AssertionError(detail)


def _shapes(subject: Subject) -> None:
    query, key, value = subject.tensors()
    output = subject(query, key, value)
    _expect(output.shape == query.shape, f"the output has shape {list(output.shape)}; expected {list(query.shape)}")
    _expect(output.dtype == query.dtype, f"the output has dtype {output.dtype}; the query has {query.dtype}")
    _expect(bool(output.isfinite().all()), "the output holds NaN or infinity for ordinary inputs")


def _values(subject: Subject) -> None:
    if subject.against is None:
        raise Skipped("no formula to compare with was given (against=)")
    query, key, value = subject.tensors(9)
    gap = _difference(subject(query, key, value), subject.against(query, key, value))
    _expect(gap <= TOLERANCE, f"the output differs from the formula's by {gap:.3g}")


def _causality(subject: Subject) -> None:
    if not subject.causal:
        raise Skipped("the function is said not to be causal")
    query, key, value = subject.tensors()
    before = subject(query, key, value)
    for place in range(1, query.shape[2]):
        changed = [tensor.clone() for tensor in (query, key, value)]
        for tensor in changed:
            tensor[:, :, place:] += 1.5
        gap = _difference(subject(*changed)[:, :, :place], before[:, :, :place])
        _expect(gap <= TOLERANCE, f"changing the tokens from {place} on changes earlier outputs by {gap:.3g}: later tokens leak")


def _cache_parity(subject: Subject) -> None:
    if not subject.takes_offset:
        raise Skipped("the function has no argument 'offset'")
    if not subject.causal:
        raise Skipped("without a causal mask there is no decoding")
    query, key, value = subject.tensors(8)
    whole = subject(query, key, value)
    for chunk in (1, 3):
        for first in range(0, query.shape[2], chunk):
            last = min(first + chunk, query.shape[2])
            part = subject(query[:, :, first:last], key[:, :, :last], value[:, :, :last], offset=first)
            gap = _difference(part, whole[:, :, first:last])
            _expect(gap <= TOLERANCE, f"the queries from {first} to {last - 1} with {last} cached keys and offset={first} differ from the full "
                    f"forward by {gap:.3g}")


def _gradients(subject: Subject) -> None:
    tensors = subject.tensors(5, grad=True)
    generator = torch.Generator().manual_seed(subject.seed + 1)
    output = subject(*tensors)
    if not output.requires_grad:
        raise AssertionError("the output has no gradient")
    weight = torch.randn(output.shape, generator=generator, dtype=output.dtype)
    gradients = torch.autograd.grad((output * weight).sum(), tensors)
    for name, index in (("query", 0), ("key", 1), ("value", 2)):
        _expect(bool(gradients[index].isfinite().all()), f"the gradient of {name} holds NaN or infinity")
        direction = torch.randn(tensors[index].shape, generator=generator, dtype=torch.float64)
        step = 1e-6

        def loss(sign: float) -> Tensor:
            moved = [tensor.detach() for tensor in tensors]
            moved[index] = moved[index] + sign * step * direction
            return (subject(*moved) * weight).sum()

        numeric = float((loss(1) - loss(-1)).detach() / (2 * step))
        exact = float((gradients[index] * direction).sum())
        _expect(abs(numeric - exact) <= 1e-5 * max(1.0, abs(numeric)),
                f"the gradient of {name} is {exact:.6g} along a direction; finite differences give {numeric:.6g}")


def _padding(subject: Subject) -> None:
    if not subject.takes_key_mask:
        raise Skipped("the function has no argument 'key_mask'")
    query, key, value = subject.tensors(7)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 5:] = False
    filled = subject(query, key, value, key_mask=mask)
    for content in (1e6, math.nan):
        other_key, other_value = key.clone(), value.clone()
        other_key[1, :, 5:], other_value[1, :, 5:] = content, content
        gap = _difference(subject(query, other_key, other_value, key_mask=mask), filled)
        _expect(gap <= TOLERANCE, f"padded keys that hold {content:g} change the output by {gap:.3g}")
    short = subject(query[1:, :, :5], key[1:, :, :5], value[1:, :, :5])
    gap = _difference(filled[1:, :, :5], short)
    _expect(gap <= TOLERANCE, f"5 tokens with 2 of padding differ from 5 tokens by {gap:.3g}")


def _empty_rows(subject: Subject) -> None:
    if not subject.takes_key_mask:
        raise Skipped("the function has no argument 'key_mask'")
    query, key, value = subject.tensors(6, grad=True)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1] = False
    output = subject(query, key, value, key_mask=mask)
    _expect(bool(output.isfinite().all()), "a row that may see no key gives NaN or infinity; expected 0")
    largest = float(output[1].detach().abs().max())
    _expect(largest == 0, f"a row that may see no key gives {largest:.3g}; expected 0")
    for name, gradient in zip(("query", "key", "value"), torch.autograd.grad(output.sum(), (query, key, value))):
        _expect(bool(gradient.isfinite().all()), f"with a row that may see no key the gradient of {name} holds NaN or infinity")


def _scale(subject: Subject) -> None:
    """From two weights at two queries, one of them 0: what depends on positions alone cancels."""
    if subject.scale is None:
        raise Skipped("no scale is expected (scale=None)")
    query, key, _ = subject.tensors(2, batch=1)
    query = query * 0.1  # small scores, so that whatever bounds them is still a straight line
    value = torch.zeros(1, subject.kv_heads, 2, subject.width, dtype=torch.float64)
    value[:, :, 0, 0] = value[:, :, 1, 1] = 1

    def log_ratio(of: Tensor) -> Tensor:
        weights = subject(of, key, value)[:, :, -1, :2]
        return (weights[..., 0] / weights[..., 1]).log()

    grown = key.repeat_interleave(subject.heads // subject.kv_heads, 1)
    products = (query[:, :, -1:] * grown).sum(-1)
    found = (log_ratio(query) - log_ratio(torch.zeros_like(query))) / (products[..., 0] - products[..., 1])
    if not bool(found.isfinite().all()):
        raise Skipped("its weights are not those of a softmax, so that no scale can be read off")
    worst = float(found[(found - subject.scale).abs() == (found - subject.scale).abs().max()].flatten()[0])
    _expect(abs(worst - subject.scale) <= 1e-3 * abs(subject.scale),
            f"dot products are multiplied by {worst:.4g}; expected {subject.scale:.4g}, that is 1 / sqrt({1 / subject.scale**2:.4g})")


def _independence(subject: Subject) -> None:
    query, key, value = subject.tensors()
    before = subject(query, key, value)
    changed = [tensor.clone() for tensor in (query, key, value)]
    for tensor in changed:
        tensor[1] = tensor[1] * 2 + 1
    gap = _difference(subject(*changed)[0], before[0])
    _expect(gap <= TOLERANCE, f"changing one sequence of a batch changes another by {gap:.3g}")


def _layouts(subject: Subject) -> None:
    query, key, value = subject.tensors()
    before = subject(query, key, value)
    strided = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (query, key, value)]
    gap = _difference(subject(*strided), before)
    _expect(gap <= TOLERANCE, f"the same numbers in another memory layout give another output, by {gap:.3g}")


def _short_dtypes(subject: Subject) -> None:
    query, key, value = subject.tensors()
    exact = subject(query, key, value)
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.1)):
        output = subject(*(tensor.to(dtype) for tensor in (query, key, value)))
        name = str(dtype).removeprefix("torch.")
        _expect(output.dtype == dtype, f"{name} inputs give {str(output.dtype).removeprefix('torch.')}")
        gap = _difference(output, exact)
        _expect(gap <= tolerance, f"in {name} the output is off by {gap:.3g}")


def _one_token(subject: Subject) -> None:
    output = subject(*subject.tensors(1))
    _expect(bool(output.isfinite().all()), "one token alone gives NaN or infinity")


CHECKS: dict[str, Callable[[Subject], None]] = {
    "shapes and dtypes": _shapes,
    "values are the formula's": _values,
    "nothing leaks from later tokens": _causality,
    "decoding equals the full forward": _cache_parity,
    "gradients equal finite differences": _gradients,
    "padding does not matter": _padding,
    "a row without keys is harmless": _empty_rows,
    "dot products are scaled as expected": _scale,
    "sequences of a batch are independent": _independence,
    "memory layout does not matter": _layouts,
    "short dtypes are near": _short_dtypes,
    "one token alone": _one_token,
}


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters


def _of_formula(formula: Formula) -> Callable[..., Tensor]:
    from .functional import attention

    def run(query: Tensor, key: Tensor, value: Tensor, offset: int = 0, key_mask: Tensor | None = None) -> Tensor:
        return attention(query, key, value, formula, offset=offset, key_mask=key_mask)

    return run


def _lines(subject: Subject) -> Iterator[CheckLine]:
    for name, run in CHECKS.items():
        try:
            run(subject)
        except Skipped as reason:
            yield CheckLine(name, "skip", str(reason))
        except AssertionError as failure:
            yield CheckLine(name, "FAIL", str(failure))
        except Exception as error:  # a function that refuses a call that it must take has failed, whatever it throws
            yield CheckLine(name, "FAIL", f"{type(error).__name__}: {error}")
        else:
            yield CheckLine(name, "pass")


def check(function: Callable[..., Any] | FormulaLike, *, causal: bool = True, scale: float | str | None = "default", heads: int = 4,
          kv_heads: int | None = None, width: int = 8, against: FormulaLike | None = None, seed: int = 1) -> CheckResult:
    """Tests an attention function, or a formula, and says what was found.

    causal: whether later tokens must be invisible. scale: what dot products are expected to be multiplied by, 1 / sqrt(width) unless said
    otherwise; None for mechanisms without a softmax of them. against: a formula whose output it must have. heads, kv_heads, width: of the
    tensors that it is called with."""
    name = getattr(function, "__name__", None) or type(function).__name__
    if not callable(function):
        formula = to_formula(function)
        name, function = formula.name, _of_formula(formula)
    expected = 1 / math.sqrt(width) if scale == "default" else scale
    reference = None if against is None else _of_formula(to_formula(against))
    subject = Subject(function, heads, kv_heads or heads, width, causal, expected, reference, seed,  # type: ignore[arg-type]
                      _takes(function, "offset"), _takes(function, "key_mask"))
    return CheckResult(name, list(_lines(subject)))
