"""Figures as SVG: the weights of a map as colours, and what a formula makes of distance as curves. Notebooks show them by themselves."""

from __future__ import annotations

import math
import os
import pathlib
from dataclasses import dataclass
from typing import Mapping, Sequence

import torch
from torch import Tensor

from .display import escape
from .formulas import FormulaLike
from .functional import attention, resolve

# Told apart by people who see few colours, too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#888888")
MOST_CELLS = 128  # a side; larger maps are averaged down to it


@dataclass(frozen=True)
class Figure:
    """An image as SVG text."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike) -> None:
        pathlib.Path(path).write_text(self.svg)


def _document(width: float, height: float, title: str, body: Sequence[str]) -> Figure:
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
            f'aria-label="{escape(title)}" font-family="sans-serif" font-size="11">')
    return Figure("\n".join([head, f"<title>{escape(title)}</title>", *body, "</svg>"]))


def _colour(value: float) -> str:
    """White at 0, blue towards 1, red towards -1."""
    strength = min(abs(value), 1.0)
    strong = (0, 90, 170) if value >= 0 else (190, 50, 20)
    return "#" + "".join(f"{round(255 + (channel - 255) * strength):02x}" for channel in strong)


def heat_map(weights: Tensor, *, title: str = "attention weights") -> Figure:
    """Weights of one head, [queries, keys], or of several, [heads, queries, keys]: a picture for each, rows are queries. Negative weights
    are red. Each picture's darkest colour is its largest weight."""
    maps = weights.detach().double().cpu()
    if maps.dim() not in (2, 3):
        raise ValueError(f"heat_map: the weights have shape {list(maps.shape)}; expected [queries, keys] or [heads, queries, keys]")
    if maps.numel() == 0 or not bool(maps.isfinite().all()):
        raise ValueError(f"heat_map: the weights of shape {list(maps.shape)} {'hold NaN or infinity' if maps.numel() else 'are none'}; "
                         "expected numbers")
    maps = maps[None] if maps.dim() == 2 else maps
    side, gap, body = 220.0, 16.0, []
    for head, one in enumerate(maps):
        if max(one.shape) > MOST_CELLS:
            size = (min(one.shape[0], MOST_CELLS), min(one.shape[1], MOST_CELLS))
            one = torch.nn.functional.adaptive_avg_pool2d(one[None, None], size)[0, 0]
        most = float(one.abs().max()) or 1.0
        rows, columns = one.shape
        left = head * (side + gap)
        body.append(f'<text x="{left:.1f}" y="12" fill="currentColor">head {head}, at most {most:.3g}</text>')
        body.append(f'<rect x="{left:.1f}" y="18" width="{side}" height="{side}" fill="white" stroke="#888"/>')
        for row in range(rows):
            for column in range(columns):
                value = float(one[row, column]) / most
                if abs(value) < 0.004:
                    continue
                body.append(f'<rect x="{left + column * side / columns:.2f}" y="{18 + row * side / rows:.2f}" '
                            f'width="{side / columns:.2f}" height="{side / rows:.2f}" fill="{_colour(value)}"/>')
    return _document(len(maps) * (side + gap), side + 24, title, body)


def prior(formula: FormulaLike, *, params: Mapping[str, Tensor | float] | None = None, heads: int = 4, length: int = 64,
          set: Mapping[str, float] | None = None) -> Tensor:
    """What a formula makes of distance alone, [heads, length]: the logarithm of a key's weight at distance d, relative to d = 0, when all
    keys are equal. -inf where a key is not seen."""
    tensors = {name: value if isinstance(value, Tensor) else torch.tensor(float(value)) for name, value in (params or {}).items()}
    chosen = resolve(formula, tensors, set)
    if chosen.inputs or chosen.needs_layer_input:
        raise ValueError(f"prior_curve: the formula '{chosen.name}' also depends on inputs, so that distance alone decides nothing")
    zero = torch.zeros(1, heads, length, 4, dtype=torch.float64)
    _, weights = attention(zero[:, :, -1:], zero, zero, chosen, params={n: v.double() for n, v in tensors.items()}, offset=length - 1,
                           need_weights=True)
    by_distance = weights[0, :, 0].flip(-1).detach()
    return (by_distance / by_distance[:, :1]).log()


def prior_curve(formula: FormulaLike, *, params: Mapping[str, Tensor | float] | None = None, heads: int = 4, length: int = 64,
                set: Mapping[str, float] | None = None) -> Figure:
    """A curve for each head: how a key's weight falls with its distance (see `prior`), for the formula's start values or for `params`."""
    curves = prior(formula, params=params, heads=heads, length=length, set=set)
    finite = curves[curves.isfinite()]
    low = min(float(finite.min()) if finite.numel() else -1.0, -1e-9)
    high = max(float(finite.max()) if finite.numel() else 0.0, 0.0)
    width, height, left, bottom = 420.0, 220.0, 48.0, 28.0

    def place(distance: int, value: float) -> str:
        x = left + distance / max(length - 1, 1) * (width - left - 8)
        y = 12 + (high - value) / (high - low) * (height - bottom - 12)
        return f"{x:.1f},{y:.1f}"

    body = [f'<rect x="{left}" y="12" width="{width - left - 8}" height="{height - bottom - 12}" fill="none" stroke="#888"/>',
            f'<text x="{left}" y="{height - 12}" fill="currentColor">d = 0</text>',
            f'<text x="{width - 8}" y="{height - 12}" text-anchor="end" fill="currentColor">d = {length - 1}</text>',
            f'<text x="{left - 4}" y="20" text-anchor="end" fill="currentColor">{high:.3g}</text>',
            f'<text x="{left - 4}" y="{height - bottom}" text-anchor="end" fill="currentColor">{low:.3g}</text>']
    for head, curve in enumerate(curves):
        points = [place(distance, float(value)) for distance, value in enumerate(curve) if math.isfinite(float(value))]
        body.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{COLOURS[head % len(COLOURS)]}" stroke-width="1.5">'
                    f"<title>head {head}</title></polyline>")
    return _document(width, height, "logarithm of a key's weight by its distance, one curve per head", body)
