// node report_page.mjs report PAGE FOLDER | long PAGE: what a reader sees and can do, in headless Chromium. FOLDER holds the
// files that the page was made from; numbers of the page are held to theirs. Every check that fails is a line, and the
// exit code is then 1. With SACCADE_SCREENSHOTS=folder, pictures are kept.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { accessible, check, equal, finish, launch, near, picture, watched } from "./browser.mjs";

const [, , task, page_file, folder] = process.argv;
const address = pathToFileURL(page_file).href;
// Shown with five digits.
const close = (found, expected, what) => check(Math.abs(found - expected) <= 2e-5 * Math.abs(expected), `${what}: found ${found}, expected ${expected}`);
const read = (name) => JSON.parse(fs.readFileSync(path.join(folder, name), "utf8"));
const lines = (name) => fs.readFileSync(path.join(folder, name), "utf8").trim().split("\n").map((line) => JSON.parse(line));

const open = (browser, options) => watched(browser, address, options, (url) => url.split("#")[0] === address);

async function draw_all(page) {
  for (const figure of await page.$$("figure.plot")) {
    await figure.scrollIntoViewIfNeeded();
    await figure.waitForSelector(".chart", { timeout: 5000 });
  }
  await page.evaluate(() => scrollTo(0, 0));
}

// A figure by its caption, as a handle, and its spec and plot by evaluation.
async function figure_named(page, title, section = "") {
  const handle = await page.evaluateHandle(([wanted, within]) => {
    const all = [...document.querySelectorAll("figure.plot")];
    return all.find((each) => each.querySelector("figcaption b")?.textContent === wanted && each.closest("section").querySelector("h2").textContent.startsWith(within)) ?? null;
  }, [title, section]);
  const figure = handle.asElement();
  check(figure !== null, `there is a figure '${title}' in '${section}'`);
  if (figure) await figure.scrollIntoViewIfNeeded();
  return figure;
}
const spec_of = (figure) => figure.evaluate((node) => JSON.parse(node.querySelector("script").textContent));
const plot_state = (figure) => figure.evaluate((node) => {
  const { plot } = saccade.figures.find((each) => each.figure === node).drawn;
  const over = plot.over.getBoundingClientRect();
  return { data: plot.data.map((list) => [...list].map((value) => value ?? null)), shown: plot.series.map((each) => each.show), distr: plot.scales.y.distr, xDistr: plot.scales.x.distr,
    x: [plot.scales.x.min, plot.scales.x.max], y: [plot.scales.y.min, plot.scales.y.max], box: [over.left, over.top, over.width, over.height] };
});

async function nothing_came_from_text(page) {
  equal(await page.evaluate(() => window.hacked ?? null), null, "text that was a script");
  equal(await page.evaluate(() => document.querySelectorAll("img, iframe, object, link, script[src]").length), 0, "elements that were text");
  check((await page.title()).includes("</script><script>window.hacked=1</script>"), "the title is shown as it was given");
  check(await page.evaluate(() => document.querySelector("meta[http-equiv=Content-Security-Policy]").content.startsWith("default-src 'none'")), "a policy that allows nothing");
  check(await page.evaluate(() => { const script = document.createElement("script"); script.textContent = "window.injected = 1"; document.body.append(script); return window.injected === undefined; }) , "a script from elsewhere does not run");
}

async function losses_are_those_of_the_files(page) {
  const figure = await figure_named(page, "Training loss", "Comparison");
  const spec = await spec_of(figure), state = await plot_state(figure);
  equal(spec.series.map((each) => each.name), ["causal", "prior"], "names of the curves");
  equal([spec.x_label, spec.y_label], ["step", "loss per token (nats)"], "names of the axes");
  for (const [index, name] of ["causal", "prior"].entries()) {
    const [a, b] = [1, 2].map((seed) => lines(`comparison/${name}-${seed}/metrics.jsonl`));
    a.forEach((line, step) => {
      const mean = (line.loss + b[step].loss) / 2, deviation = Math.abs(line.loss - b[step].loss) / Math.SQRT2;
      near(spec.series[index].y[step], mean, `${name}, loss of step ${line.step}`);
      near(spec.series[index].high[step], mean + deviation, `${name}, upper edge at step ${line.step}`);
      near(state.data[1 + 3 * index][step], mean, `${name}, drawn loss of step ${line.step}`);
      near(spec.series[index].x[step], line.step, "step");
    });
  }
  equal(await figure.$$eval(".legend button span:nth-of-type(1)", (nodes) => nodes.map((node) => node.textContent)), ["causal", "prior"], "the legend");
  equal(await figure.$eval(".axis-name", (node) => node.textContent), "loss per token (nats)", "the name of y");
}

async function a_chart_can_be_touched(page) {
  const figure = await figure_named(page, "Training loss", "Comparison");
  const [left, top, width, height] = (await plot_state(figure)).box;
  await page.mouse.move(left + width / 2, top + height / 2);
  const shown = await figure.$$eval(".legend .value", (nodes) => nodes.map((node) => node.textContent));
  const spec = await spec_of(figure), text = await figure.$eval(".readout", (node) => node.textContent);
  const step = Number(/step (\d+)/.exec(text)?.[1]);
  check(step > 5 && step < 16, `the pointer reads a step in the middle: ${text}`);
  for (const [index, each] of spec.series.entries()) near(Number(shown[index]).toFixed(4), each.y[each.x.indexOf(step)].toFixed(4), "value under the pointer");

  const button = await figure.$(".legend button");
  await button.click();
  let state = await plot_state(figure);
  equal(state.shown.slice(1, 4), [false, false, false], "a line and its band are off");
  equal(await button.getAttribute("aria-pressed"), "false", "its button says so");
  await button.press("Enter");
  equal((await plot_state(figure)).shown.slice(1, 4), [true, true, true], "and on again by keyboard");

  const before = await plot_state(figure);
  await page.mouse.move(left + width * 0.3, top + height * 0.3);
  await page.mouse.down();
  await page.mouse.move(left + width * 0.6, top + height * 0.32, { steps: 4 });
  await page.mouse.up();
  state = await plot_state(figure);
  check(state.x[1] - state.x[0] < 0.5 * (before.x[1] - before.x[0]), `dragging zooms: ${state.x}`);
  await (await figure.$("text=Reset zoom")).click();
  equal((await plot_state(figure)).x, before.x, "and back");

  const canvas = await figure.$(".canvas");
  await canvas.focus();
  for (const key of ["Home", "ArrowRight"]) await page.keyboard.press(key);
  check((await figure.$eval(".readout", (node) => node.textContent)).startsWith("step 2:"), "arrow keys read values");
  await page.keyboard.press("+");
  state = await plot_state(figure);
  check(state.x[1] < before.x[1], "plus zooms");
  await page.keyboard.press("0");
  equal((await plot_state(figure)).x, before.x, "0 shows all");
  check((await canvas.getAttribute("aria-label")).includes("Line chart of loss per token (nats) against step. causal from"), "it can be read aloud");

  const log = await figure.$("text=log y");
  equal((await plot_state(figure)).distr, 1, "linear at first");
  await log.click();
  equal((await plot_state(figure)).distr, 3, "logarithmic by a click");
  await log.click();

  await (await figure.$("summary")).click();
  await figure.waitForSelector(".numbers tbody tr");  // filled when the browser says that it is open
  const rows = await figure.$$eval(".numbers tbody tr", (nodes) => nodes.map((node) => [...node.cells].map((cell) => cell.textContent)));
  equal(rows.length, spec.series[0].x.length, "as many numbers as points");
  near(Number(rows[3][1].split(" ")[0]).toFixed(4), spec.series[0].y[3].toFixed(4), "a number of the table");
}

async function benchmarks_are_those_of_the_file(page) {
  const bench = read("bench.json");
  for (const [title, member, unit] of [["Time against length", "seconds", "seconds"], ["Peak memory against length", "bytes", "bytes"]]) {
    const figure = await figure_named(page, title), spec = await spec_of(figure), state = await plot_state(figure);
    equal([spec.log_x, spec.log_y, spec.y_unit], [true, true, unit], "axes of " + title);
    equal([state.distr, state.xDistr], [3, 3], "drawn axes of " + title);
    for (const each of spec.series) {
      const rows = bench.rows.filter((row) => row.by === each.name && row.failure === null);
      equal(each.x, rows.map((row) => row.n), "lengths of " + each.name);
      equal(each.y, rows.map((row) => row[member]), member + " of " + each.name);
      equal(Boolean(each.muted), each.name !== "saccade", "rivals are grey: " + each.name);
    }
    check(spec.series.some((each) => each.name === "saccade"), "ours is there");
  }
  const figure = await figure_named(page, "Time against length");
  const ticks = await figure.evaluate((node) => saccade.figures.find((each) => each.figure === node).drawn.plot.axes[0]._splits);
  equal(ticks, [64, 128, 256], "lengths are labelled");
}

async function frontier_and_certificate_are_those_of_the_files(page) {
  const frontier = read("frontier/frontier.json"), figure = await figure_named(page, "KL to the dense model against density");
  const spec = await spec_of(figure);
  frontier.curves.forEach((curve, index) => {
    equal(spec.series[index].name, curve.name, "name of a selector");
    equal(spec.series[index].y, curve.points.map((point) => point.divergence), "divergences of " + index);
    equal(spec.series[index].x, curve.points.map((point) => point.density), "densities of " + index);
  });
  const certificate = read("certificate/certificate.json");
  const rows = await page.$$eval("section", (nodes) => {
    const section = nodes.find((node) => node.querySelector("h2").textContent.startsWith("Certificate"));
    return [...section.querySelector("table").querySelectorAll("tr.row")].map((row) => [...row.cells].map((cell) => cell.textContent));
  });
  equal(rows.length, certificate.criteria.length, "criteria");
  certificate.criteria.forEach((criterion, index) => {
    check(rows[index][0].endsWith(criterion.title), "title " + criterion.title);
    equal(rows[index][3], criterion.verdict, "verdict of " + criterion.title);
    equal(/^[✓✗]/.test(rows[index][0]), ["passed", "failed"].includes(criterion.verdict), "a mark for " + criterion.title);
  });
  const text = await page.$eval(".card.good, .card.bad", (node) => node.textContent);
  check(text.length > 0, "a card says how it went");
}

async function the_prior_is_drawn_by_its_parameters(page) {
  const diagnosis = read("diagnosis/diagnosis.json"), figure = await figure_named(page, "The learned prior by head", "Diagnosis");
  const spec = await spec_of(figure);
  equal(spec.choices.map((each) => each.name), ["layer 0", "layer 1"], "a choice of layers");
  diagnosis.layers.forEach((layer, index) => {
    const [alpha, beta] = ["alpha", "beta"].map((name) => layer.parameters.find((each) => each.name === name).values);
    spec.choices[index].spec.series.forEach((each, head) => near(each.y[10], -(Math.abs(alpha[head] * 10) ** beta[head]), `prior of layer ${index}, head ${head}`));
  });
  await figure.$eval("select", (node) => { node.value = "1"; node.dispatchEvent(new Event("change")); });
  const state = await plot_state(figure);
  near(state.data[1][10], spec.choices[1].spec.series[0].y[10], "the layer that was chosen is drawn");

  const ranks = await spec_of(await figure_named(page, "Rank by layer", "Diagnosis"));
  equal(ranks.choices[0].spec.series[0].y, diagnosis.ranks.map((each) => each.effective_rank), "ranks");
  const gradients = await spec_of(await figure_named(page, "Gradient norms by layer", "Diagnosis"));
  equal(gradients.series.find((each) => each.name === "query").y, diagnosis.layers.map((each) => each.gradients.query), "gradient norms");
}

// The numbers of a map of the fixture, unpacked.
function unpacked(map) {
  const bytes = Buffer.from(map.weights, "base64"), packed = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  const rows = [];
  for (let row = 0, from = 0; row < map.rows; from += ++row) rows.push([...packed.subarray(from, from + row + 1)]);
  return rows;
}

async function attention_maps_show_exact_values(page) {
  const capture = read("attention.json");
  const view = await page.$("figure[data-plot=attention]");
  await view.scrollIntoViewIfNeeded();
  const canvas = await view.$("canvas.heat");
  await canvas.focus();
  await page.keyboard.press("ArrowRight");
  for (let step = 0; step < 5; ++step) await page.keyboard.press("ArrowDown");
  for (let step = 0; step < 2; ++step) await page.keyboard.press("ArrowRight");
  const readout = () => view.$eval(".readout", (node) => node.textContent);
  const value = (text) => Number(text.split(": ").at(-1).replace("−", "-").replace(/·10(.*)$/, (_, power) => "e" + [...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹".includes(digit) ? "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(digit) : "-").join("")));
  let text = await readout();
  check(text.startsWith("query 5 “ word0” looks at key 2 “ harbour”"), "tokens are named: " + text);
  close(value(text), unpacked(capture.maps[0])[5][2], "a weight by keyboard");

  await view.$$eval(".thumbnails button", (buttons) => buttons[1].click());
  close(value(await readout()), unpacked(capture.maps[1])[5][2], "the same pair of another head");
  await (await view.$("select[aria-label=Layer]")).selectOption("1");
  text = await readout();
  close(value(text), unpacked(capture.maps[3])[5][2], "of another layer, with a sign");
  check((await view.$eval(".scale span", (node) => node.textContent)).startsWith("−"), "colours for both signs");
  for (const scale of ["linear", "log", "root"]) await (await view.$("select[aria-label=Colours]")).selectOption(scale);

  await (await view.$("select[aria-label=Layer]")).selectOption("0");
  await view.$$eval(".thumbnails button", (buttons) => buttons[0].click());
  await (await view.$("text=Blocks kept")).click();
  await canvas.focus();
  await page.keyboard.press("ArrowRight");
  text = await readout();
  check(/^queries 0–7, keys 0–3: (0|50 %|100 %)$/.test(text), "blocks of the mask: " + text);
  await (await view.$("text=Blocks kept")).click();

  const box = await canvas.boundingBox();
  const whole = await canvas.screenshot();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.4);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.6, { steps: 3 });
  await page.mouse.up();
  check(!whole.equals(await canvas.screenshot()), "dragging zooms");
  await (await view.$("text=Reset zoom")).click();
}

async function tables_sort(page) {
  const table = await page.evaluateHandle(() => [...document.querySelectorAll("section")].find((node) => node.querySelector("h2").textContent.startsWith("Speed")).querySelector("table.sortable"));
  const column = () => table.evaluate((node) => [...node.tBodies[0].rows].filter((row) => row.classList.contains("row")).map((row) => row.cells[2].textContent).map(Number));
  const head = await table.evaluateHandle((node) => node.tHead.rows[0].cells[2].querySelector("button"));
  await head.asElement().click();
  let values = await column();
  equal(values, [...values].sort((a, b) => a - b), "sorted by n");
  equal(await head.evaluate((node) => node.closest("th").getAttribute("aria-sort")), "ascending", "and said so");
  await head.asElement().press("Enter");
  values = await column();
  equal(values, [...values].sort((a, b) => b - a), "the other way round by keyboard");
  const time = await table.evaluateHandle((node) => node.tHead.rows[0].cells[4].querySelector("button"));
  await time.asElement().click();
  const texts = await table.evaluate((node) => [...node.tBodies[0].rows].filter((row) => row.classList.contains("row")).map((row) => row.cells[4].textContent));
  const seconds = texts.map((text) => parseFloat(text) * ({ ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1 })[text.split(" ")[1]]).filter((value) => !Number.isNaN(value));
  equal(seconds, [...seconds].sort((a, b) => a - b), "units are counted in: " + texts);
}

async function samples_are_side_by_side(page) {
  const samples = read("samples.json");
  const shown = await page.$$eval(".sample p", (nodes) => nodes.map((node) => node.textContent));
  equal(shown.length, 4, "two prompts, two models");
  samples.models[0].texts.forEach((text, index) => equal(shown[2 * index], text.prompt + text.text, "text " + index));
  samples.models[1].texts.forEach((text, index) => equal(shown[2 * index + 1], text.prompt + text.text, "other text " + index));
}

async function colours_follow_the_choice(page) {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.click("text=Dark");
  const dark = await background();
  await page.click("text=Light");
  const light = await background();
  equal([dark, light], ["rgb(18, 21, 26)", "rgb(255, 255, 255)"], "colours");
  await page.keyboard.press("ArrowRight");
  equal(await background(), dark, "by keyboard");
  await page.click("text=Auto");
}

async function it_can_be_printed(page) {
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)", "paper is white");
  equal(await page.evaluate(() => [...document.querySelectorAll(".controls, .contents")].every((node) => getComputedStyle(node).display === "none")), true, "no buttons on paper");
  await page.emulateMedia({ media: "screen", colorScheme: "light" });
}

const browser = await launch();
try {
  if (task === "long") {
    const page = await open(browser, { viewport: { width: 1280, height: 900 } });
    await draw_all(page);
    const view = await page.$("figure[data-plot=attention]");
    // The fastest of a few: other processes may take the machine away meanwhile.
    const [drawing, reading] = await page.evaluate(() => {
      const fastest = (works) => Math.min(...works.map((work) => {
        const start = performance.now();
        work();
        return performance.now() - start;
      }));
      const colours = document.querySelector("select[aria-label=Colours]"), canvas = document.querySelector("canvas.heat"), area = canvas.getBoundingClientRect();
      const draw = (scale) => () => { colours.value = scale; colours.dispatchEvent(new Event("change")); };
      const point = (step) => () => canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: area.left + 100 + 8 * step, clientY: area.top + 300 }));
      return [fastest(["log", "root", "linear"].map(draw)), fastest(Array.from({ length: 20 }, (_, step) => point(step)))];
    });
    check(drawing < 1500, `a map of 4096 x 4096 is drawn again within 1.5 s, not ${drawing} ms`);
    check(reading < 60, `a place is read within 60 ms, not ${reading} ms`);
    console.log(`drawn again in ${Math.round(drawing)} ms, read in ${reading.toFixed(1)} ms`);
    // One cell of 16 million: it must be seen, and read exactly.
    const canvas = await view.$("canvas.heat"), box = await canvas.boundingBox();
    const place = await canvas.evaluate((node) => {
      const context = node.getContext("2d"), { data } = context.getImageData(0, 0, node.width, node.height);
      let best = null, size = Infinity;
      for (let at = 0; at < data.length; at += 4) {
        const x = (at / 4) % node.width, y = Math.floor(at / 4 / node.width);
        if (x < node.width * 0.2 || y > node.height * 0.85 || x > node.width * 0.9) continue;
        const sum = data[at] + data[at + 1] + data[at + 2];
        if (data[at + 3] === 255 && sum < size) { size = sum; best = [x, y]; }
      }
      return best.map((each) => (each + 0.5) / devicePixelRatio);
    });
    await page.mouse.move(box.x + place[0], box.y + place[1]);
    const text = await view.$eval(".readout", (node) => node.textContent);
    equal(text, "query 3000 “t3000” looks at key 1234 “t1234”: 0.75", "the one strong weight");
    await picture(page, "long");
  } else {
    for (const [width, height] of [[1280, 900], [390, 844]])
      for (const colorScheme of ["light", "dark"]) {
        const name = `${width}-${colorScheme}`, page = await open(browser, { viewport: { width, height }, colorScheme });
        await draw_all(page);
        equal(await page.evaluate(() => [document.documentElement.scrollWidth, saccade.figures.length === document.querySelectorAll("figure.plot").length]), [width, true], name + ": nothing is wider than the page, all is drawn");
        equal(await page.$$eval("figure.plot", (nodes) => nodes.filter((node) => ![...node.querySelectorAll("[role=img]")].some((each) => each.getAttribute("aria-label")?.length > 20)).length), 0, name + ": every plot can be read aloud");
        await accessible(page, name);
        await picture(page, name);
        if (width === 1280 && colorScheme === "light") {
          await losses_are_those_of_the_files(page);
          await a_chart_can_be_touched(page);
          await benchmarks_are_those_of_the_file(page);
          await frontier_and_certificate_are_those_of_the_files(page);
          await the_prior_is_drawn_by_its_parameters(page);
          await attention_maps_show_exact_values(page);
          await tables_sort(page);
          await samples_are_side_by_side(page);
          await colours_follow_the_choice(page);
          await it_can_be_printed(page);
        }
        await page.context().close();
      }
    // By itself, since it makes the browser complain.
    const context = await browser.newContext(), page = await context.newPage();
    await page.goto(address);
    await nothing_came_from_text(page);
  }
} finally {
  await browser.close();
}
finish();
