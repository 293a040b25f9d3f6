// Questions to the program behind the page.
//
//   await saccade.ask("attention", {text: "...", layer: 0})   its answer; throws Error with what the program said
//   saccade.latest(work)     a function that runs work(...arguments) at once, but never twice at the same time:
//                            while one runs, only the newest call waits. For sliders and typing.
(function (saccade) {
  "use strict";
  saccade.ask = async function (name, question) {
    let response;
    try {
      response = await fetch(name, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(question),
      });
    } catch {
      throw new Error("The program does not answer; is `saccade view` still running?");
    }
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error ?? "The program refused (" + response.status + ")");
    return answer;
  };

  saccade.latest = function (work) {
    let running = false, waiting = null;
    async function go(args) {
      running = true;
      try {
        await work(...args);
      } finally {
        running = false;
        if (waiting) {
          const next = waiting;
          waiting = null;
          go(next);
        }
      }
    }
    return (...args) => {
      if (running) waiting = args;
      else go(args);
    };
  };
})((globalThis.saccade ??= {}));
