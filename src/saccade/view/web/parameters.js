// Sliders for what a formula learns.
//
//   saccade.sliders(parameters, head, changed)
//     parameters: [{name, values, by_head, low, high}]; head: which one is shown, or null for all at once;
//     changed(values): called with {name: [value, ...]} for every parameter, on each move
//   returns {node, values()}; a parameter with many values that do not belong to heads has no slider
(function (saccade) {
  "use strict";
  const { element } = saccade;

  // Where a slider begins and ends: at the bounds of the formula where there are any, else around the value.
  function range(parameter, value) {
    const size = Math.max(1, 2 * Math.abs(value));
    let low = parameter.low ?? Math.min(value - size, -size);
    const high = parameter.high ?? Math.max(value + size, size);
    if (parameter.low === null && value >= 0 && parameter.values.every((each) => each >= 0)) low = 0;
    return [low, high];
  }

  saccade.sliders = function (parameters, head, changed) {
    const current = new Map(parameters.map((each) => [each.name, [...each.values]]));
    const values = () => Object.fromEntries(current);
    const rows = [];
    for (const parameter of parameters) {
      const list = current.get(parameter.name);
      const single = list.length === 1, byHead = parameter.by_head;
      if (!single && !byHead) continue;
      const place = single ? 0 : head ?? 0;
      const [low, high] = range(parameter, list[place]);
      const id = "slider-" + parameter.name + "-" + Math.random().toString(36).slice(2);
      const output = element("output", { for: id }, saccade.format(list[place]));
      const input = element("input", { type: "range", id, min: low, max: high, step: (high - low) / 400, value: list[place] });
      input.addEventListener("input", () => {
        const value = Number(input.value);
        if (single || head !== null) list[place] = value;
        else list.fill(value);
        output.textContent = saccade.format(value);
        changed(values());
      });
      rows.push(element("div", { class: "slider" },
        element("label", { for: id }, parameter.name + (single ? "" : head === null ? ", all heads" : ", head " + head)),
        input, output));
    }
    return { node: element("div", { class: "sliders" }, ...rows), values, count: rows.length };
  };
})((globalThis.saccade ??= {}));
