"""Attention as a function: gathers a call's tensors under their names and hands them to one operator."""

from __future__ import annotations

import warnings
from typing import Any, Mapping

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import vmap as _vmap  # noqa: F401  registers the rules
from ._library import operators
from .formulas import Formula, FormulaLike, constant_when_compiled, formula as to_formula

PATHS = ("automatic", "fused", "reference")
_noted: set[str] = set()


def note_once(message: str) -> None:
    """A warning that is shown once in a process, however often its cause comes up."""
    if torch.compiler.is_compiling() or message in _noted:
        return
    _noted.add(message)
    warnings.warn(message, stacklevel=4)


@constant_when_compiled
def _resolve(given: str, shapes: tuple[tuple[str, int], ...], set: tuple[tuple[str, float], ...]) -> Formula:
    return to_formula(given, set=dict(set), declare=_declarations(shapes))


def _declarations(shapes: tuple[tuple[str, int], ...]) -> dict[str, str]:
    # A param that the text does not declare is one number, or one for each head.
    return {name: f"param {name}{'[head]' if dimensions else ''} = 0" for name, dimensions in shapes if name.isidentifier()}


def resolve(given: FormulaLike, params: Mapping[str, Tensor] | None = None, set: Mapping[str, float] | None = None) -> Formula:
    """The formula that a call means: `params` declare what its text does not."""
    if isinstance(given, Formula) and not set:
        return given
    shapes = tuple((name, value.dim()) for name, value in (params or {}).items())
    if isinstance(given, str):
        return _resolve(given, shapes, tuple((set or {}).items()))
    return to_formula(given, set=set, declare=_declarations(shapes))


def _as_tensor(name: str, value: Any, query: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, (int, float)):
        raise TypeError(f"attention: '{name}' is {_kind(value)}; expected a tensor or a number")
    return torch.tensor(float(value), dtype=torch.float32, device=query.device)


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def pair_masked(formula: Formula, mask: Tensor) -> tuple[Formula, Tensor]:
    """The formula with a mask of pairs as one more input, and the mask with all four dimensions."""
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"attention: attn_mask has dtype {str(mask.dtype).removeprefix('torch.')}; expected bool or a floating type")
    if not 2 <= mask.dim() <= 4:
        raise ValueError(f"attention: attn_mask has shape {list(mask.shape)}; expected [batch, heads, queries, keys], with what is "
                         "shared left out in front or of size 1")
    masked = formula.with_pair_mask("allowed" if mask.dtype == torch.bool else "added")
    return masked, mask[(None,) * (4 - mask.dim())]


def attention(query: Tensor, key: Tensor, value: Tensor, formula: FormulaLike = "full", *, params: Mapping[str, Tensor | float] | None = None,
              inputs: Mapping[str, Tensor] | None = None, x: Tensor | None = None, memory: Tensor | None = None,
              key_mask: Tensor | None = None, attn_mask: Tensor | None = None, offset: int = 0, first_key: int = 0,
              set: Mapping[str, float] | None = None, dropout: float = 0.0, need_weights: bool = False, path: str = "automatic",
              epsilon: float = 0.0) -> Any:
    """Attention by a formula; differentiable by every real tensor that is given.

    query [batch, heads, queries, width], key [batch, kv_heads, keys, width], value [batch, kv_heads, keys, any width]; heads is a multiple
    of kv_heads. Gives [batch, heads, queries, value's width], and with `need_weights` also the weights.

    formula: its text, the name of a shipped mechanism, a file, a Python function or a `Formula`.
    params: the formula's params and the weights of its host expressions by name. A param that is not given has its start value; one that
        the text does not declare is declared: a tensor without dimensions is one number, any other has one entry per head.
    inputs: the formula's inputs by name.
    x: the layer's input [batch, tokens, model_dim], for formulas that are computed from it; `memory`: that of the keys, when it is another.
    key_mask: [batch, keys], true for real keys and false for padding.
    attn_mask: [..., queries, keys]: Boolean, where false hides a pair, or numbers that are added to the dot products.
    offset: the position of the first query; with cached keys, keys - queries. first_key: that of the first key, when earlier ones are gone.
    set: other values of the formula's constants.
    path: "fused" runs the kernels, "reference" plain tensor operations that hold the n x n map; "automatic" is the former wherever it can
        run, and says so once where it cannot.
    epsilon: leave out tiles whose weight is provably below this share of their rows; fused path only.
    """
    if path not in PATHS:
        raise ValueError(f"attention: path is '{path}'; expected one of {', '.join(PATHS)}")
    if not 0 <= dropout < 1:
        raise ValueError(f"attention: dropout is {dropout:g}; expected 0 or more and less than 1")
    for name, position in (("offset", offset), ("first_key", first_key)):
        if isinstance(position, float):
            raise TypeError(f"attention: {name} is {position:g}; expected a whole number")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"attention: {name} is {_kind(tensor)}; expected a tensor")
        if tensor.layout != torch.strided:
            raise TypeError(f"attention: {name} has layout {str(tensor.layout).removeprefix('torch.')}; expected a dense tensor")
    for name, table in (("params", params), ("inputs", inputs)):
        if table is not None and not isinstance(table, Mapping):
            raise TypeError(f"attention: {name} is {_kind(table)}; expected tensors by name")
    learned = {name: _as_tensor(name, number, query) for name, number in (params or {}).items()}
    by_name = isinstance(formula, str)
    formula = resolve(formula, learned, set)
    given = dict(inputs or {}) if by_name else {**formula.captured, **(inputs or {})}
    if attn_mask is not None:
        formula, mask = pair_masked(formula, attn_mask)
        given[formula.mask_input] = mask
    names = [f"param:{name}" for name in learned] + [f"input:{name}" for name in given]
    tensors = [*learned.values(), *given.values()]
    for name, optional in (("x", x), ("memory", memory), ("key_mask", key_mask)):
        if optional is not None:
            names.append(name)
            tensors.append(optional)
    for name, tensor in zip(("key", "value", *(f"'{name.partition(':')[2] or name}'" for name in names)), (key, value, *tensors)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"attention: {name} is {_kind(tensor)}; expected a tensor")
        if tensor.device != query.device:
            raise ValueError(f"attention: {name} is on {tensor.device}, query on {query.device}; expected one device")
    obstacle = _obstacle(query, dropout, need_weights)
    if path == "fused" and obstacle:
        raise ValueError(f"attention: the fused path was asked for, but {obstacle}")
    if path == "reference" or obstacle:
        if path != "reference" and not need_weights:
            note_once(f"saccade: {obstacle}, so the reference runs, which holds the n x n map")
        output, weights = operators.attend_reference(formula.resolved, formula.name, query, key, value, names, tensors, offset, first_key,
                                                     dropout, need_weights)
        return (output, weights) if need_weights else output
    return operators.attend(formula.resolved, formula.name, query, key, value, names, tensors, offset, first_key, epsilon, False)[0]


def _obstacle(query: Tensor, dropout: float, need_weights: bool) -> str:
    """Why a call cannot run on the kernels; empty when it can. A tensor on "meta" has shapes only, which the kernels' operator knows."""
    if need_weights:
        return "the weights are asked for, which only the reference holds"
    if dropout > 0:
        return "dropout of the weights is done by the reference"
    if forward_ad._current_level >= 0:  # also inside torch.func.jvp; the kernels' operator would give no tangent, without a word
        return "derivatives are taken forward, which only the reference can do"
    if query.device.type not in ("cpu", "meta"):
        return f"the tensors are on {query.device}; the fused kernels run on the CPU"
    return ""
