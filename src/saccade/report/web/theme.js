// Light or dark: follows the reader's system until the reader chooses.
//
//   saccade.colour("--text")           what a colour of theme.css is at the moment, as rgb(...) for a canvas
//   saccade.onTheme(redraw)            calls redraw whenever colours change, and around printing; returns a function
//                                      that ends it
//   saccade.themeSwitch(element)       makes element a choice of auto, light and dark
(function (saccade) {
  "use strict";
  const root = document.documentElement;
  const listeners = new Set();
  const probe = document.createElement("span");
  probe.hidden = true;

  saccade.colour = function (name) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = "var(" + name + ")";
    return getComputedStyle(probe).color;
  };

  saccade.onTheme = function (redraw) {
    listeners.add(redraw);
    return () => listeners.delete(redraw);
  };
  const tell = () => listeners.forEach((redraw) => redraw());

  // A browser may keep nothing for a page that was opened as a file.
  const remembered = {
    get() { try { return localStorage.getItem("saccade-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("saccade-theme", value); } catch { /* then not */ } },
  };

  let chosen = "auto";
  function apply(theme) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    tell();
  }

  saccade.themeSwitch = function (element) {
    element.setAttribute("role", "radiogroup");
    element.setAttribute("aria-label", "Colours");
    element.classList.add("theme-switch");
    const names = ["auto", "light", "dark"];
    const buttons = names.map((name) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("role", "radio");
      button.textContent = name[0].toUpperCase() + name.slice(1);
      button.addEventListener("click", () => choose(name));
      element.append(button);
      return button;
    });
    function choose(name) {
      chosen = name;
      remembered.set(name);
      buttons.forEach((button, index) => {
        button.setAttribute("aria-checked", String(names[index] === name));
        button.tabIndex = names[index] === name ? 0 : -1;
      });
      apply(name);
    }
    element.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (names.indexOf(chosen) + step + names.length) % names.length;
      choose(names[next]);
      buttons[next].focus();
    });
    choose(names.includes(remembered.get()) ? remembered.get() : "auto");
  };

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  // Paper is white; a canvas does not change by itself.
  addEventListener("beforeprint", () => apply("light"));
  addEventListener("afterprint", () => apply(chosen));
})((globalThis.saccade ??= {}));
