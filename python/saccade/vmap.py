"""torch.vmap over attention: the mapped dimension becomes part of the batch, since sequences do not see each other anyway."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._library import operators
from .formulas import parse


def _folded(tensor: Tensor, place: int | None, size: int) -> Tensor:
    """[size * batch, ...] from [batch, ...] with the mapped dimension at `place`, or without one."""
    moved = tensor.unsqueeze(0).expand(size, *tensor.shape) if place is None else tensor.movedim(place, 0)
    return moved.flatten(0, 1)


def _belongs_to_tokens(formula: str, name: str) -> dict[str, bool]:
    """The formula's inputs that may differ between the sequences of a batch, each with whether its declaration says so."""
    return {f"input:{table.name}": "batch" in table.dimensions for table in parse(formula, name).inputs
            if {"batch", "token", "query", "key"} & {*table.dimensions}}


def _attend(info: Any, in_dims: tuple, formula: str, name: str, query: Tensor, key: Tensor, value: Tensor, names: list[str],
            tensors: list[Tensor], offset: int, first_key: int, epsilon: float, training: bool) -> tuple:
    size, places = info.batch_size, in_dims[6]
    by_token = {**_belongs_to_tokens(formula, name), "x": True, "memory": True, "key_mask": True}
    numbers = (offset, first_key, epsilon, training)
    if any(place is not None and label not in by_token for label, place in zip(names, places)):
        # Params are the same for a whole batch, so that another value means another call.
        def part(tensor: Tensor, place: int | None, index: int) -> Tensor:
            return tensor if place is None else tensor.select(place, index)

        calls = [operators.attend(formula, name, *(part(t, p, index) for t, p in zip((query, key, value), in_dims[2:5])), names,
                                  [part(t, p, index) for t, p in zip(tensors, places)], *numbers) for index in range(size)]
        return tuple(torch.stack(results) for results in zip(*calls)), (0, 0, 0)
    ranks = {f"input:{table.name}": len(table.dimensions) for table in parse(formula, name).inputs}
    folded = []
    for label, tensor, place in zip(names, tensors, places):
        if label in by_token and not (place is None and tensor.dim() == ranks.get(label) and not by_token[label]):
            if tensor.dim() - (place is not None) == ranks.get(label) and not by_token[label]:
                # One for a whole batch so far; now each of its sequences needs it.
                batch = query.shape[1 if in_dims[2] == 0 else 0]
                folded.append(tensor.movedim(place, 0).repeat_interleave(batch, 0))
                continue
            tensor = _folded(tensor, place, size)
        folded.append(tensor)
    query, key, value = (_folded(tensor, place, size) for tensor, place in zip((query, key, value), in_dims[2:5]))
    output, log_sums, partials = operators.attend(formula, name, query, key, value, names, folded, *numbers)
    return (output.unflatten(0, (size, -1)), log_sums.unflatten(1, (size, -1)), partials.unflatten(1, (size, -1))), (0, 1, 1)


torch.library.register_vmap("saccade::attend", _attend)
