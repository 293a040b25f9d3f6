// Values by name, each as a dot with whiskers: what differs little is told apart, which bars from 0 would hide.
//
//   saccade.dotChart(element, spec)
//
// spec: {title, value_label, unit, log_value, categories, series: [{name, values, low, high}]}
(function (saccade) {
  "use strict";
  saccade.dotChart = function (element, spec) {
    const { svg, element: make, format } = saccade;
    const holder = make("div", { class: "chart dots" });
    element.append(holder);
    const text = (value) => format(value, spec.unit, 5);
    const ends = (each, index) => [each.low?.[index] ?? each.values[index], each.high?.[index] ?? each.values[index]];
    const known = spec.series.flatMap((each) => each.values.flatMap((value, index) => [value, ...ends(each, index)])).filter(Number.isFinite);
    const lines = spec.categories.flatMap((name, row) => spec.series.map((each, index) => ({ name: index === 0 ? name : "", each, index, row })));

    function draw() {
      const width = holder.clientWidth;
      if (!width) return;
      const label = Math.min(0.4 * width, 20 + 7.2 * Math.max(...spec.categories.map((name) => name.length)));
      const right = 78, step = 27, height = lines.length * step + 34, room = width - label - right;
      let low = Math.min(...known), high = Math.max(...known);
      const log = spec.log_value && low > 0;
      if (!(high > low)) { low -= Math.abs(low) * 0.05 || 1; high += Math.abs(high) * 0.05 || 1; }
      const pad = log ? (high / low) ** 0.06 : (high - low) * 0.06;
      [low, high] = log ? [low / pad, high * pad] : [low - pad, high + pad];
      const place = (value) => label + room * (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
      const most = Math.max(2, Math.floor(room / 80)), ticks = log ? saccade.logTicks(low, high, most) : saccade.niceTicks(low, high, most);
      const step10 = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
      const digits = Math.min(9, Math.max(3, Math.ceil(Math.log10(Math.max(...ticks.map(Math.abs)) / step10)) + 1));
      const picture = svg("svg", { width, height, role: "img", "aria-label": describe() });
      for (const tick of ticks) {
        const x = place(tick);
        picture.append(svg("line", { class: "grid", x1: x, x2: x, y1: 4, y2: height - 28 }),
          svg("text", { class: "quiet", x, y: height - 10, "text-anchor": "middle" }, format(tick, spec.unit, digits)));
      }
      lines.forEach(({ name, each, index, row }, line) => {
        const y = 16 + line * step, value = each.values[row], [from, to] = ends(each, row);
        const fit = Math.floor((label - 14) / 7.2), short = name.length > fit ? name.slice(0, Math.max(1, fit - 1)) + "…" : name;
        picture.append(svg("text", { x: label - 12, y: y + 4, "text-anchor": "end" }, short, svg("title", {}, name)));
        if (!Number.isFinite(value)) return;
        if (to > from) picture.append(svg("line", { class: "whisker", x1: place(from), x2: place(to), y1: y, y2: y }));
        picture.append(svg("circle", { class: "s" + ((spec.series.length > 1 ? index : 0) % 8), cx: place(value), cy: y, r: 5 }),
          svg("text", { class: "quiet", x: width - right + 10, y: y + 4 }, text(value)));
      });
      holder.replaceChildren(picture, ...(spec.value_label ? [make("p", { class: "axis-name x" }, spec.value_label)] : []), numbers);
    }

    function describe() {
      return (spec.title ? spec.title + ". " : "") + spec.categories.map((name, row) =>
        name + " " + spec.series.map((each) => (each.name && spec.series.length > 1 ? each.name + " " : "") + text(each.values[row])).join(", ")).join("; ");
    }
    const numbers = saccade.details("Numbers", () => saccade.numbersTable(["", ...spec.series.flatMap((each) => [each.name || "value", ...(each.low?.length ? ["low", "high"] : [])])],
      spec.categories.map((name, row) => [name, ...spec.series.flatMap((each) => [text(each.values[row]), ...(each.low?.length ? ends(each, row).map(text) : [])])]),
      "Numbers of " + (spec.title || "the chart")));
    draw();
    const watcher = new ResizeObserver(() => { if (holder.querySelector("svg")?.getAttribute("width") !== String(holder.clientWidth)) draw(); });
    watcher.observe(holder);
    return { destroy() { watcher.disconnect(); holder.remove(); } };
  };
})((globalThis.saccade ??= {}));
