"""Attention mechanisms as short formulas.

    import saccade
    out = saccade.attention(q, k, v, "score s - abs(alpha*d)^beta; mask causal", params={"alpha": a, "beta": b})

A formula says how two tokens attend to each other; gradients, fused CPU kernels, decoding and checks follow from it.
`saccade.attention` is the function, `saccade.nn` has the modules, `saccade.check` tests any attention function, and
`saccade.register_with_transformers` puts formulas into models of the transformers package.
"""

from . import nn, testing
from .conformance import CheckLine, CheckResult, check
from .figures import Figure, heat_map, prior_curve
from .formulas import Formula, FormulaError, formula, language, mechanisms
from .functional import attention
from .tracing import from_flex, trace
from .hugging_face import register_with_transformers, restore, swap

__version__ = "0.1.0"
__all__ = ["CheckLine", "CheckResult", "Figure", "Formula", "FormulaError", "attention", "check", "formula", "from_flex", "heat_map",
           "language", "mechanisms", "nn", "prior_curve", "register_with_transformers", "restore", "swap",
           "testing", "trace"]
