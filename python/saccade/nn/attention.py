"""A formula as a module: its params, and the weights of its host expressions, are parameters under the names that they have in C++."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import torch
from torch import Tensor, nn

from .._library import operators
from ..formulas import Formula, FormulaLike, formula as to_formula
from ..functional import attention
from .bounds import keep_within_bounds


class Attention(nn.Module):
    """Attention by a formula.

    heads, kv_heads (0: as many), head_dim: those of query and key. model_dim: the width of the layer's input x, for formulas that are
    computed from it. `set` gives constants other values.

        layer = saccade.nn.Attention("prior", heads=8, head_dim=64)
        out = layer(q, k, v)        # [batch, heads, tokens, width]
    """

    def __init__(self, formula: FormulaLike, heads: int, *, kv_heads: int = 0, head_dim: int = 64, model_dim: int = 0,
                 set: Mapping[str, float] | None = None, path: str = "automatic", device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.formula: Formula = to_formula(formula, set=set)
        self.heads, self.kv_heads, self.head_dim, self.model_dim, self.path = heads, kv_heads or heads, head_dim, model_dim, path
        self._names: list[str] = []
        for name, value in self._start_values():
            if device is not None or dtype is not None:
                value = value.to(device=device, dtype=dtype)
            self._place(name, nn.Parameter(value))
            self._names.append(name)
        self._bounds = {table.name: (table.low, table.high) for table in self.formula.params
                        if table.low != float("-inf") or table.high != float("inf")}
        if self._bounds:
            keep_within_bounds(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self._bounds:
            keep_within_bounds(self)  # copies and unpickled modules too

    def _start_values(self) -> list[tuple[str, Tensor]]:
        # Drawn on the CPU, whatever the default device is: a model may be laid out on "meta" first.
        with torch.device("cpu"):
            names, values = operators.start_values(self.formula.resolved, self.formula.name, self.heads, self.kv_heads, self.head_dim,
                                                   self.model_dim)
        default = torch.empty(0).device  # the device that a surrounding `with torch.device(...)` asks for
        return [(name, value.to(dtype=torch.get_default_dtype(), device=default)) for name, value in zip(names.split("\n"), values)]

    def _place(self, name: str, parameter: nn.Parameter) -> None:
        *folders, last = name.split(".")
        owner: nn.Module = self
        for folder in folders:
            if folder not in owner._modules:
                owner.add_module(folder, nn.Module())
            owner = owner._modules[folder]  # type: ignore[assignment]
        owner.register_parameter(last, parameter)

    def reset_parameters(self, which: Callable[[nn.Parameter], bool] = lambda parameter: True) -> None:
        """Back to the start values, where weights are drawn anew; `which` may choose some of the parameters."""
        with torch.no_grad():
            for name, value in self._start_values():
                parameter = self.get_parameter(name)
                if which(parameter):
                    parameter.copy_(value.to(parameter.device))

    @torch.no_grad()
    def clamp_parameters(self) -> None:
        """Brings every parameter back into its bounds. It happens by itself after each optimiser step."""
        for name, (low, high) in self._bounds.items():
            self.get_parameter(name).clamp_(low, high)

    def learned(self) -> dict[str, Tensor]:
        """What the formula learns, by name."""
        return {name: self.get_parameter(name) for name in self._names}

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *, formula: Formula | None = None, **call: Any) -> Any:
        """As `saccade.attention`, with the params of this module; `call` is what that function takes by name.

        `formula`: this module's with a mask added, as by `Formula.with_pair_mask`."""
        if query.dim() == 4 and query.shape[1] != self.heads:
            raise ValueError(f"attention: query has {query.shape[1]} heads; expected {self.heads}")
        return attention(query, key, value, formula or self.formula, params=self.learned(), path=call.pop("path", self.path), **call)

    def extra_repr(self) -> str:
        grouped = f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else ""
        return f"{self.formula.name}, heads={self.heads}{grouped}, head_dim={self.head_dim}"

    def _repr_html_(self) -> str:
        from ..display import module_html

        return module_html(self)
