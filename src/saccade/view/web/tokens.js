// The tokens of a text in a row, to look at and to choose from.
//
//   const row = saccade.tokenRow(choose)      choose(index) is called when one is chosen
//   row.node                                  where they are
//   row.show(tokens, chosen, shares, signed)  shares (may be null): how strongly each is shaded, from -1 to 1
//   saccade.visible(token)                    with its blanks and ends of lines made visible
(function (saccade) {
  "use strict";
  const { element } = saccade;
  saccade.visible = (token) => "“" + token.replace(/\n/g, "⏎").replace(/\t/g, "⇥") + "”";

  saccade.tokenRow = function (choose) {
    const node = element("div", { class: "tokens", role: "group", "aria-label": "Tokens of the text" });
    node.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = step > 0 ? document.activeElement.nextElementSibling : document.activeElement.previousElementSibling;
      if (!next) return;
      event.preventDefault();
      next.focus();
      next.click();
    });
    function show(tokens, chosen, shares) {
      node.replaceChildren(...tokens.map((token, index) => {
        const share = shares ? shares[index] : 0;
        const colour = share < 0 ? "var(--series-0)" : "var(--series-1)";
        const style = share ? "background: color-mix(in srgb, " + colour + " " + Math.round(55 * Math.min(1, Math.abs(share))) + "%, transparent)" : null;
        return element("button", {
          type: "button", style, tabindex: index === chosen ? "0" : "-1", "aria-current": index === chosen ? "true" : null,
          "aria-label": "token " + index + " " + saccade.visible(token), onclick: () => choose(index),
        }, token.replace(/\n/g, "⏎\n"));
      }));
    }
    return { node, show };
  };
})((globalThis.saccade ??= {}));
