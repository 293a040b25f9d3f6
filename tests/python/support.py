"""What the tests of the Python package share. Tests end with code 77, which ctest shows as skipped, where a package is missing or torch is
another one than the library was built with (SACCADE_TORCH_DIR)."""

import importlib.util
import os
import sys
import unittest

SKIPPED = 77


def require(*packages):
    for package in ("torch", *packages):
        if importlib.util.find_spec(package) is None:
            print(f"skipped: this Python has no {package}")
            sys.exit(SKIPPED)
    import torch

    built_with, here = os.environ.get("SACCADE_TORCH_DIR"), os.path.dirname(torch.__file__)
    if built_with and os.path.realpath(built_with) != os.path.realpath(here):
        print(f"skipped: the library was built with the torch in {built_with}, Python has that in {here}")
        sys.exit(SKIPPED)
    torch.set_num_threads(1)


def normal(*shape, seed, dtype=None, grad=False):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype or torch.float64).requires_grad_(grad)


def qkv(batch=2, heads=4, kv_heads=2, tokens=7, width=8, *, dtype=None, grad=False):
    shapes = ((batch, heads, tokens, width), (batch, kv_heads, tokens, width), (batch, kv_heads, tokens, width))
    return [normal(*shape, seed=seed, dtype=dtype, grad=grad) for seed, shape in enumerate(shapes)]


def main():
    sys.exit(unittest.main())
