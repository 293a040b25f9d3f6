// Small helpers to build pages. Text is always set as text, never as HTML.
//
//   saccade.element("p", {class: "note", title: "x"}, "text", child, ...)
//   saccade.svg("circle", {cx: 1})
//   saccade.named(label, control)                 the two side by side, never on two lines
//   saccade.numbersTable(header, rows, caption)   a table of ready texts; the first column names the row
//   saccade.details(summary, make)                calls make() for its content when it is first opened
//   saccade.choice(label, names, show)            a list to choose from, and its neighbours by button; shows the first
(function (saccade) {
  "use strict";
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== undefined && child !== null));
    return node;
  }
  saccade.element = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  saccade.svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  saccade.named = (label, control) => saccade.element("span", { class: "named" }, saccade.element("span", { class: "label" }, label), control);

  saccade.numbersTable = function (header, rows, caption) {
    const { element } = saccade;
    const cell = (tag, text, index) =>
      element(tag, { class: index > 0 ? "number" : null, scope: tag === "th" ? "col" : null }, text);
    return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
      element("table", {},
        element("thead", {}, element("tr", {}, ...header.map((text, index) => cell("th", text, index)))),
        element("tbody", {}, ...rows.map((row) =>
          element("tr", { class: "row" }, ...row.map((text, index) => cell("td", text, index)))))));
  };

  saccade.details = function (summary, make) {
    const { element } = saccade;
    const node = element("details", { class: "numbers" }, element("summary", {}, summary));
    node.addEventListener("toggle", () => {
      if (node.open && node.children.length === 1) node.append(make());
    });
    return node;
  };

  saccade.choice = function (label, names, show) {
    const { element } = saccade;
    const select = element("select", { "aria-label": label }, ...names.map((name, index) => element("option", { value: index }, name)));
    const go = (index) => {
      select.value = String(Math.max(0, Math.min(names.length - 1, index)));
      before.disabled = Number(select.value) === 0;
      after.disabled = Number(select.value) === names.length - 1;
      show(Number(select.value));
    };
    const before = element("button", { type: "button", "aria-label": "Previous " + label, onclick: () => go(Number(select.value) - 1) }, "‹");
    const after = element("button", { type: "button", "aria-label": "Next " + label, onclick: () => go(Number(select.value) + 1) }, "›");
    select.addEventListener("change", () => go(Number(select.value)));
    const node = element("div", { class: "controls" }, element("span", { class: "label" }, label), before, select, after);
    queueMicrotask(() => go(0));
    return node;
  };
})((globalThis.saccade ??= {}));
