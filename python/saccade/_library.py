"""Loads the library of operators, once, and gives them as `operators`.

It lies beside this file; SACCADE_LIBRARY names another one, such as that of a build directory.
"""

import os
import pathlib

import torch

_NAME = "libsaccade_operators.so"


def _load() -> None:
    chosen = os.environ.get("SACCADE_LIBRARY")
    path = pathlib.Path(chosen) if chosen else pathlib.Path(__file__).with_name(_NAME)
    if not path.is_file():
        where = "SACCADE_LIBRARY names it" if chosen else "the package was not installed, and SACCADE_LIBRARY is not set"
        raise ImportError(f"saccade: there is no {path}; {where}")
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(f"saccade: {path} does not fit torch {torch.__version__} ({error}); build it again with pip install ./python") from error


_load()
operators = torch.ops.saccade
