// What comes next: the likeliest tokens by each model, and how far apart the two are at every position.
//
//   saccade.predictionPanel(models)  returns {name, node, read(text)}
(function (saccade) {
  "use strict";
  const { element, ask } = saccade;

  saccade.predictionPanel = function (models) {
    const names = Object.keys(models), compared = names.length > 1;
    let text = "", position = null, chart = null;
    const problem = element("p", { class: "problem", role: "alert" });
    const title = element("h3"), table = element("div"), apart = element("div"), sum = element("p");
    const tokens = saccade.tokenRow((index) => { position = index; look(); });
    const node = element("div", {}, problem, element("p", { class: "soft" }, "Choose a token to see what each model expects after it."),
      tokens.node, title, sum, table,
      ...(compared ? [element("h3", {}, "How far apart the two are after each token")] : []), apart);

    const bar = (name, share, most) => element("span", {},
      element("span", { class: "bar " + name, style: "width: calc(" + share / most + " * var(--longest-bar))" }),
      element("span", { class: "share" }, saccade.format(share, "share")));

    const look = saccade.latest(async () => {
      if (!text) return;
      node.setAttribute("aria-busy", "true");
      try {
        const answer = await ask("prediction", { text, position });
        problem.textContent = "";
        const at = answer.position, most = Math.max(...answer.next.map((each) => Math.max(each.baseline, each.candidate ?? 0)));
        const divergence = answer.divergence;
        const strongest = divergence ? Math.max(...divergence, 1e-12) : 1;
        tokens.show(answer.tokens, at, divergence ? divergence.map((value) => value / strongest) : null);
        title.textContent = "After token " + at + " " + saccade.visible(answer.tokens[at]);
        sum.textContent = divergence ? "KL here " + saccade.format(divergence[at]) + ", mean over the text " + saccade.format(answer.mean_divergence) + " nats." : "";
        table.replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Likeliest tokens" },
          element("table", {},
            element("thead", {}, element("tr", {}, ...["token", ...names.map((name) => models[name].name)].map((each) => element("th", { scope: "col" }, each)))),
            element("tbody", {}, ...answer.next.map((each) => element("tr", { class: "row" },
              element("td", {}, element("span", { class: "token" }, saccade.visible(each.token))),
              ...names.map((name) => element("td", { class: "barred" }, bar(name, each[name], most)))))))));
        if (compared) {
          const spec = {
            title: "How far apart the two are after each token", x_label: "token", y_label: "KL, nats", height: 220,
            series: [{ name: "KL(baseline ‖ candidate)", x: divergence.map((_, index) => index), y: divergence }],
          };
          if (chart) chart.update(spec);
          else chart = saccade.lineChart(apart, spec);
        }
      } catch (error) {
        problem.textContent = error.message;
      }
      node.removeAttribute("aria-busy");
    });
    return { name: "Next token", node, read(next) { text = next; position = null; look(); } };
  };
})((globalThis.saccade ??= {}));
