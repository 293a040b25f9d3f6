"""Attention as modules: `Attention` owns what a formula learns, `MultiheadAttention` stands in for torch's class of that name."""

from .attention import Attention
from .multihead import MultiheadAttention

__all__ = ["Attention", "MultiheadAttention"]
