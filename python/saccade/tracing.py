"""Python functions as formulas: the function runs once with symbols in place of numbers, which write down what is done to them.

    saccade.trace(lambda s, d, alpha, beta: s - abs(alpha * d) ** beta, mask="causal")

The result is the text of a formula; what it means is decided where all formulas are read. Names of arguments say what they are: s, i, j,
d, h, H and n as in the language, all others are params. FlexAttention's functions go by the order of their arguments instead.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, Callable, Mapping

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .formulas import Formula, parse

VARIABLES = ("s", "i", "j", "d", "h", "H", "n")
FLEX_SCORE = ("score", "b", "h", "q_idx", "kv_idx")
_HELP = "a formula is traced once, without numbers"


class Symbol:
    """A number, or with `boolean` a condition, that is not known yet; its text is the formula's."""

    def __init__(self, text: str, tracer: _Tracer, boolean: bool = False):
        self.text, self.tracer, self.boolean = text, tracer, boolean

    def _binary(self, sign: str, other: Any, swapped: bool = False, boolean: bool = False) -> Symbol:
        other_text = self.tracer.text(other)
        left, right = (other_text, self.text) if swapped else (self.text, other_text)
        return Symbol(f"({left} {sign} {right})", self.tracer, boolean)

    def __add__(self, other: Any) -> Symbol:
        return self._binary("+", other)

    def __radd__(self, other: Any) -> Symbol:
        return self._binary("+", other, swapped=True)

    def __sub__(self, other: Any) -> Symbol:
        return self._binary("-", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._binary("-", other, swapped=True)

    def __mul__(self, other: Any) -> Symbol:
        return self._binary("*", other)

    def __rmul__(self, other: Any) -> Symbol:
        return self._binary("*", other, swapped=True)

    def __truediv__(self, other: Any) -> Symbol:
        return self._binary("/", other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._binary("/", other, swapped=True)

    def __floordiv__(self, other: Any) -> Symbol:
        return self._binary("//", other)

    def __rfloordiv__(self, other: Any) -> Symbol:
        return self._binary("//", other, swapped=True)

    def __mod__(self, other: Any) -> Symbol:
        return self._binary("%", other)

    def __rmod__(self, other: Any) -> Symbol:
        return self._binary("%", other, swapped=True)

    def __pow__(self, other: Any) -> Symbol:
        return self._binary("^", other)

    def __rpow__(self, other: Any) -> Symbol:
        return self._binary("^", other, swapped=True)

    def __lt__(self, other: Any) -> Symbol:
        return self._binary("<", other, boolean=True)

    def __le__(self, other: Any) -> Symbol:
        return self._binary("<=", other, boolean=True)

    def __gt__(self, other: Any) -> Symbol:
        return self._binary(">", other, boolean=True)

    def __ge__(self, other: Any) -> Symbol:
        return self._binary(">=", other, boolean=True)

    def __eq__(self, other: Any) -> Symbol:  # type: ignore[override]
        return self._binary("==", other, boolean=True)

    def __ne__(self, other: Any) -> Symbol:  # type: ignore[override]
        return self._binary("!=", other, boolean=True)

    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Symbol:
        return self._binary("and", other, boolean=True)

    def __rand__(self, other: Any) -> Symbol:
        return self._binary("and", other, swapped=True, boolean=True)

    def __or__(self, other: Any) -> Symbol:
        return self._binary("or", other, boolean=True)

    def __ror__(self, other: Any) -> Symbol:
        return self._binary("or", other, swapped=True, boolean=True)

    def __invert__(self) -> Symbol:
        return Symbol(f"(not {self.text})", self.tracer, True)

    def __neg__(self) -> Symbol:
        return Symbol(f"(-{self.text})", self.tracer)

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return Symbol(f"abs({self.text})", self.tracer)

    def __bool__(self) -> bool:
        raise TypeError(f"trace: Python asks whether '{self.text}' holds; {_HELP}, so write torch.where(condition, a, b) for if, & | ~ for "
                        "and, or and not, and torch.minimum or torch.maximum for min and max")

    def __float__(self) -> float:
        raise TypeError(f"trace: a function of Python's math module got '{self.text}'; {_HELP}, so use that of torch")

    __int__ = __index__ = __float__  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        # Methods of tensors are the functions of the same name.
        if name.startswith("_") or name not in _METHODS:
            raise AttributeError(f"trace: '{name}' of '{self.text}' cannot be written as a formula")
        return lambda *args, **kwargs: self.tracer.call(name, (self, *args), kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        tracer = next(value.tracer for value in _flat(args) if isinstance(value, Symbol))
        return tracer.call(getattr(func, "__name__", str(func)), args, kwargs or {})


# torch's names for the language's functions, with the number of their arguments.
_FUNCTIONS = {"abs": ("abs", 1), "absolute": ("abs", 1), "sign": ("sign", 1), "floor": ("floor", 1), "sqrt": ("sqrt", 1), "exp": ("exp", 1),
              "log": ("log", 1), "log1p": ("log1p", 1), "tanh": ("tanh", 1), "sigmoid": ("sigmoid", 1), "relu": ("relu", 1),
              "sin": ("sin", 1), "cos": ("cos", 1), "minimum": ("min", 2), "maximum": ("max", 2), "where": ("where", 3)}
_OPERATORS = {"add": "+", "sub": "-", "subtract": "-", "mul": "*", "multiply": "*", "div": "/", "true_divide": "/", "divide": "/",
              "floor_divide": "//", "remainder": "%", "pow": "^", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
              "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "not_equal": "!=", "logical_and": "and",
              "logical_or": "or", "bitwise_and": "and", "bitwise_or": "or", "and": "and", "or": "or"}
_CONDITIONS = ("<", "<=", ">", ">=", "==", "!=", "and", "or")
_METHODS = {*_FUNCTIONS, *_OPERATORS, "neg", "negative", "logical_not", "bitwise_not", "clamp", "clip", "square", "float", "double", "to",
            "type", "long", "int", "view", "item", "exp2", "log2", "rsqrt", "reciprocal", "new_ones", "new_zeros"}


def _flat(values: Any) -> list[Any]:
    return [entry for value in values for entry in (_flat(value) if isinstance(value, (tuple, list)) else [value])]


class _Subscripts(TorchFunctionMode):
    """Tables that a function closes over: indexing one by a symbol makes it an input of the formula."""

    def __init__(self, tracer: _Tracer):
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if func is Tensor.__getitem__ and any(isinstance(index, Symbol) for index in _flat(args[1:])):
            return self.tracer.read(args[0], args[1] if isinstance(args[1], tuple) else (args[1],))
        return func(*args, **(kwargs or {}))


class _Tracer:
    def __init__(self) -> None:
        self.captured: dict[str, Tensor] = {}
        self.declarations: list[str] = []
        self._names: dict[int, str] = {}
        self.batch = Symbol("b", self)

    def text(self, value: Any) -> str:
        if isinstance(value, Symbol):
            if value is self.batch:
                raise ValueError("trace: a formula cannot read the number of the sequence; a tensor indexed by it becomes an input")
            return value.text
        if isinstance(value, bool):
            return "full" if value else "(not full)"
        if isinstance(value, (int, float)):
            if math.isnan(value):
                raise ValueError("trace: a formula has no NaN")
            number = "inf" if math.isinf(value) else repr(abs(value))
            return f"(-{number})" if value < 0 else number
        if isinstance(value, Tensor):
            if value.numel() == 1 and not value.requires_grad and value.dim() == 0:
                return self.text(value.item())
            if value.dim() == 0:
                return self.capture(value, [])
            raise ValueError(f"trace: a tensor of shape {list(value.shape)} cannot be part of a formula; index it by q_idx, kv_idx, h, i, j or d")
        raise TypeError(f"trace: {type(value).__name__} cannot be part of a formula")

    def capture(self, tensor: Tensor, dimensions: list[str]) -> str:
        if id(tensor) in self._names:
            return self._names[id(tensor)]
        name = f"captured{len(self.captured)}"
        kind = ": bool" if tensor.dtype == torch.bool else "" if tensor.is_floating_point() else ": int"
        self.declarations.append(f"input {name}{'[' + ', '.join(dimensions) + ']' if dimensions else ''}{kind}")
        self.captured[name] = tensor
        self._names[id(tensor)] = name
        return name

    def read(self, tensor: Tensor, indices: tuple) -> Symbol:
        if len(indices) != tensor.dim():
            raise ValueError(f"trace: a tensor of shape {list(tensor.shape)} is indexed by {len(indices)} numbers; expected {tensor.dim()}")
        dimensions = ["batch" if index is self.batch else "*" for index in indices]
        name = self.capture(tensor, dimensions)
        subscripts = [self.text(index) for index in indices if index is not self.batch]
        return Symbol(f"{name}[{', '.join(subscripts)}]" if subscripts else name, self, tensor.dtype == torch.bool)

    def filled(self, one: bool, size: Any = (), dtype: torch.dtype | None = None, **kwargs: Any) -> Symbol:
        # What FlexAttention's and_masks and or_masks begin with.
        if size not in ((), []):
            raise ValueError(f"trace: a tensor of shape {size} cannot be part of a formula; expected a single number")
        return Symbol(self.text(one if dtype == torch.bool else int(one)), self, dtype == torch.bool)

    def call(self, name: str, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        name = name.strip("_")
        if name not in _OPERATORS and name.startswith("r") and name[1:] in _OPERATORS:
            name, args = name[1:], (args[1], args[0])  # tensor.__rsub__(symbol) and the like
        if kwargs.get("rounding_mode") == "floor":
            name, kwargs = "floor_divide", {}
        if name in _OPERATORS and len(args) == 2 and not kwargs:
            sign = _OPERATORS[name]
            return Symbol(f"({self.text(args[0])} {sign} {self.text(args[1])})", self, sign in _CONDITIONS)
        if name in _FUNCTIONS and len(args) == _FUNCTIONS[name][1] and not kwargs:
            return Symbol(f"{_FUNCTIONS[name][0]}({', '.join(map(self.text, args))})", self)
        if name in ("neg", "negative"):
            return -args[0]
        if name in ("logical_not", "bitwise_not", "invert"):
            return ~args[0]
        if name == "square":
            return args[0] ** 2
        if name == "exp2":
            return 2 ** args[0]
        if name == "log2":
            return Symbol(f"(log({self.text(args[0])}) / {math.log(2)!r})", self)
        if name == "reciprocal":
            return 1 / args[0]
        if name == "rsqrt":
            return Symbol(f"(1 / sqrt({self.text(args[0])}))", self)
        if name in ("new_ones", "new_zeros"):
            return self.filled(name == "new_ones", *args[1:], **kwargs)
        if name in ("clamp", "clip"):
            low = kwargs.get("min", args[1] if len(args) > 1 else None)
            high = kwargs.get("max", args[2] if len(args) > 2 else None)
            result = self.text(args[0])
            result = result if low is None else f"max({result}, {self.text(low)})"
            return Symbol(result if high is None else f"min({result}, {self.text(high)})", self)
        if name in ("float", "double", "to", "type", "view"):
            if args[0].boolean:
                return Symbol(f"where({args[0].text}, 1, 0)", self)
            return args[0]
        if name in ("long", "int"):
            return Symbol(f"floor({args[0].text})", self)
        raise ValueError(f"trace: '{name}' cannot be written as a formula; it has {', '.join(sorted({f for f, _ in _FUNCTIONS.values()}))}")


def _run(tracer: _Tracer, function: Callable[..., Any], symbols: list[Any]) -> Any:
    with _Subscripts(tracer):
        return function(*symbols)


def _arguments(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters):
        raise TypeError(f"trace: the arguments of {getattr(function, '__name__', function)} have no names; expected such as s, d, alpha")
    return parameters


def _by_name(tracer: _Tracer, function: Callable[..., Any], declare: dict[str, str], offered: Mapping[str, str]) -> str:
    symbols = []
    for parameter in _arguments(function):
        name = parameter.name
        if name not in VARIABLES and name not in declare:
            start = parameter.default
            if start is not inspect.Parameter.empty and not isinstance(start, (int, float)):
                raise TypeError(f"trace: the param '{name}' starts at {start!r}; expected a number")
            declare[name] = offered.get(name, f"param {name}[head] = {0 if start is inspect.Parameter.empty else start!r}")
            if start is not inspect.Parameter.empty:
                declare[name] = declare[name].split("=")[0] + f"= {start!r}"
        symbols.append(Symbol(name, tracer))
    return tracer.text(_run(tracer, function, symbols))


def _finish(tracer: _Tracer, lines: list[str], declarations: list[str], name: str, set: Mapping[str, float] | None) -> Formula:
    return parse("\n".join([*declarations, *tracer.declarations, *lines]) + "\n", name, set, captured=tracer.captured)


def _is_flex(function: Callable[..., Any]) -> bool:
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(parameters) == 5 and parameters[0].name == "score"


def _is_flex_mask(function: Callable[..., Any]) -> bool:
    # By the names that FlexAttention's documentation uses; any others are params of a score.
    return [parameter.name for parameter in inspect.signature(function).parameters.values()][1:] == ["h", "q_idx", "kv_idx"]


def trace(score: Callable[..., Any] | None = None, *, mask: Callable[..., Any] | str | None = None,
          weights: Callable[..., Any] | None = None, name: str | None = None, set: Mapping[str, float] | None = None,
          declare: Mapping[str, str] | None = None) -> Formula:
    """A formula from Python functions. `mask` may also be an expression of the language, such as "causal".

    A default of an argument is where its param starts. A score of five arguments, the first called `score`, is FlexAttention's, and one
    of `b, h, q_idx, kv_idx` is its mask."""
    if score is None and mask is None and weights is None:
        raise TypeError("trace: nothing to trace; expected a score, a mask or weights")
    if score is not None and _is_flex(score):
        return from_flex(score, None if isinstance(mask, str) else mask, name=name, mask=mask if isinstance(mask, str) else None, set=set)
    if score is not None and mask is None and weights is None and _is_flex_mask(score):
        return from_flex(None, score, name=name, set=set)
    tracer = _Tracer()
    declared: dict[str, str] = {}
    lines = []
    for output, function in (("mask", mask), ("score", score), ("weights", weights)):
        if isinstance(function, str):
            lines.append(f"{output} = {function}")
        elif function is not None:
            lines.append(f"{output} = {_by_name(tracer, function, declared, declare or {})}")
    return _finish(tracer, lines, list(declared.values()), name or _name_of(score or mask or weights), set)


def from_flex(score_mod: Callable[..., Any] | None = None, mask_mod: Callable[..., Any] | None = None, *, mask: str | None = None,
              name: str | None = None, set: Mapping[str, float] | None = None) -> Formula:
    """A formula from FlexAttention's functions: score_mod(score, b, h, q_idx, kv_idx) and mask_mod(b, h, q_idx, kv_idx).

    A BlockMask stands for the mask_mod that it was made of. Tensors that the functions close over and index become inputs, which
    `saccade.attention` gives by itself and which get gradients."""
    mask_mod = getattr(mask_mod, "mask_mod", mask_mod)
    for what, function in (("score_mod", score_mod), ("mask_mod", mask_mod)):
        if function is not None and not callable(function):
            raise TypeError(f"from_flex: {what} is of type {type(function).__name__}; expected a function")
    tracer = _Tracer()
    score, head, row, column = (Symbol(text, tracer) for text in ("s", "h", "i", "j"))
    lines = []
    if mask_mod is not None:
        lines.append(f"mask = {tracer.text(_run(tracer, mask_mod, [tracer.batch, head, row, column]))}")
    elif mask is not None:
        lines.append(f"mask = {mask}")
    if score_mod is not None:
        lines.append(f"score = {tracer.text(_run(tracer, score_mod, [score, tracer.batch, head, row, column]))}")
    return _finish(tracer, lines, [], name or _name_of(score_mod or mask_mod), set)


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", "function")
    return "function" if name == "<lambda>" else name
