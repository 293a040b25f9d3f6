// Write a formula and see at once what is wrong with it, or what it does.
//
//   saccade.formulaPanel(mechanisms)  returns {name, node, start()}
(function (saccade) {
  "use strict";
  const { element, ask } = saccade;

  saccade.formulaPanel = function (mechanisms) {
    let values = null, answer = null, map = null, curve = null, known = "";
    const shipped = element("select", { id: "shipped" }, ...mechanisms.map((each, index) => element("option", { value: index }, each.name)));
    const formula = element("textarea", { class: "code", rows: "9", spellcheck: "false", id: "formula", "aria-describedby": "formula-problem" });
    const problem = element("pre", { class: "problem", id: "formula-problem", role: "alert" });
    const summary = element("p", { class: "soft" });
    const number = (id, value, low, high) => element("input", { type: "number", id, value, min: low, max: high });
    const tokens = number("formula-tokens", 64, 2, 256), heads = number("formula-heads", 4, 1, 16);
    const content = element("select", { "aria-label": "Content" }, element("option", { value: "without_content" }, "without content"), element("option", { value: "random" }, "on random tokens"));
    const head = element("select", { "aria-label": "Head" });
    const large = element("div"), note = element("p", { class: "soft" }), sliders = element("div"), curves = element("div");
    const byDistance = element("div", {}, element("h3", {}, "Weight by distance, without content"), curves);
    const explanation = element("pre");
    const shown = element("div", {},
      element("div", { class: "controls" }, saccade.named("weights", content), saccade.named("head", head),
        element("span", { class: "named" }, element("label", { for: "formula-tokens" }, "tokens"), tokens),
        element("span", { class: "named" }, element("label", { for: "formula-heads" }, "heads"), heads)),
      note, element("div", { class: "columns" }, large, element("div", {}, sliders, byDistance)), element("h3", {}, "What it computes"), explanation);
    const node = element("div", {},
      element("div", { class: "controls" }, element("label", { for: "shipped" }, "start from"), shipped),
      element("label", { for: "formula" }, "Formula"), formula, problem, summary, shown);

    function draw() {
      if (!answer?.maps) return;
      const n = answer.tokens, chosen = Math.min(Number(head.value || 0), answer.heads - 1);
      const wanted = {
        title: "Weights of head " + chosen, values: saccade.floats(answer.maps[content.value]).subarray(chosen * n * n, (chosen + 1) * n * n),
        rows: n, columns: n, signed: answer.maps.signed, x_label: "key", y_label: "query", value_label: "weight", largest_cell: 16, scale: "root",
      };
      const holes = wanted.values.reduce((count, value) => count + !Number.isFinite(value), 0);
      note.textContent = holes ? `${holes} of ${n * n} weights of this head are not finite numbers and have no colour; \`saccade check\` finds the smallest case of it.` : "";
      note.hidden = !holes;
      if (map) map.update(wanted);
      else map = saccade.heatMap(large, wanted);
      const numbers = saccade.floats(answer.curves);
      const spec = {
        title: "Weight by distance, without content", x_label: "distance", y_label: "weight", ordered: true, height: 220,
        series: Array.from({ length: answer.heads }, (_, index) => ({
          name: "head " + index, x: Array.from({ length: n }, (__, at) => at), y: Array.from(numbers.subarray(index * n, (index + 1) * n)),
        })),
      };
      if (curve) curve.update(spec);
      else curve = saccade.lineChart(curves, spec);
    }

    // Sliders are made anew only for other parameters or fresh values: one that is being moved must stay.
    function drawSliders() {
      const signature = JSON.stringify([formula.value, heads.value]);
      if (signature === known) return;
      known = signature;
      const made = saccade.sliders(answer.parameters, null, (next) => { values = next; look(); });
      sliders.replaceChildren(...(made.count ? [element("h3", {}, "Parameters"), made.node] : []));
    }

    const look = saccade.latest(async () => {
      node.setAttribute("aria-busy", "true");
      try {
        answer = await ask("formula", { formula: formula.value, values, tokens: Number(tokens.value) || 64, heads: Number(heads.value) || 4 });
      } catch (error) {
        answer = { errors: [], text: error.message };
      }
      node.removeAttribute("aria-busy");
      problem.hidden = !answer.errors;
      shown.hidden = Boolean(answer.errors);
      formula.setAttribute("aria-invalid", String(Boolean(answer.errors)));
      problem.textContent = answer.text ?? "";
      summary.textContent = answer.summary ?? "";
      if (answer.errors) return;
      explanation.textContent = answer.explain;
      note.textContent = answer.note;
      note.hidden = !answer.note;
      large.hidden = byDistance.hidden = !answer.maps;
      if (head.options.length !== answer.heads)
        head.replaceChildren(...Array.from({ length: answer.heads }, (_, index) => element("option", { value: index }, String(index))));
      drawSliders();
      draw();
    });

    function load() {
      const chosen = mechanisms[Number(shipped.value)];
      formula.value = chosen.text;
      typed();
    }
    const typed = () => { values = null; known = ""; look(); };
    shipped.addEventListener("change", load);
    formula.addEventListener("input", typed);
    heads.addEventListener("change", typed);
    tokens.addEventListener("change", look);
    content.addEventListener("change", draw);
    head.addEventListener("change", draw);
    return {
      name: "Formula", node,
      start() {
        const prior = mechanisms.findIndex((each) => each.name === "prior");
        shipped.value = String(Math.max(0, prior));
        load();
      },
    };
  };
})((globalThis.saccade ??= {}));
