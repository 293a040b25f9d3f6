"""Formulas as Python objects. What a text means is asked of the library; nothing of it is decided here."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping, Union

import torch

from ._library import operators


def constant_when_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """What torch.compiler.assume_constant_result does, which would import the whole compiler first: a compiled function calls it while it is
    compiled, and keeps the result."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


class FormulaError(ValueError):
    """A formula that does not parse or check. The text shows every mistake with its line and a caret under it."""

    def __init__(self, message: str, diagnostics: list[dict[str, Any]] | None = None):
        super().__init__(message)
        self.diagnostics = diagnostics or []


@dataclass(frozen=True)
class Table:
    """A param or an input of a formula."""

    name: str
    type: str  # "real", "int" or "bool"
    dimensions: tuple[str, ...]
    low: float = float("-inf")
    high: float = float("inf")
    rides_in_cache: bool = False

    def __str__(self) -> str:
        dimensions = f"[{', '.join(self.dimensions)}]" if self.dimensions else ""
        return self.name + dimensions + ("" if self.type == "real" else f": {self.type}")


@dataclass(frozen=True, eq=False)
class Formula:
    """An attention mechanism: its text and what follows from it. Made by `saccade.formula`; immutable."""

    name: str
    text: str
    resolved: str  # the canonical text with the values that constants have
    summary: str
    mask: str
    weights: str
    params: tuple[Table, ...]
    inputs: tuple[Table, ...]
    constants: Mapping[str, float]
    decodes: bool
    decoding_reason: str
    ring: int | None  # so many keys are enough for decoding, where the mask bounds them
    needs_layer_input: bool
    keeps_running_sums: bool
    uses_length: bool  # n is read
    uses_positions: bool  # i, j or d are read
    uses_places: bool  # i or j count for themselves, not only their difference
    has_scale: bool
    warnings: tuple[str, ...]
    captured: Mapping[str, torch.Tensor] = field(default_factory=dict)  # inputs that a traced function brought along
    mask_input: str = ""

    def explain(self, length: int = 4096) -> str:
        """What it computes, its derivatives, what is skipped and what it costs at so many tokens."""
        return _describe(self.resolved, self.name, {"explain": length})["explanation"]

    def with_pair_mask(self, kind: str) -> Formula:
        """The same formula with a mask as one more input, whose name is `mask_input`: "allowed" is Boolean and false hides a pair, "added"
        is a number added to every dot product, and -inf hides."""
        return self._changed(f'{{"pair_mask": "{kind}"}}')

    def without_causal(self) -> Formula:
        """The same formula where tokens may look ahead, for an encoder."""
        return self._changed('{"without_causal": true}')

    def _changed(self, options: str) -> Formula:
        changed = _parsed_now(self.resolved, self.name, options)
        return _with_captured(changed, self.captured) if self.captured else changed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Formula):
            return NotImplemented
        same_captures = self.captured.keys() == other.captured.keys() and all(self.captured[n] is other.captured[n] for n in self.captured)
        return self.resolved == other.resolved and same_captures

    def __hash__(self) -> int:
        return hash(self.resolved)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Formula {self.name}: weights = {self.weights}, mask = {self.mask}>"

    def _repr_html_(self) -> str:
        from .display import formula_html

        return formula_html(self)


FormulaLike = Union[Formula, str, os.PathLike, Callable[..., Any]]


def _describe(text: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    answer = json.loads(operators.describe_formula(text, name, json.dumps(options)))
    if "error" in answer:
        raise FormulaError(answer["error"], answer["diagnostics"])
    return answer


def _table(facts: Mapping[str, Any]) -> Table:
    low, high = facts.get("low"), facts.get("high")
    return Table(facts["name"], facts["type"], tuple(facts["dimensions"]), float("-inf") if low is None else low,
                 float("inf") if high is None else high, facts.get("rides_in_cache", False))


def _from_facts(facts: Mapping[str, Any], captured: Mapping[str, torch.Tensor]) -> Formula:
    decoding = facts["decoding"]
    return Formula(name=facts["name"], text=facts["text"], resolved=facts["resolved"], summary=facts["summary"], mask=facts["mask"],
                   weights=facts["weights"], params=tuple(map(_table, facts["params"])), inputs=tuple(map(_table, facts["inputs"])),
                   constants=facts["constants"], decodes=decoding["possible"], decoding_reason=decoding["reason"], ring=decoding["ring"],
                   needs_layer_input=facts["needs_layer_input"], keeps_running_sums=facts["keeps_running_sums"],
                   uses_length=facts["uses_length"],
                   uses_positions=facts["uses_positions"], uses_places=facts["uses_places"], has_scale=facts["has_scale"],
                   warnings=tuple(facts["warnings"]), captured=captured, mask_input=facts["mask_input"])


@functools.lru_cache(maxsize=1024)
def _parsed(text: str, name: str, options: str) -> Formula:
    return _from_facts(_describe(text, name, json.loads(options)), {})


@constant_when_compiled
def _parsed_now(text: str, name: str, options: str) -> Formula:
    """For use inside compiled functions: done while they are compiled."""
    return _parsed(text, name, options)


def _with_captured(formula: Formula, captured: Mapping[str, torch.Tensor]) -> Formula:
    return replace(formula, captured=dict(captured))


def _numbers(set: Mapping[str, float] | None) -> dict[str, float]:
    for name, value in (set or {}).items():
        if not isinstance(value, (int, float)):
            raise TypeError(f"formula: '{name}' is set to {value!r}; expected a number")
    return dict(set or {})


def parse(text: str, name: str = "formula", set: Mapping[str, float] | None = None, declare: Mapping[str, str] | None = None,
          captured: Mapping[str, torch.Tensor] | None = None) -> Formula:
    """A formula from its text. `declare` offers a statement for each name that the text uses without declaring it."""
    parsed = _parsed(text, name, json.dumps({"set": _numbers(set), "declare": dict(declare or {})}))
    return _with_captured(parsed, captured) if captured else parsed


def is_text(given: str) -> bool:
    """Whether a string is a formula itself rather than the name of one: names of mechanisms and files hold no blank and no '='."""
    return any(sign in given for sign in " =\n;") and not given.endswith(".attn") and not os.path.isfile(given)


def formula(given: FormulaLike, *, name: str | None = None, set: Mapping[str, float] | None = None,
            declare: Mapping[str, str] | None = None) -> Formula:
    """A formula from its text, the name of a shipped mechanism, a file, a Python function (see `saccade.trace`) or a formula.

    `set` gives constants other values, and `n` a fixed one."""
    if isinstance(given, Formula):
        return given if not set else parse(given.resolved, name or given.name, set, captured=given.captured)
    if isinstance(given, os.PathLike):
        path = pathlib.Path(given)
        return parse(path.read_text(), name or str(path), set, declare)
    if isinstance(given, str):
        if is_text(given):
            return parse(given, name or "formula", set, declare)
        return _parsed(given, "", json.dumps({"load": True, "set": _numbers(set)})) if given in _mechanism_names() else _loaded(given, set)
    if callable(given):
        from .tracing import trace

        return trace(given, set=set, declare=declare)
    raise TypeError(f"formula: got {type(given).__name__}; expected text, the name of a mechanism, a file, a function or a Formula")


def _loaded(path: str, set: Mapping[str, float] | None) -> Formula:
    # Not remembered: a file may have changed since.
    try:
        return _from_facts(_describe(path, "", {"load": True, "set": _numbers(set)}), {})
    except ValueError as error:
        if path.endswith(".attn") and not os.path.exists(path):
            raise FileNotFoundError(str(error)) from None
        raise


@functools.lru_cache(maxsize=1)
def _mechanism_texts() -> dict[str, str]:
    return {entry["name"]: entry["text"] for entry in json.loads(operators.mechanisms())}


def _mechanism_names() -> frozenset[str]:
    return frozenset(_mechanism_texts())


def mechanisms() -> dict[str, Formula]:
    """The shipped mechanisms by name."""
    return {name: formula(name) for name in _mechanism_texts()}


def language() -> str:
    """The reference of the formula language, as Markdown."""
    return operators.language()
