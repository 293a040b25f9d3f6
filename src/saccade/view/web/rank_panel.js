// How different the tokens still are, layer by layer.
//
//   saccade.rankPanel(models)  returns {name, node, read(text)}
(function (saccade) {
  "use strict";
  const { element, ask } = saccade;
  const MEASURES = [
    ["effective_rank", "effective rank", "How many directions the tokens use"],
    ["stable_rank", "stable rank", "1 when one direction has it all"],
    ["cosine", "cosine", "Of two tokens, mean over all pairs; 1 when all point the same way"],
    ["token_norm", "length", "Of a token's vector, on average"],
  ];

  saccade.rankPanel = function (models) {
    const names = Object.keys(models);
    let text = "", answer = null, chart = null;
    const problem = element("p", { class: "problem", role: "alert" });
    const measure = element("select", { "aria-label": "Measure" }, ...MEASURES.map(([value, name]) => element("option", { value }, name)));
    const explanation = element("p", { class: "soft" }), place = element("div");
    const node = element("div", {}, element("div", { class: "controls" }, saccade.named("measure", measure)), problem, explanation, place);

    function draw() {
      if (!answer) return;
      const [key, name, what] = MEASURES.find(([value]) => value === measure.value);
      explanation.textContent = what + ".";
      const spec = {
        title: name + " through the layers", x_label: "after", y_label: name, x_names: answer.baseline.map((each) => each.after),
        series: names.map((each) => ({ name: models[each].name, x: answer[each].map((_, index) => index), y: answer[each].map((one) => one[key]), markers: true })),
      };
      if (chart) chart.update(spec);
      else chart = saccade.lineChart(place, spec);
    }
    measure.addEventListener("change", draw);
    const look = saccade.latest(async () => {
      if (!text) return;
      node.setAttribute("aria-busy", "true");
      try {
        answer = await ask("rank", { text });
        problem.textContent = "";
        draw();
      } catch (error) {
        problem.textContent = error.message;
      }
      node.removeAttribute("aria-busy");
    });
    return { name: "Rank", node, read(next) { text = next; look(); } };
  };
})((globalThis.saccade ??= {}));
