"""Keeps learned parameters within the bounds that their formulas declare: after a step of any optimiser they are brought back."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_bounded: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
_hooked = False


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    for module in list(_bounded):
        module.clamp_parameters()  # type: ignore[operator]


def keep_within_bounds(module: torch.nn.Module) -> None:
    """From now on `module.clamp_parameters()` runs after every optimiser step, for as long as the module lives."""
    global _hooked
    _bounded.add(module)
    if not _hooked:
        register_optimizer_step_post_hook(_after_step)
        _hooked = True
