// What a layer attends to: one head large or all heads small, the weights of one token, what a selector kept, tiles
// that the mask empties, and sliders for what the layer's formula has learned.
//
//   saccade.attentionPanel(models)  returns {name, node, read(text)}
(function (saccade) {
  "use strict";
  const { element, ask } = saccade;
  const STATES = { e: 0, m: 0.5, f: 1 };
  const STATE_NAMES = { e: "left out: the mask allows nothing here", m: "partly allowed", f: "allowed as a whole" };

  function select(label, options, change) {
    const node = element("select", { "aria-label": label }, ...options.map(([value, name]) => element("option", { value }, name)));
    node.addEventListener("change", change);
    return node;
  }

  saccade.attentionPanel = function (models) {
    const names = Object.keys(models);
    let text = "", answer = null, row = Infinity, values = null, map = null, sliders = null, curve = null, place = null;
    const problem = element("p", { class: "problem", role: "alert" });
    const model = select("Model", names.map((name) => [name, models[name].name]), () => { fillLayers(); restart(); });
    const layer = select("Layer", [], () => { fillHeads(); restart(); });
    const head = select("Head", [], () => restart());
    const show = select("Shown", [["weights", "weights"]], () => draw());
    const colours = select("Colours", [["root", "square root"], ["linear", "linear"], ["log", "logarithm"]], () => draw());
    const large = element("div"), multiples = element("div", { class: "multiples" });
    const side = element("div"), strongest = element("div"), learned = element("div");
    const row_title = element("h3", {}, "One token");
    const tokens = saccade.tokenRow((index) => { row = index; askRow(); });
    side.append(row_title, tokens.node, strongest, learned);
    const node = element("div", {},
      element("div", { class: "controls" },
        ...(names.length > 1 ? [saccade.named("model", model)] : []),
        saccade.named("layer", layer), saccade.named("head", head), saccade.named("show", show), saccade.named("colours", colours)),
      problem, element("div", { class: "columns" }, element("div", {}, large, multiples), side));

    const described = () => models[model.value];
    const chosenHead = () => (head.value === "all" ? null : Number(head.value));
    const question = () => ({ text, model: model.value, layer: Number(layer.value), head: chosenHead(), values });

    function fillLayers() {
      const before = layer.value;
      layer.replaceChildren(...described().layers.map((each, index) => element("option", { value: index }, index + " (" + each.formula + ")")));
      if (before && Number(before) < layer.options.length) layer.value = before;
      fillHeads();
    }
    function fillHeads() {
      const before = head.value;
      head.replaceChildren(element("option", { value: "all" }, "all"), ...Array.from({ length: described().heads }, (_, index) => element("option", { value: index }, String(index))));
      head.value = before && [...head.options].some((each) => each.value === before) ? before : "0";
    }

    const askAll = saccade.latest(async () => {
      if (!text) return;
      node.setAttribute("aria-busy", "true");
      try {
        answer = await ask("attention", question());
        problem.textContent = "";
        const kept = answer.heads.some((each) => each.kept);
        show.replaceChildren(...[["weights", "weights"], ...(kept ? [["kept", "pairs that the selector kept"]] : []), ["tiles", "tiles that the mask empties"]]
          .map(([value, name]) => element("option", { value, selected: value === show.value }, name)));
        row = Math.min(row, answer.tokens.length - 1);
        draw();
        askRow();
      } catch (error) {
        problem.textContent = error.message;
      }
      node.removeAttribute("aria-busy");
    });

    const askRow = saccade.latest(async () => {
      if (!answer) return;
      if (chosenHead() === null) {
        row_title.textContent = "The text";
        tokens.show(answer.tokens, row, null);
        strongest.replaceChildren(element("p", { class: "soft" }, "Choose a head to see what one token looks at."));
        return;
      }
      try {
        const wanted = row, exact = saccade.floats((await ask("row", { ...question(), row: wanted })).weights);
        const most = exact.reduce((best, value) => Math.max(best, Math.abs(value)), 1e-12);
        row_title.textContent = "What token " + wanted + " " + saccade.visible(answer.tokens[wanted]) + " looks at";
        tokens.show(answer.tokens, wanted, Array.from(exact, (value) => value / most));
        const best = Array.from(exact.keys()).sort((a, b) => Math.abs(exact[b]) - Math.abs(exact[a])).slice(0, 8);
        strongest.replaceChildren(saccade.numbersTable(["key", "weight"],
          best.map((key) => [key + " " + saccade.visible(answer.tokens[key]), saccade.formatExact(exact[key])]), "Strongest keys"));
      } catch (error) {
        problem.textContent = error.message;
      }
    });

    // Names along the axes only while each cell is one token.
    function spec(each) {
      const cell = answer.cell, one = cell === 1;
      const bare = (token) => token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ | $/g, "·");
      const span = (index) => (one ? index + " " + saccade.visible(answer.tokens[index])
        : index * cell + "–" + (Math.min(answer.tokens.length, (index + 1) * cell) - 1));
      if (show.value === "tiles") {
        const { rows, columns, states, side: width } = answer.tiles;
        return {
          title: "Tiles of layer " + answer.layer, rows, columns, low: 0, high: 1, x_label: "key", y_label: "query", largest_cell: 20,
          values: Float32Array.from(states, (state) => STATES[state]), value_label: "0 empty, 0.5 mixed, 1 full",
          describe: (down, across) => "queries from " + down * width + ", keys from " + across * width + ", " + STATE_NAMES[states[down * columns + across]],
        };
      }
      const kept = show.value === "kept";
      return {
        title: (kept ? "Pairs kept" : "Attention") + " of layer " + answer.layer + ", head " + each.head,
        values: saccade.floats(kept ? each.kept ?? each.weights : each.weights), rows: answer.rows, columns: answer.columns,
        signed: !kept && answer.negative, scale: kept ? "linear" : colours.value, low: kept ? 0 : undefined, high: kept ? 1 : undefined,
        x_label: "key", y_label: "query", largest_cell: 26, value_label: kept ? "share kept" : one ? "weight" : "largest weight of " + cell + " x " + cell,
        row_names: one ? answer.tokens.map(bare) : undefined, column_names: one ? answer.tokens.map(bare) : undefined,
        describe: (down, across) => "query " + span(down) + " looks at key " + span(across),
        on_look: (down) => { if (one && down !== row) { row = down; askRow(); } },
      };
    }

    function draw() {
      if (!answer) return;
      const all = chosenHead() === null && show.value !== "tiles";
      large.hidden = all;
      multiples.hidden = !all;
      if (all) {
        multiples.replaceChildren(...answer.heads.map((each) => {
          const canvas = element("canvas", { "aria-hidden": "true" });
          const button = element("button", { type: "button", onclick: () => { head.value = String(each.head); restart(); } }, canvas, "head " + each.head);
          queueMicrotask(() => saccade.thumbnail(canvas, spec(each)));
          return button;
        }));
        return;
      }
      const wanted = spec(answer.heads[0]);
      if (map) map.update(wanted);
      else map = saccade.heatMap(large, wanted);
    }

    // The layer's formula by itself: its weights by distance, with the values of the sliders.
    const askCurve = saccade.latest(async () => {
      const here = described().layers[Number(layer.value)], chosen = chosenHead(), asked = place;
      const learnt = values ?? Object.fromEntries(here.learned.map((each) => [each.name, each.values]));
      const shown = await ask("formula", { formula: here.text, values: learnt, tokens: 128, heads: Math.min(16, described().heads) }).catch(() => null);
      if (asked !== place) return;  // another layer or head was chosen meanwhile, and asks for itself
      if (!shown?.curves) return place.replaceChildren(element("p", { class: "soft" }, shown?.note || "This formula has no curve to show."));
      const numbers = saccade.floats(shown.curves);
      const series = Array.from({ length: shown.heads }, (_, index) => index).filter((index) => chosen === null || index === chosen).map((index) => ({
        name: "head " + index, x: Array.from({ length: shown.tokens }, (_, at) => at),
        y: Array.from(numbers.subarray(index * shown.tokens, (index + 1) * shown.tokens)),
      }));
      const wanted = { title: "Weight by distance without content", x_label: "distance", y_label: "weight", series, ordered: true, height: 220 };
      if (curve) curve.update(wanted);
      else curve = saccade.lineChart(place, wanted);
    });

    function drawLearned() {
      const here = described().layers[Number(layer.value)];
      learned.replaceChildren();
      curve?.destroy();
      curve = null;
      if (!here.learned.length) return;
      place = element("div", { class: "plot" });
      const heads = described().heads;
      const moved = (next) => { values = next; askAll(); if (heads <= 16) askCurve(); };
      sliders = saccade.sliders(here.learned, chosenHead(), moved);
      const reset = element("button", { type: "button", onclick: () => restart() }, "Back to what was learned");
      learned.append(element("h3", {}, "What " + here.formula + " has learned in this layer"), sliders.node,
        ...(sliders.count ? [element("div", { class: "controls" }, reset)] : [element("p", { class: "soft" }, "Its parameters are tables without one value per head.")]),
        element("h3", {}, "Its weight by distance, for tokens without content"), place);
      if (heads <= 16) askCurve();
    }

    function restart() {
      values = null;
      drawLearned();
      askAll();
    }
    saccade.onTheme(() => draw());
    fillLayers();
    drawLearned();
    return { name: "Attention", node, read(next) { text = next; askAll(); } };
  };
})((globalThis.saccade ??= {}));
