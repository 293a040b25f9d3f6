"""How formulas, modules and results look in a notebook. Plain HTML with little colour, readable in light and in dark."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Sequence

from .formulas import Formula

if TYPE_CHECKING:
    from .conformance import CheckResult
    from .nn import Attention

_MARKS = {"pass": ("✓", "#1a7f37"), "FAIL": ("✗", "#cf222e"), "skip": ("–", "#888888")}


def escape(text: str) -> str:
    return html.escape(text, quote=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already."""
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:left">{cell}</{tag}>' for cell in cells) + "</tr>"

    return "<table>" + (line(head, "th") if head else "") + "".join(line(row, "td") for row in rows) + "</table>"


def formula_html(formula: Formula) -> str:
    rows = [["weights", f"<code>{escape(formula.weights)}</code>"], ["mask", f"<code>{escape(formula.mask)}</code>"]]
    for title, tables in (("params", formula.params), ("inputs", formula.inputs)):
        if tables:
            rows.append([title, ", ".join(f"<code>{escape(str(entry))}</code>" for entry in tables)])
    rows.append(["decodes", ("yes" if formula.decodes else "no") + f": {escape(formula.decoding_reason)}"])
    rows += [["warning", escape(warning)] for warning in formula.warnings]
    summary = f"<div>{escape(formula.summary)}</div>" if formula.summary else ""
    return f"<div><b>{escape(formula.name)}</b>{summary}<pre>{escape(formula.text.strip())}</pre>{table([], rows)}</div>"


def module_html(module: Attention) -> str:
    rows = [[f"<code>{escape(name)}</code>", escape(str(list(value.shape))), f"{float(value.min()):.4g}", f"{float(value.max()):.4g}"]
            for name, value in ((name, parameter.detach()) for name, parameter in module.learned().items())]
    learned = table(["learned", "shape", "least", "most"], rows) if rows else "<div>It learns nothing.</div>"
    return f"<div>{formula_html(module.formula)}{learned}</div>"


def check_html(result: CheckResult) -> str:
    rows = []
    for line in result.lines:
        mark, colour = _MARKS[line.outcome]
        rows.append([f'<span style="color:{colour}" title="{line.outcome}">{mark}</span>', escape(line.name), escape(line.detail)])
    outcome = "all checks pass" if result else f"{len(result.failures)} of {len(result.lines)} checks fail"
    return f"<div><b>{escape(result.subject)}</b>: {outcome}{table([], rows)}</div>"
