"""Multi-head attention with the interface of torch.nn.MultiheadAttention: the same arguments, parameters and results, with a formula.

Without one it is plain softmax and equals torch's, but for this: a query that may see no key attends to nothing (its weights are 0 and
its output is out_proj.bias), where torch gives NaN; and gradients go to the tensor that was given."""

from __future__ import annotations

from typing import Any, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..formulas import FormulaLike
from .attention import Attention


class MultiheadAttention(nn.Module):
    """A drop-in for torch.nn.MultiheadAttention that reads its weights and takes its arguments.

    `formula` is the mechanism, plain softmax by default; what it learns is under `attention.` in the state_dict."""

    # torch's encoder layers take a fast path past `forward` when this says that query, key and value have one width. That path knows no
    # formula, so it must never be taken.
    _qkv_same_embed_dim = False

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
                 device: Any = None, dtype: Any = None, *, formula: FormulaLike = "full",
                 set: Mapping[str, float] | None = None) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"multihead: embed_dim is {embed_dim} and num_heads {num_heads}; expected at least 1")
        if embed_dim % num_heads:
            raise ValueError(f"multihead: embed_dim {embed_dim} is not a multiple of num_heads {num_heads}")
        if not 0 <= dropout < 1:
            raise ValueError(f"multihead: dropout is {dropout}; expected 0 or more and less than 1")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        place = {"device": device, "dtype": dtype}

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, **place))

        packed = self.kdim == embed_dim and self.vdim == embed_dim
        self.in_proj_weight = parameter(3 * embed_dim, embed_dim) if packed else None
        self.q_proj_weight = None if packed else parameter(embed_dim, embed_dim)
        self.k_proj_weight = None if packed else parameter(embed_dim, self.kdim)
        self.v_proj_weight = None if packed else parameter(embed_dim, self.vdim)
        self.in_proj_bias = parameter(3 * embed_dim) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **place)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.attention = Attention(formula, num_heads, head_dim=self.head_dim, model_dim=embed_dim, set=set, **place)
        self._check_formula()
        self._reset_parameters()

    def _check_formula(self) -> None:
        if self.bias_k is None and not self.add_zero_attn:
            return
        formula, option = self.attention.formula, "add_bias_kv" if self.bias_k is not None else "add_zero_attn"
        if formula.uses_positions or formula.uses_length or formula.needs_layer_input:
            raise ValueError(f"multihead: a key that {option} appends is no token and has no position, but the formula '{formula.name}' "
                             "uses positions, n or the layer's input")

    def _reset_parameters(self) -> None:
        # In torch's order, so that a seed gives the same start.
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                nn.init.xavier_normal_(bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
                attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False, *,
                inputs: Mapping[str, Tensor] | None = None) -> tuple[Tensor, Tensor | None]:
        """As torch.nn.MultiheadAttention: [tokens, batch, width], or batch first, or without batch; masks are true where nothing may be
        seen, or are added. `inputs` are the formula's own. With `is_causal`, attn_mask must be given too, as with torch."""
        if is_causal and attn_mask is None:
            raise ValueError("multihead: is_causal is a hint about attn_mask, which is not given; for a causal mechanism use its formula")
        if query.dim() == 2 and key.dim() == 2 and value.dim() == 2:
            return self._without_batch(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, inputs)
        self._check(query, key, value)
        self_attention = key is query
        if not self.batch_first:
            query, key, value = self._batch_first(query, key, value)
        q, k, v = (tensor.unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2) for tensor in self._project(query, key, value))
        pairs, keys = self._masks(key_padding_mask, attn_mask, q.shape[0], q.shape[2], k.shape[2])
        k, v, pairs, keys = self._append(k, v, pairs, keys)
        call: dict[str, Any] = {"inputs": inputs, "key_mask": keys, "attn_mask": pairs, "need_weights": need_weights}
        if self.training and self.dropout:
            call["dropout"] = self.dropout
        if self.attention.formula.needs_layer_input:
            call["x"] = query
            if not self_attention:
                call["memory"] = key
        result = self.attention(q, k, v, **call)
        output, weights = result if need_weights else (result, None)
        output = self.out_proj(output.transpose(1, 2).flatten(2))
        if not self.batch_first:
            output = output.transpose(0, 1)
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        return output, weights

    def _without_batch(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, need_weights: bool,
                       attn_mask: Tensor | None, average: bool, inputs: Any) -> tuple[Tensor, Tensor | None]:
        place = 0 if self.batch_first else 1
        # One tensor stays one tensor: that is how self-attention is known.
        q = query.unsqueeze(place)
        k = q if key is query else key.unsqueeze(place)
        v = k if value is key else value.unsqueeze(place)
        padding = key_padding_mask.unsqueeze(0) if key_padding_mask is not None else None
        output, weights = self.forward(q, k, v, padding, need_weights, attn_mask, average, inputs=inputs)
        return output.squeeze(place), weights.squeeze(0) if weights is not None else None

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        place = 0 if self.batch_first else 1
        tokens = "batch, tokens" if self.batch_first else "tokens, batch"
        for name, width_name, tensor, width in (("query", "embed_dim", query, self.embed_dim), ("key", "kdim", key, self.kdim),
                                                ("value", "vdim", value, self.vdim)):
            if tensor.dim() != 3:
                raise ValueError(f"multihead: {name} has shape {list(tensor.shape)}; expected [{tokens}, {width}], or without batch")
            if tensor.shape[2] != width:
                raise ValueError(f"multihead: {name} has width {tensor.shape[2]}; expected {width_name} {width}")
            if tensor.shape[place] != query.shape[place]:
                raise ValueError(f"multihead: {name} has batch size {tensor.shape[place]}, query has {query.shape[place]}")
        if value.shape[1 - place] != key.shape[1 - place]:
            raise ValueError(f"multihead: value has {value.shape[1 - place]} tokens, key has {key.shape[1 - place]}; expected the same")

    @staticmethod
    def _batch_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = query.transpose(0, 1)
        k = q if key is query else key.transpose(0, 1)
        return q, k, k if value is key else value.transpose(0, 1)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        if self.in_proj_weight is not None and query is key and key is value:
            return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        weights: Any = self.in_proj_weight.chunk(3) if self.in_proj_weight is not None else (self.q_proj_weight, self.k_proj_weight,
                                                                                      self.v_proj_weight)
        biases = self.in_proj_bias.chunk(3) if self.in_proj_bias is not None else (None, None, None)
        return tuple(F.linear(tensor, weight, bias) for tensor, weight, bias in zip((query, key, value), weights, biases))

    def _masks(self, padding: Tensor | None, mask: Tensor | None, batch: int, queries: int, keys: int) -> tuple[Tensor | None, Tensor | None]:
        """Which pairs may be seen, or what is added to them, and which keys are real."""
        pairs = real = None
        if mask is not None:
            deep = (batch * self.num_heads, queries, keys)
            if tuple(mask.shape) not in ((queries, keys), deep):
                raise ValueError(f"multihead: attn_mask has shape {list(mask.shape)}; expected {[queries, keys]} or {list(deep)}")
            _check_mask("attn_mask", mask)
            pairs = mask[None, None] if mask.dim() == 2 else mask.unflatten(0, (batch, self.num_heads))
            if pairs.dtype == torch.bool:
                pairs = ~pairs
        if padding is not None:
            if tuple(padding.shape) != (batch, keys):
                raise ValueError(f"multihead: key_padding_mask has shape {list(padding.shape)}; expected {[batch, keys]}")
            _check_mask("key_padding_mask", padding)
            if padding.dtype == torch.bool:
                real = ~padding
            else:
                added = padding[:, None, None].expand(batch, 1, queries, keys)
                if pairs is not None and pairs.dtype == torch.bool:
                    pairs = torch.zeros_like(pairs, dtype=added.dtype).masked_fill(~pairs, float("-inf"))
                pairs = added if pairs is None else pairs + added
        return pairs, real

    def _append(self, k: Tensor, v: Tensor, pairs: Tensor | None, real: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The keys and values that add_bias_kv and add_zero_attn ask for; everyone sees them."""
        more: list[tuple[Tensor, Tensor]] = []
        if self.bias_k is not None and self.bias_v is not None:
            shape = (1, self.num_heads, 1, self.head_dim)
            more.append((self.bias_k.view(shape), self.bias_v.view(shape)))
        if self.add_zero_attn:
            zero = k.new_zeros(1, self.num_heads, 1, self.head_dim)
            more.append((zero, zero))
        for key, value in more:
            k = torch.cat((k, key.expand(k.shape[0], -1, -1, -1)), 2)
            v = torch.cat((v, value.expand(v.shape[0], -1, -1, -1)), 2)
            if pairs is not None:
                pairs = F.pad(pairs, (0, 1), value=pairs.dtype == torch.bool)
            if real is not None:
                real = F.pad(real, (0, 1), value=True)
        return k, v, pairs, real

    def merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor) -> tuple[Tensor | None, int | None]:
        """Torch's class has it for its fast path, which this one never takes."""
        raise NotImplementedError("multihead: the fast path of torch's encoder layers knows no formula")

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


def _check_mask(name: str, mask: Tensor) -> None:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"multihead: {name} has dtype {str(mask.dtype).removeprefix('torch.')}; expected bool or a floating type")
