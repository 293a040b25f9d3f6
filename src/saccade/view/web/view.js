// The page: asks what there is to see, makes a tab for each view, and hands the text to the one that is open.
(async function (saccade) {
  "use strict";
  const { element, ask } = saccade;
  const byId = (id) => document.getElementById(id);
  const TEXT = "The old clock in the harbour town had stopped in spring. When Marta came to repair the clock, she asked the mayor whether the clock was right.";
  saccade.themeSwitch(byId("theme"));

  let described;
  try {
    described = await ask("describe", {});
  } catch (error) {
    byId("panels").append(element("p", { class: "problem", role: "alert" }, error.message));
    return;
  }
  const models = described.models, names = Object.keys(models);
  byId("subject").textContent = names.map((name) => models[name].name).join(" beside ");
  const panels = [];
  if (names.length) {
    byId("reading").hidden = false;
    panels.push(saccade.attentionPanel(models));
    if (models.baseline.predicts) panels.push(saccade.predictionPanel(models));
    panels.push(saccade.rankPanel(models));
  }
  panels.push(saccade.formulaPanel(described.mechanisms));

  const text = byId("text");
  text.value = TEXT;
  let open = null;
  const tabs = panels.map((panel, index) => {
    const id = "panel-" + index;
    const tab = element("button", { type: "button", role: "tab", id: "tab-" + index, "aria-controls": id, onclick: () => choose(index) }, panel.name);
    const place = element("section", { role: "tabpanel", id, "aria-labelledby": "tab-" + index, hidden: true }, panel.node);
    byId("panels").append(place);
    return { tab, place, panel, read: null, started: false };
  });
  byId("tabs").append(...tabs.map((each) => each.tab));

  function refresh() {
    if (!open) return;
    if (open.panel.read && open.read !== text.value) {
      open.read = text.value;
      open.panel.read(text.value);
    }
    if (open.panel.start && !open.started) {
      open.started = true;
      open.panel.start();
    }
  }
  function choose(index) {
    open = tabs[index];
    for (const each of tabs) {
      each.tab.setAttribute("aria-selected", String(each === open));
      each.tab.tabIndex = each === open ? 0 : -1;
      each.place.hidden = each !== open;
    }
    byId("reading").hidden = !open.panel.read;
    refresh();
  }
  byId("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (tabs.indexOf(open) + step + tabs.length) % tabs.length;
    choose(next);
    tabs[next].tab.focus();
  });
  let pause = 0;
  text.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(refresh, 250);
  });
  choose(0);
})((globalThis.saccade ??= {}));
