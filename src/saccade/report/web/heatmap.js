// Matrices as colours on a canvas. What has more cells than pixels shows in each pixel its largest value, so that a
// single strong weight is never averaged away, and the read-out names the exact cell and value under the pointer.
//
//   const map = saccade.heatMap(element, spec)
//   map.update(spec)             another matrix in the same place
//   map.look(row, column)        moves the read-out, as the pointer and the arrow keys do
//   map.destroy()
//   saccade.thumbnail(canvas, spec)     a small picture of the whole, without labels
//   saccade.floats(base64)              a Float32Array from little-endian base64
//
// spec: {title, values, rows, columns, first_row, low, high, signed, scale, unit, value_label, x_label, y_label,
//        row_names, column_names, largest_cell, on_look}
// values are row by row, NaN or null is missing. scale is "linear", "root" or "log". signed: two colours that meet at 0.
(function (saccade) {
  "use strict";
  // From nothing, which is nearly the page, to the largest.
  const STOPS = {
    light: { one: ["#f3f5f8", "#c9ddf0", "#7db5dd", "#2f7fbf", "#12508f", "#0a2a57"], two: ["#0d3f78", "#2f7fbf", "#a9cde8", "#f3f4f5", "#f3bd98", "#cf6a2b", "#7d2f08"] },
    dark: { one: ["#1a2028", "#173a5e", "#1d67a3", "#3b9ed0", "#8fd6dd", "#f4f6c4"], two: ["#8fd0ff", "#3b8fd0", "#1f4468", "#1d222a", "#6b3d1d", "#d97a35", "#ffd0a6"] },
  };
  const LEVELS = 512;
  const isDark = () => {
    const [red, green, blue] = saccade.colour("--page").match(/[\d.]+/g).map(Number);
    return red + green + blue < 384;
  };
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

  function palette(signed) {
    const stops = STOPS[isDark() ? "dark" : "light"][signed ? "two" : "one"].map(parts), table = new Uint32Array(LEVELS + 1);
    for (let level = 0; level < LEVELS; ++level) {
      const at = (level / (LEVELS - 1)) * (stops.length - 1), index = Math.min(Math.floor(at), stops.length - 2), part = at - index;
      const [red, green, blue] = stops[index].map((value, each) => Math.round(value + part * (stops[index + 1][each] - value)));
      table[level] = (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
    }
    const [red, green, blue] = saccade.colour("--missing").match(/[\d.]+/g).map(Number);
    table[LEVELS] = (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
    return table;
  }

  saccade.floats = function (base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };

  function rangeOf(spec) {
    let low = Infinity, high = -Infinity;
    const values = spec.values;
    for (let index = 0; index < values.length; ++index) {
      const value = values[index];
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (low > high) [low, high] = [0, 1];
    if (spec.signed) {
      const most = Math.max(Math.abs(spec.low ?? low), Math.abs(spec.high ?? high)) || 1;
      return [-most, most];
    }
    low = spec.low ?? low;
    high = spec.high ?? high;
    return high > low ? [low, high] : [low, low + 1];
  }

  // From a value to 0 ... 1 along the colours.
  function placer(spec, [low, high]) {
    const bend = spec.scale === "root" ? Math.sqrt : spec.scale === "log" ? (part) => Math.max(0, 1 + Math.log10(Math.max(part, 1e-6)) / 6) : (part) => part;
    if (spec.signed) return (value) => 0.5 + 0.5 * Math.sign(value) * bend(Math.min(1, Math.abs(value) / high));
    return (value) => bend(Math.min(1, Math.max(0, (value - low) / (high - low))));
  }

  // The first cell behind a pixel and the one after the last, of `count` cells over so many pixels.
  const behind = (pixel, from, count, pixels) => {
    const first = from + Math.floor((pixel * count) / pixels);
    return [first, Math.max(first + 1, from + Math.floor(((pixel + 1) * count) / pixels))];
  };

  // The largest value, by size, of the cells behind each of width x height pixels.
  function pooled(spec, view, width, height) {
    const result = new Float32Array(width * height), { values, columns } = spec;
    const bounds = (from, count, pixels) => {
      const list = new Int32Array(2 * pixels);
      for (let at = 0; at < pixels; ++at) list.set(behind(at, from, count, pixels), 2 * at);
      return list;
    };
    const across = bounds(view.left, view.columns, width), down = bounds(view.top, view.rows, height);
    for (let y = 0; y < height; ++y)
      for (let x = 0; x < width; ++x) {
        let best = NaN, size = -1;
        for (let row = down[2 * y]; row < down[2 * y + 1]; ++row) {
          const begin = row * columns;
          for (let index = begin + across[2 * x]; index < begin + across[2 * x + 1]; ++index) {
            const value = values[index];
            if (value === null) continue;
            const magnitude = value < 0 ? -value : value;
            if (magnitude > size) { size = magnitude; best = value; }
          }
        }
        result[y * width + x] = best;
      }
    return result;
  }

  function painted(spec, view, width, height, range) {
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer), colours = palette(spec.signed), place = placer(spec, range);
    const values = pooled(spec, view, width, height);
    for (let index = 0; index < values.length; ++index)
      pixels[index] = Number.isNaN(values[index]) ? colours[LEVELS] : colours[Math.round(place(values[index]) * (LEVELS - 1))];
    context.putImageData(image, 0, 0);
    return canvas;
  }

  const whole = (spec) => ({ top: 0, left: 0, rows: spec.rows, columns: spec.columns });

  saccade.thumbnail = function (canvas, spec) {
    const size = Math.round(68 * devicePixelRatio);
    canvas.width = Math.min(size, Math.max(1, Math.round(size * Math.min(1, spec.columns / spec.rows))));
    canvas.height = Math.min(size, Math.max(1, Math.round(size * Math.min(1, spec.rows / spec.columns))));
    canvas.getContext("2d").drawImage(painted(spec, whole(spec), canvas.width, canvas.height, rangeOf(spec)), 0, 0);
  };

  saccade.heatMap = function (element, given) {
    const { element: make, format, formatExact } = saccade;
    let spec = given, view = whole(spec), range = rangeOf(spec), cell = null, drag = null, picture = null, layout = null, width = 0;
    const canvas = make("canvas", { class: "heat", tabindex: "0", role: "img" });
    const reset = make("button", { type: "button", onclick: () => show(whole(spec)) }, "Reset zoom");
    const bar = make("canvas", { width: 256, height: 1, "aria-hidden": "true" }), lowest = make("span"), highest = make("span"), barName = make("span");
    const scale = make("div", { class: "scale" }, lowest, bar, highest, barName);
    const readout = make("p", { class: "readout", "aria-live": "polite" });
    const holder = make("div", { class: "chart" }, make("div", { class: "heat-frame" }, canvas), make("div", { class: "controls" }, scale, reset), readout);
    let numbers = null;
    element.append(holder);

    const rowName = (row) => spec.row_names?.[row] ?? String(row + (spec.first_row ?? 0));
    const columnName = (column) => spec.column_names?.[column] ?? String(column);
    const value = (at) => spec.values[at.row * spec.columns + at.column];

    function arrange() {
      const ratio = devicePixelRatio, available = holder.clientWidth;
      const longest = (count, name, from) => {
        let most = 0;
        for (let index = from; index < from + count; ++index) most = Math.max(most, name(index).length);
        return most;
      };
      const largest = spec.largest_cell ?? 40;
      const named = spec.row_names && view.rows <= 48;
      const left = Math.ceil(14 + Math.min(14, named ? longest(view.rows, rowName, view.top) : String(spec.rows + (spec.first_row ?? 0)).length) * 7.2);
      const room = Math.max(60, available - left - 8);
      const size = Math.min(room / spec.columns, 560 / spec.rows, largest);
      // Rows that are few and long are made higher, to be read; others have square cells, as queries and keys must.
      const high = spec.rows < spec.columns ? Math.max(size, Math.min(largest * 0.62, 560 / spec.rows)) : size;
      const box = { left, top: 8, width: Math.max(1, Math.round(size * spec.columns)), height: Math.max(1, Math.round(high * spec.rows)) };
      const upright = spec.column_names && box.width / view.columns >= 13;
      const needed = upright ? longest(view.columns, columnName, view.left) : 0;
      const flat = !upright || needed * 7.2 + 6 <= box.width / view.columns;
      const below = upright && !flat ? 10 + Math.min(12, needed) * 7.2 : 20;
      layout = { ratio, box, flat, upright, named: spec.row_names && box.height / view.rows >= 12, width: left + box.width + 8, height: box.top + box.height + below + (spec.x_label ? 18 : 2) };
      canvas.width = Math.round(layout.width * ratio);
      canvas.height = Math.round(layout.height * ratio);
      canvas.style.width = layout.width + "px";
      canvas.style.height = layout.height + "px";
      picture = painted(spec, view, Math.max(1, Math.round(box.width * ratio)), Math.max(1, Math.round(box.height * ratio)), range);
    }

    const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

    function drawLabels(context, box) {
      context.fillStyle = saccade.colour("--soft");
      context.font = "11.5px " + getComputedStyle(holder).fontFamily;
      const step = { x: box.width / view.columns, y: box.height / view.rows };
      context.textAlign = "right";
      context.textBaseline = "middle";
      const rows = layout.named ? Array.from({ length: view.rows }, (_, index) => view.top + index) : ticks(view.top, view.rows, box.height / 20);
      for (const row of rows) context.fillText(cut(layout.named ? rowName(row) : String(row + (spec.first_row ?? 0)), 14), box.left - 6, box.top + (row - view.top + 0.5) * step.y);
      const columns = layout.upright ? Array.from({ length: view.columns }, (_, index) => view.left + index) : ticks(view.left, view.columns, box.width / (10 + 7.2 * String(spec.columns).length));
      for (const column of columns) {
        const x = box.left + (column - view.left + 0.5) * step.x, y = box.top + box.height + 6;
        if (layout.flat) {
          context.textAlign = "center";
          context.textBaseline = "top";
          context.fillText(layout.upright ? columnName(column) : String(column), x, y);
        } else {
          context.save();
          context.translate(x, y);
          context.rotate(-Math.PI / 2);
          context.textAlign = "right";
          context.textBaseline = "middle";
          context.fillText(cut(columnName(column), 12), 0, 0);
          context.restore();
        }
      }
      context.textAlign = "center";
      context.textBaseline = "bottom";
      if (spec.x_label) context.fillText((spec.y_label ? spec.y_label + " ↓   " : "") + spec.x_label + " →", box.left + box.width / 2, layout.height - 1);
    }

    const ticks = (from, count, most) => {
      const step = saccade.niceTicks(0, count, Math.max(1, Math.floor(most)));
      const distance = Math.max(1, Math.round(step.length > 1 ? step[1] - step[0] : count));
      return Array.from({ length: Math.ceil(count / distance) + 1 }, (_, index) => (Math.ceil(from / distance) + index) * distance).filter((at) => at >= from && at < from + count);
    };

    // Numbers in the cells, where there are few and they fit.
    function drawNumbers(context, box) {
      const wide = box.width / view.columns, high = box.height / view.rows;
      if (wide < 38 || high < 17) return;
      const place = placer(spec, range), dark = isDark();
      context.textAlign = "center";
      context.textBaseline = "middle";
      for (let row = 0; row < view.rows; ++row)
        for (let column = 0; column < view.columns; ++column) {
          const number = value({ row: row + view.top, column: column + view.left });
          if (number === null || Number.isNaN(number)) continue;
          const strong = spec.signed ? Math.abs(place(number) - 0.5) > 0.28 : place(number) > 0.5;
          context.fillStyle = strong === dark ? "#10151c" : "#ffffff";
          if (!strong) context.fillStyle = dark ? "#ffffff" : "#10151c";
          context.fillText(format(number, spec.unit, 2), box.left + (column + 0.5) * wide, box.top + (row + 0.5) * high);
        }
    }

    function draw() {
      width = holder.clientWidth;
      if (!width) return;
      if (!picture) arrange();
      const context = canvas.getContext("2d"), { box, ratio } = layout;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, layout.width, layout.height);
      context.imageSmoothingEnabled = false;
      context.drawImage(picture, box.left, box.top, box.width, box.height);
      context.strokeStyle = saccade.colour("--axis");
      context.lineWidth = 1;
      context.strokeRect(box.left - 0.5, box.top - 0.5, box.width + 1, box.height + 1);
      drawLabels(context, box);
      drawNumbers(context, box);
      if (cell && cell.row >= view.top && cell.row < view.top + view.rows && cell.column >= view.left && cell.column < view.left + view.columns) {
        const x = box.left + ((cell.column - view.left) * box.width) / view.columns, y = box.top + ((cell.row - view.top) * box.height) / view.rows;
        context.strokeStyle = saccade.colour("--series-1");
        context.lineWidth = 1.5;
        const wide = Math.max(5, box.width / view.columns), high = Math.max(5, box.height / view.rows);
        context.strokeRect(x, y, wide, high);
      }
      if (drag?.to) {
        context.strokeStyle = saccade.colour("--text");
        context.lineWidth = 1;
        context.strokeRect(Math.min(drag.from.x, drag.to.x), Math.min(drag.from.y, drag.to.y), Math.abs(drag.to.x - drag.from.x), Math.abs(drag.to.y - drag.from.y));
      }
      reset.hidden = view.rows === spec.rows && view.columns === spec.columns;
    }

    function show(next) {
      view = next;
      picture = null;
      draw();
    }

    function tell() {
      if (!cell) return;
      const words = [(spec.y_label ?? "row") + " " + rowName(cell.row), (spec.x_label ?? "column") + " " + columnName(cell.column)];
      const where = spec.describe ? spec.describe(cell.row, cell.column) : words.join(", ");
      readout.replaceChildren(where + ": ", make("b", {}, formatExact(value(cell), spec.unit)));
      spec.on_look?.(cell.row, cell.column, value(cell));
    }

    function look(row, column) {
      cell = { row: Math.max(0, Math.min(spec.rows - 1, row)), column: Math.max(0, Math.min(spec.columns - 1, column)) };
      tell();
      draw();
    }

    // The strongest cell behind a pixel: the one whose colour is seen there.
    function under(x, y) {
      const { box } = layout;
      if (x < box.left || y < box.top || x >= box.left + box.width || y >= box.top + box.height) return null;
      const pixel = (at, size, pixels) => Math.min(pixels - 1, Math.floor((at / size) * pixels));
      const [top, bottom] = behind(pixel(y - box.top, box.height, picture.height), view.top, view.rows, picture.height);
      const [left, right] = behind(pixel(x - box.left, box.width, picture.width), view.left, view.columns, picture.width);
      let best = { row: top, column: left }, size = -1;
      for (let row = top; row < bottom; ++row)
        for (let column = left; column < right; ++column) {
          const magnitude = Math.abs(value({ row, column }));
          if (magnitude > size) { size = magnitude; best = { row, column }; }
        }
      return best;
    }

    const point = (event) => {
      const area = canvas.getBoundingClientRect();
      return { x: event.clientX - area.left, y: event.clientY - area.top };
    };
    canvas.addEventListener("pointerdown", (event) => {
      const at = point(event), found = under(at.x, at.y);
      if (found) look(found.row, found.column);
      if (event.pointerType === "mouse" && found && event.button === 0) {
        drag = { from: at };
        canvas.setPointerCapture(event.pointerId);
      }
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = point(event);
      if (drag) {
        drag.to = at;
        draw();
        return;
      }
      const found = under(at.x, at.y);
      if (found && (found.row !== cell?.row || found.column !== cell?.column)) look(found.row, found.column);
    });
    canvas.addEventListener("pointerup", () => {
      const { from, to } = drag ?? {};
      drag = null;
      if (!to || Math.abs(to.x - from.x) < 6 || Math.abs(to.y - from.y) < 6) { draw(); return; }
      const { box } = layout;
      const share = (at, begin, size) => Math.min(1, Math.max(0, (at - begin) / size));
      const span = (a, b, begin, size, first, count) => {
        const low = Math.floor(share(Math.min(a, b), begin, size) * count), high = Math.ceil(share(Math.max(a, b), begin, size) * count);
        return [first + low, Math.max(Math.min(4, count), high - low)];
      };
      const [left, columns] = span(from.x, to.x, box.left, box.width, view.left, view.columns);
      const [top, rows] = span(from.y, to.y, box.top, box.height, view.top, view.rows);
      show({ left: Math.min(left, spec.columns - columns), columns, top: Math.min(top, spec.rows - rows), rows });
    });
    canvas.addEventListener("dblclick", () => show(whole(spec)));
    canvas.addEventListener("keydown", (event) => {
      const at = cell ?? { row: view.top, column: view.left };
      const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const scaled = (factor) => {
        const rows = Math.max(1, Math.min(spec.rows, Math.max(Math.min(8, spec.rows), Math.round(view.rows * factor))));
        const columns = Math.max(1, Math.min(spec.columns, Math.max(Math.min(8, spec.columns), Math.round(view.columns * factor))));
        show({ rows, columns, top: Math.max(0, Math.min(spec.rows - rows, at.row - Math.floor(rows / 2))), left: Math.max(0, Math.min(spec.columns - columns, at.column - Math.floor(columns / 2))) });
      };
      if (steps) look(cell ? at.row + steps[0] : at.row, cell ? at.column + steps[1] : at.column);
      else if (event.key === "+" || event.key === "=") scaled(0.5);
      else if (event.key === "-") scaled(2);
      else if (event.key === "0" || event.key === "Escape") show(whole(spec));
      else return;
      event.preventDefault();
    });

    function drawBar() {
      const spread = { values: Float32Array.from({ length: 256 }, (_, index) => index / 255), rows: 1, columns: 256 };
      if (spec.signed) spread.values = spread.values.map((each) => 2 * each - 1);
      bar.getContext("2d").drawImage(painted({ ...spread, signed: spec.signed, scale: spec.scale }, whole(spread), 256, 1, spec.signed ? [-1, 1] : [0, 1]), 0, 0);
      lowest.textContent = format(range[0], spec.unit);
      highest.textContent = format(range[1], spec.unit);
      barName.textContent = spec.value_label ?? "";
    }

    // All cells of a small matrix, the strongest of a large one.
    function table() {
      const caption = "Numbers of " + (spec.title || "the map");
      if (spec.rows * spec.columns <= 1600 && spec.columns <= 64)
        return saccade.numbersTable([spec.y_label ?? "", ...Array.from({ length: spec.columns }, (_, column) => columnName(column))],
          Array.from({ length: spec.rows }, (_, row) => [rowName(row), ...Array.from({ length: spec.columns }, (_, column) => formatExact(value({ row, column }), spec.unit))]), caption);
      const strongest = [];
      for (let index = 0; index < spec.values.length; ++index) {
        const size = Math.abs(spec.values[index]);
        if (!(size > 0) || (strongest.length === 50 && size <= strongest[49].size)) continue;
        const at = strongest.findIndex((each) => each.size < size);
        strongest.splice(at < 0 ? strongest.length : at, 0, { size, index });
        if (strongest.length > 50) strongest.pop();
      }
      return saccade.numbersTable([spec.y_label ?? "row", spec.x_label ?? "column", spec.value_label || "value"], strongest.map(({ index }) => {
        const row = Math.floor(index / spec.columns), column = index % spec.columns;
        const named = (number, name) => (name === String(number) ? name : number + " " + name);
        return [named(row + (spec.first_row ?? 0), rowName(row)), named(column, columnName(column)), formatExact(spec.values[index], spec.unit)];
      }), caption + ", the 50 strongest");
    }

    function prepare() {
      range = rangeOf(spec);
      canvas.setAttribute("aria-label", (spec.title ? spec.title + ". " : "") + "Heat map of " + spec.rows + " by " + spec.columns + ", values from " +
        format(range[0], spec.unit) + " to " + format(range[1], spec.unit) + ". Arrow keys read the cells, plus and minus zoom, 0 shows all.");
      readout.replaceChildren();
      numbers?.remove();
      numbers = saccade.details(spec.rows * spec.columns <= 1600 && spec.columns <= 64 ? "Numbers" : "The 50 strongest", table);
      holder.append(numbers);
      picture = null;
      drawBar();
      draw();
    }
    prepare();
    const watcher = new ResizeObserver(() => { if (holder.clientWidth !== width) { picture = null; draw(); } });
    watcher.observe(holder);
    const endTheme = saccade.onTheme(() => { picture = null; drawBar(); draw(); });
    return {
      update(next) {
        const same = next.rows === spec.rows && next.columns === spec.columns;
        spec = next;
        if (!same) { view = whole(spec); cell = null; }
        prepare();
        if (cell) tell();
      },
      look,
      destroy() { endTheme(); watcher.disconnect(); holder.remove(); },
    };
  };
})((globalThis.saccade ??= {}));
