// Tables that sort by their columns.
//
//   saccade.sortable(table)    puts a button into each header cell; a click, Enter or Space sorts by that column, and
//                              again the other way round
//
// Numbers sort as numbers, with or without a unit behind them; a cell's data-value, if it has one, stands for it. Cells
// without a number stay at the end. A row of class "note" stays with the row above it.
(function (saccade) {
  "use strict";
  const UNITS = { "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "B": 1, "KiB": 1024, "MiB": 1048576, "GiB": 1073741824, "k": 1e3, "M": 1e6, "G": 1e9 };

  function valueOf(cell) {
    if (cell?.dataset.value !== undefined) return Number(cell.dataset.value);
    const match = /^[✓✗\s]*([+−-]?)([\d.]+(?:e[+-]?\d+)?)\s*(\S*)/i.exec(cell?.textContent ?? "");
    if (!match || Number.isNaN(Number(match[2]))) return NaN;
    return (match[1] && match[1] !== "+" ? -1 : 1) * Number(match[2]) * (UNITS[match[3]] ?? 1);
  }

  saccade.sortable = function (table) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    if (!body || body.rows.length < 2) return;
    const groups = [];
    for (const row of body.rows) {
      if (row.classList.contains("note") && groups.length) groups.at(-1).push(row);
      else groups.push([row]);
    }
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = saccade.element("button", { type: "button", class: "sort" }, ...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keys = new Map(groups.map((group) => [group, valueOf(group[0].cells[column])]));
        const numeric = [...keys.values()].some((value) => !Number.isNaN(value));
        const text = (group) => group[0].cells[column]?.textContent ?? "";
        groups.sort((a, b) => {
          if (!numeric) return (up ? 1 : -1) * text(a).localeCompare(text(b));
          const x = keys.get(a), y = keys.get(b);
          if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
          return (up ? 1 : -1) * (x - y);
        });
        body.append(...groups.flat());
      });
    });
  };
})((globalThis.saccade ??= {}));
