// Attention weights of a text: a layer by choice, its heads as small pictures, one of them large with tokens and values.
//
//   const view = saccade.attentionView(element, capture)
//   view.update(capture)      other weights; layer, head and colours stay chosen where they exist
//   view.destroy()
//
// capture is what report/attention_map.h writes: {model, tokens, queries, maps: [{layer, head, first_row, rows, columns,
// signed, triangle, weights, mask: {query_block, key_block, kept}}]}. weights and kept are base64 of float32, or a
// Float32Array.
(function (saccade) {
  "use strict";
  function unpacked(map) {
    if (map.values) return map.values;
    const packed = typeof map.weights === "string" ? saccade.floats(map.weights) : map.weights;
    if (!map.triangle) return (map.values = packed);
    const values = new Float32Array(map.rows * map.columns);
    for (let row = 0, from = 0; row < map.rows; ++row) {
      const count = Math.min(map.columns, map.first_row + row + 1);
      values.set(packed.subarray(from, from + count), row * map.columns);
      from += count;
    }
    return (map.values = values);
  }

  const visible = (token) => "“" + token.replace(/\n/g, "⏎").replace(/\t/g, "⇥") + "”";
  const bare = (token) => token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ | $/g, "·");

  function weightSpec(capture, map, scale) {
    const queries = (capture.queries?.length ? capture.queries : capture.tokens).slice(map.first_row, map.first_row + map.rows);
    const keys = capture.tokens.slice(0, map.columns);
    return {
      title: "Attention of layer " + map.layer + ", head " + map.head, values: unpacked(map), rows: map.rows, columns: map.columns, first_row: map.first_row,
      signed: map.signed, low: map.signed ? undefined : 0, scale, value_label: "weight", x_label: "key", y_label: "query", largest_cell: 28,
      row_names: queries.map(bare), column_names: keys.map(bare),
      describe: (row, column) => "query " + (row + map.first_row) + " " + visible(queries[row]) + " looks at key " + column + " " + visible(keys[column]),
    };
  }

  function maskSpec(map) {
    const { query_block: down, key_block: across } = map.mask, rows = Math.ceil(map.rows / down), columns = Math.ceil(map.columns / across);
    const named = (first, size, end) => (size === 1 ? String(first) : first + "–" + (Math.min(first + size, end) - 1));
    return {
      title: "Pairs looked at in layer " + map.layer + ", head " + map.head, rows, columns, low: 0, high: 1, unit: "share",
      values: typeof map.mask.kept === "string" ? saccade.floats(map.mask.kept) : map.mask.kept, value_label: "of the pairs kept", x_label: "block of keys", y_label: "block of queries", largest_cell: 44,
      describe: (row, column) => "queries " + named(map.first_row + row * down, down, map.first_row + map.rows) + ", keys " + named(column * across, across, map.columns),
    };
  }

  saccade.attentionView = function (element, given) {
    const { element: make } = saccade;
    let capture = given, chosen = null, scale = "root", showsMask = false, map = null;
    const layers = make("select", { "aria-label": "Layer" });
    const colours = make("select", { "aria-label": "Colours" }, ...[["root", "square root"], ["linear", "linear"], ["log", "logarithm"]].map(([value, name]) => make("option", { value }, name)));
    const mask = make("button", { type: "button", "aria-pressed": "false" }, "Blocks kept");
    const heads = make("div", { class: "thumbnails", role: "group", "aria-label": "Heads" });
    const large = make("div");
    const holder = make("div", { class: "attention" },
      make("div", { class: "controls" }, saccade.named("layer", layers), saccade.named("colours", colours), mask), heads, large);
    element.append(holder);

    const inLayer = () => capture.maps.filter((each) => each.layer === chosen.layer);

    function drawLarge() {
      mask.hidden = !chosen.mask;
      mask.setAttribute("aria-pressed", String(showsMask));
      const spec = showsMask && chosen.mask ? maskSpec(chosen) : weightSpec(capture, chosen, scale);
      if (map) map.update(spec);
      else map = saccade.heatMap(large, spec);
      for (const button of heads.children) button.setAttribute("aria-pressed", String(Number(button.dataset.head) === chosen.head));
    }

    function drawHeads() {
      heads.replaceChildren(...inLayer().map((each) => {
        const canvas = make("canvas", { "aria-hidden": "true" });
        const button = make("button", { type: "button", "data-head": each.head, onclick: () => { chosen = each; drawLarge(); } }, canvas, "head " + each.head);
        saccade.thumbnail(canvas, { ...weightSpec(capture, each, scale) });
        return button;
      }));
      heads.hidden = inLayer().length < 2;
    }

    function prepare() {
      const names = [...new Set(capture.maps.map((each) => each.layer))].sort((a, b) => a - b);
      layers.replaceChildren(...names.map((layer) => make("option", { value: layer }, String(layer))));
      chosen = capture.maps.find((each) => each.layer === chosen?.layer && each.head === chosen?.head) ?? capture.maps[0];
      layers.value = String(chosen.layer);
      drawHeads();
      drawLarge();
    }
    layers.addEventListener("change", () => {
      const layer = Number(layers.value), inside = capture.maps.filter((each) => each.layer === layer);
      chosen = inside.find((each) => each.head === chosen.head) ?? inside[0];
      drawHeads();
      drawLarge();
    });
    colours.addEventListener("change", () => { scale = colours.value; drawHeads(); drawLarge(); });
    mask.addEventListener("click", () => { showsMask = !showsMask; drawLarge(); });
    prepare();
    const endTheme = saccade.onTheme(drawHeads);
    return {
      update(next) { capture = next; prepare(); },
      destroy() { endTheme(); map?.destroy(); holder.remove(); },
    };
  };
})((globalThis.saccade ??= {}));
