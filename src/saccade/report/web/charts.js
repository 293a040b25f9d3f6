// Line charts on uPlot, which must be loaded before: zoom by dragging, lines on and off by the legend, logarithmic axes
// on and off by a button, values by pointer or arrow keys, and a table with the same numbers.
//
//   const chart = saccade.lineChart(element, spec)
//   chart.update(spec)        other numbers in the same place; what was switched off or zoomed stays so
//   chart.destroy()
//   chart.plot                the uPlot object, for tests
//
// spec: {title, x_label, y_label, log_x, log_y, x_unit, y_unit, x_ticks, x_names, y_low, y_high, ordered, height,
//        series: [{name, x, y, low, high, muted, markers}]}
// x rises; null in y is a gap; low and high are edges of a band. `muted` lines are grey: they serve as a comparison.
// `ordered` series follow one another, as layers do, and so do their colours. x_names name x = 0, 1, 2, ...
(function (saccade) {
  "use strict";
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
  const PALETTE = 8;

  function mixed(names, place) {
    const at = place * (names.length - 1), index = Math.min(Math.floor(at), names.length - 2), part = at - index;
    const parse = (name) => saccade.colour(name).match(/[\d.]+/g).map(Number);
    const a = parse(names[index]), b = parse(names[index + 1]);
    return "rgb(" + [0, 1, 2].map((each) => Math.round(a[each] + part * (b[each] - a[each]))).join(", ") + ")";
  }
  const faded = (colour, alpha) => colour.replace(/^rgb\((.*)\)$/, "rgba($1, " + alpha + ")");

  // How each series is drawn.
  function inks(spec) {
    let coloured = 0, grey = 0;
    const count = spec.series.filter((each) => !each.muted).length;
    return spec.series.map((each) => {
      if (each.muted) return { stroke: saccade.colour("--muted"), dash: DASHES[grey++ % DASHES.length], width: 1.5 };
      const index = coloured++;
      if (spec.ordered && count > 2)
        return { stroke: mixed(["--series-5", "--series-0", "--series-2", "--series-4"], index / (count - 1)), dash: [], width: 1.8 };
      return { stroke: saccade.colour("--series-" + (index % PALETTE)), dash: DASHES[Math.floor(index / PALETTE) % DASHES.length], width: 2 };
    });
  }

  const finite = (values) => values.filter((value) => Number.isFinite(value));
  const positive = (lists) => {
    const all = lists.flatMap(finite);
    return all.length > 0 && all.every((value) => value > 0);
  };

  // One x for all series; edges of bands become series of their own.
  function joined(spec, logX, logY) {
    const tables = [], places = [];
    let next = 1;
    for (const each of spec.series) {
      const order = each.x.map((_, index) => index).filter((index) => Number.isFinite(each.x[index]) && (!logX || each.x[index] > 0));
      order.sort((a, b) => each.x[a] - each.x[b]);
      const take = (list) => order.map((index) => (Number.isFinite(list[index]) && (!logY || list[index] > 0) ? list[index] : null));
      const banded = each.low?.length > 0;
      tables.push([order.map((index) => each.x[index]), take(each.y), ...(banded ? [take(each.low), take(each.high)] : [])]);
      places.push({ line: next, low: banded ? next + 1 : null, high: banded ? next + 2 : null });
      next += banded ? 3 : 1;
    }
    const data = tables.some((table) => table[0].length) ? uPlot.join(tables) : [[], ...tables.flatMap((table) => table.slice(1))];
    return { data, places };
  }

  saccade.lineChart = function (element, given) {
    const { element: make, format, formatExact } = saccade;
    let spec = given, plot = null, places = [], shown = [], logX = false, logY = false, width = 0, zoomed = null;

    const controls = make("div", { class: "controls" });
    const yName = make("p", { class: "axis-name" }), xName = make("p", { class: "axis-name x" });
    const canvas = make("div", { class: "canvas", tabindex: "0", role: "img" });
    const legend = make("ul", { class: "legend" });
    const readout = make("p", { class: "readout", "aria-live": "polite" });
    const top = make("div", { class: "chart-top" }, controls, readout);
    const root = make("div", { class: "chart" }, top, yName, canvas, xName, legend);
    element.append(root);
    let numbers = null;

    const toggle = (name, get, set) => {
      const button = make("button", { type: "button", "aria-pressed": String(get()) }, name);
      button.addEventListener("click", () => {
        set(!get());
        button.setAttribute("aria-pressed", String(get()));
        zoomed = null;
        draw();
      });
      return button;
    };
    const reset = make("button", { type: "button", onclick: () => { zoomed = null; draw(); canvas.focus(); } }, "Reset zoom");
    reset.hidden = true;

    function describe() {
      const named = spec.series.map((each) => {
        const values = finite(each.y);
        return each.name + (values.length ? " from " + format(values[0], spec.y_unit) + " to " + format(values.at(-1), spec.y_unit) : " without values");
      });
      return [spec.title, "Line chart of " + (spec.y_label || "values") + " against " + (spec.x_label || "x") + ".",
        named.slice(0, 8).join("; ") + (named.length > 8 ? "; and " + (named.length - 8) + " more" : "") + ".",
        "Arrow keys read the values, plus and minus zoom, 0 shows all."].filter(Boolean).join(" ");
    }

    function table() {
      const { data, places: at } = joined(spec, false, false);
      const x = (value) => (spec.x_names ? spec.x_names[value] ?? String(value) : formatExact(value, spec.x_unit));
      const cell = (place, row) => {
        const value = data[place.line][row];
        if (value === null || value === undefined) return "–";
        const text = formatExact(value, spec.y_unit);
        const low = place.low === null ? value : data[place.low][row], high = place.high === null ? value : data[place.high][row];
        return low === value && high === value ? text : text + " (" + format(low, spec.y_unit, 4) + " to " + format(high, spec.y_unit, 4) + ")";
      };
      return saccade.numbersTable([spec.x_label || "x", ...spec.series.map((each) => each.name || spec.y_label || "value")],
        Array.from(data[0], (value, row) => [x(value), ...at.map((place) => cell(place, row))]), "Numbers of " + (spec.title || "the chart"));
    }

    function swatch(ink) {
      return saccade.svg("svg", { width: 22, height: 10, "aria-hidden": "true" },
        saccade.svg("line", { x1: 0, y1: 5, x2: 22, y2: 5, stroke: ink.stroke, "stroke-width": 2.4, "stroke-dasharray": ink.dash.join(" ") || null }));
    }

    function drawLegend(colours) {
      const single = spec.series.length === 1 && !spec.series[0].name;
      legend.hidden = single;
      legend.replaceChildren(...(single ? [] : spec.series.map((each, index) => {
        const button = make("button", { type: "button", "aria-pressed": String(shown[index]) }, swatch(colours[index]),
          make("span", {}, each.name), make("span", { class: "value" }));
        button.addEventListener("click", () => {
          shown[index] = !shown[index];
          button.setAttribute("aria-pressed", String(shown[index]));
          const place = places[index];
          for (const at of [place.line, place.low, place.high]) if (at !== null) plot.setSeries(at, { show: shown[index] });
        });
        return make("li", {}, button);
      })));
    }

    function tell(u) {
      const index = u.cursor.idx, inside = index !== null && index !== undefined;
      const values = legend.querySelectorAll(".value");
      if (!inside) {
        readout.replaceChildren();
        values.forEach((value) => value.replaceChildren());
        return;
      }
      const x = u.data[0][index];
      const at = spec.x_names ? spec.x_names[x] ?? String(x) : formatExact(x, spec.x_unit);
      const parts = [];
      spec.series.forEach((each, series) => {
        const place = places[series].line, row = u.cursor.idxs[place];
        const value = row === null || row === undefined ? null : u.data[place][row];
        const text = shown[series] && value !== null && value !== undefined ? formatExact(value, spec.y_unit) : "";
        values[series]?.replaceChildren(text);
        if (text) parts.push(each.name ? each.name + " " + text : text);
      });
      readout.replaceChildren(make("b", {}, (spec.x_label ? spec.x_label + " " : "") + at), parts.length ? ": " + parts.join(", ") : "");
    }

    // The number of a series that lies nearest in x, if it lies near at all.
    function nearest(u, series, hovered) {
      if (series === 0 || hovered === null) return hovered;
      const list = u.data[series], xs = u.data[0], known = (index) => list[index] !== null && list[index] !== undefined;
      if (known(hovered)) return hovered;
      let before = hovered, after = hovered;
      while (before >= 0 && !known(before)) --before;
      while (after < list.length && !known(after)) ++after;
      const distance = (index) => (index < 0 || index >= list.length ? Infinity : Math.abs(u.valToPos(xs[index], "x") - u.valToPos(xs[hovered], "x")));
      const best = distance(before) <= distance(after) ? before : after;
      return distance(best) <= 24 ? best : null;
    }

    function ticksOf(scale, unit) {
      return function (u, axis, low, high) {
        const most = Math.max(2, Math.floor((scale === "x" ? u.bbox.width / 60 : u.bbox.height / 30) / devicePixelRatio));
        if (scale === "x" && (spec.x_ticks?.length || spec.x_names)) {
          let ticks = (spec.x_ticks?.length ? spec.x_ticks : spec.x_names.map((_, index) => index)).filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
          const longest = spec.x_names ? Math.max(...spec.x_names.map((name) => name.length)) * 7 : 44;
          let last = -Infinity;
          ticks = ticks.filter((tick) => {
            const at = u.valToPos(tick, "x");
            if (at - last < longest + 10) return false;
            last = at;
            return true;
          });
          return ticks;
        }
        const log = scale === "x" ? logX : logY;
        if (log) {
          const ticks = saccade.logTicks(low, high, most, unit);
          return ticks.length > 1 ? ticks : saccade.niceTicks(low, high, most);
        }
        const factor = unit === "share" ? 100 : 1;
        const ticks = saccade.niceTicks(low * factor, high * factor, most).map((tick) => tick / factor);
        // There is no layer 0.5.
        const whole = scale === "x" && u.data[0].every(Number.isInteger) ? ticks.filter((tick) => Math.abs(tick - Math.round(tick)) < 1e-9) : [];
        return whole.length ? whole : ticks;
      };
    }
    const labels = (unit, names) => (u, ticks) => {
      const sizes = ticks.map(Math.abs), step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 0;
      const digits = step > 0 ? Math.min(9, Math.max(3, Math.ceil(Math.log10(Math.max(...sizes) / step)) + 1)) : 3;
      return ticks.map((tick) => (names ? names[tick] ?? "" : format(tick, unit, digits)));
    };

    const rangeOf = (scale) => (u, low, high) => {
      if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return scale === "x" && logX || scale === "y" && logY ? [1, 10] : [0, 1];
      // What was zoomed to is taken as it is.
      if (scale === "x" && u.data[0].length && (low !== u.data[0][0] || high !== u.data[0].at(-1))) return [low, high];
      if (scale === "x" ? logX : logY) {
        const part = Math.max(1.05, (high / low) ** 0.04);
        return [low / part, high * part];
      }
      const pad = scale === "x" ? (spec.x_names ? 0.12 : spec.series.some((each) => each.markers) ? 0.02 : 0) : 0.06;
      const size = high - low || Math.abs(high) || 1;
      return [spec[scale + "_low"] ?? low - pad * size, spec[scale + "_high"] ?? high + pad * size];
    };

    function draw() {
      const known = width = root.clientWidth;
      if (!known) return;
      const built = joined(spec, logX, logY), colours = inks(spec);
      places = built.places;
      const series = [{}], bands = [];
      spec.series.forEach((each, index) => {
        const ink = colours[index], few = each.markers || finite(each.y).length === 1;
        series.push({ label: each.name, show: shown[index], stroke: ink.stroke, width: ink.width, dash: ink.dash, pxAlign: 0, points: { show: few, size: 6, fill: ink.stroke } });
        if (places[index].low === null) return;
        for (let edge = 0; edge < 2; ++edge) series.push({ show: shown[index], stroke: "rgba(0, 0, 0, 0)", width: 0, points: { show: false } });
        bands.push({ series: [places[index].high, places[index].low], fill: faded(ink.stroke, 0.17) });
      });
      const font = "12px " + getComputedStyle(root).fontFamily;
      const axis = (scale, unit, names) => ({
        scale, stroke: saccade.colour("--soft"), font, splits: ticksOf(scale, unit), values: labels(unit, names),
        filter: (u, ticks) => ticks,
        grid: { stroke: saccade.colour("--grid"), width: 1 }, ticks: { stroke: saccade.colour("--axis"), width: 1, size: 5 },
        size: scale === "x" ? 32 : (u, texts) => 16 + 7 * Math.max(2, ...(texts ?? []).map((text) => String(text).length)),
      });
      plot?.destroy();
      plot = new uPlot({
        width: known, height: spec.height ?? (known < 560 ? 250 : 310), padding: [10, 12, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: true, y: true, uni: 24 }, dataIdx: nearest, focus: { prox: -1 }, points: { size: 7 } },
        scales: { x: { time: false, distr: logX ? 3 : 1, range: rangeOf("x") }, y: { distr: logY ? 3 : 1, range: rangeOf("y") } },
        axes: [axis("x", spec.x_unit, spec.x_names), axis("y", spec.y_unit)],
        series, bands,
        hooks: {
          setCursor: [tell],
          setSelect: [(u) => {
            // uPlot zooms by itself; what was chosen is kept for the next drawing.
            if (u.select.width < 4 && u.select.height < 4) return;
            queueMicrotask(() => {
              zoomed = { x: [u.scales.x.min, u.scales.x.max], y: [u.scales.y.min, u.scales.y.max] };
              reset.hidden = false;
            });
          }],
        },
      }, built.data, canvas);
      plot.over.addEventListener("dblclick", () => { zoomed = null; reset.hidden = true; });
      if (zoomed) zoom(zoomed);
      reset.hidden = !zoomed;
      drawLegend(colours);
      canvas.setAttribute("aria-label", describe());
      yName.textContent = spec.y_label ?? "";
      xName.textContent = spec.x_label ?? "";
    }

    function zoom(to) {
      zoomed = to;
      reset.hidden = false;
      plot.batch(() => {
        plot.setScale("x", { min: to.x[0], max: to.x[1] });
        if (to.y) plot.setScale("y", { min: to.y[0], max: to.y[1] });
      });
    }

    function scaled(factor) {
      const { min, max } = plot.scales.x, at = plot.cursor.idx ?? null;
      const middle = at === null ? (logX ? Math.sqrt(min * max) : (min + max) / 2) : plot.data[0][at];
      const part = (end) => (logX ? middle * (end / middle) ** factor : middle + (end - middle) * factor);
      const all = plot.data[0], low = Math.max(part(min), all[0]), high = Math.min(part(max), all.at(-1));
      if (factor > 1 && low <= all[0] && high >= all.at(-1)) { zoomed = null; draw(); return; }
      if (high > low) zoom({ x: [low, high] });
    }

    canvas.addEventListener("keydown", (event) => {
      if (!plot || !plot.data[0].length) return;
      const last = plot.data[0].length - 1, at = plot.cursor.idx;
      const start = at ?? 0;
      const target = { ArrowLeft: at === null ? last : start - 1, ArrowRight: at === null ? 0 : start + 1, Home: 0, End: last }[event.key];
      if (target !== undefined) {
        const x = plot.data[0][Math.max(0, Math.min(last, target))];
        plot.setCursor({ left: plot.valToPos(x, "x"), top: plot.over.clientHeight / 2 });
      } else if (event.key === "+" || event.key === "=") scaled(0.5);
      else if (event.key === "-") scaled(2);
      else if (event.key === "0" || event.key === "Escape") { zoomed = null; draw(); }
      else return;
      event.preventDefault();
    });

    function prepare() {
      const ys = spec.series.flatMap((each) => [each.y]), xs = spec.series.map((each) => each.x);
      const canX = positive(xs) && !spec.x_names && Math.max(...xs.flat()) / Math.min(...xs.flat()) > 4, canY = positive(ys);
      logX = Boolean(spec.log_x) && positive(xs);
      logY = Boolean(spec.log_y) && ys.flat().some((value) => value > 0);
      if (shown.length !== spec.series.length) shown = spec.series.map((each) => !each.hidden);
      controls.replaceChildren(
        ...(canX || logX ? [toggle("log x", () => logX, (value) => (logX = value))] : []),
        ...(canY || logY ? [toggle("log y", () => logY, (value) => (logY = value))] : []), reset);
      numbers?.remove();
      numbers = saccade.details("Numbers", table);
      root.append(numbers);
      draw();
    }

    prepare();
    const watcher = new ResizeObserver(() => { if (root.clientWidth !== width) draw(); });
    watcher.observe(root);
    const endTheme = saccade.onTheme(draw);
    return {
      get plot() { return plot; },
      update(next) { spec = next; prepare(); },
      destroy() { endTheme(); watcher.disconnect(); plot?.destroy(); root.remove(); },
    };
  };
})((globalThis.saccade ??= {}));
