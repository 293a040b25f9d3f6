"""For test suites: two lines make a test of an attention function.

    def test_my_attention():
        saccade.testing.assert_conforms(my_attention)
"""

from __future__ import annotations

from typing import Any, Callable

from .conformance import CheckResult, check


def assert_conforms(function: Callable[..., Any], **expectations: Any) -> CheckResult:
    """Raises AssertionError with a line for each check unless all pass; takes what `saccade.check` takes."""
    __tracebackhide__ = True  # pytest then shows the caller's line
    result = check(function, **expectations)
    if not result:
        raise AssertionError(str(result))
    return result
