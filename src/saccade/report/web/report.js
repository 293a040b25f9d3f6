// Brings a report to life: draws each figure from the numbers that stand in it, makes tables sortable, and lets the
// reader choose colours. A figure is
//   figure.plot[data-plot=lines|dots|heat|attention], with a JSON script element that holds what the maker takes,
// and with data-choice the numbers are {choices: [{name, spec}, ...]}, of which one is shown.
(function (saccade) {
  "use strict";
  const makers = { lines: saccade.lineChart, dots: saccade.dotChart, heat: saccade.heatMap, attention: saccade.attentionView };
  const contents = document.querySelector(".contents details");
  const wide = matchMedia("(min-width: 60.01rem)");
  const fold = () => { if (contents) contents.open = wide.matches; };
  wide.addEventListener("change", fold);
  fold();
  saccade.themeSwitch(document.querySelector("[data-theme-switch]"));
  document.querySelectorAll("table.sortable").forEach(saccade.sortable);

  saccade.figures = [];
  function mount(figure) {
    const spec = JSON.parse(figure.querySelector("script").textContent), make = makers[figure.dataset.plot];
    const place = saccade.element("div");
    figure.append(place);
    if (!figure.dataset.choice) {
      saccade.figures.push({ figure, spec, drawn: make(place, spec) });
      return;
    }
    const entry = { figure, spec, drawn: null };
    saccade.figures.push(entry);
    place.before(saccade.choice(figure.dataset.choice, spec.choices.map((each) => each.name), (index) => {
      entry.drawn?.destroy();
      entry.drawn = make(place, spec.choices[index].spec);
    }));
  }
  // What is far below is drawn when it comes near: a report may hold many large maps.
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      mount(target);
    }
  }, { rootMargin: "600px" });
  const waiting = document.querySelectorAll("figure.plot");
  waiting.forEach((figure) => watcher.observe(figure));
  addEventListener("beforeprint", () => waiting.forEach((figure) => {
    if (saccade.figures.some((each) => each.figure === figure)) return;
    watcher.unobserve(figure);
    mount(figure);
  }));
})((globalThis.saccade ??= {}));
