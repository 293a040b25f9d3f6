// node view_page.mjs ADDRESS: the viewer as a person uses it, in headless Chromium: every tab, at two widths and in both
// themes, and what is shown held to what the program answers.
import { accessible, check, equal, finish, launch, near, picture, watched } from "./browser.mjs";

const [, , address] = process.argv;
const browser = await launch();

const ask = (page, name, question) => page.evaluate(([what, about]) => saccade.ask(what, about), [name, question]);
const settled = (page) => page.waitForFunction(() => !document.querySelector("[aria-busy]"));
const tab = (page, name) => page.getByRole("tab", { name, exact: true }).click();
const inside = (page) => page.locator("[role=tabpanel]:not([hidden])");
const readout = (page) => page.locator("[role=tabpanel]:not([hidden]) .readout").first();

async function everything_is_shown(page, name) {
  for (const each of ["Attention", "Next token", "Rank", "Formula"]) {
    await tab(page, each);
    const panel = inside(page);
    await panel.locator("canvas, table").first().waitFor();
    await settled(page);
    await page.waitForTimeout(150);
    equal(await page.evaluate(() => document.documentElement.scrollWidth), page.viewportSize().width, `${name}, ${each}: nothing is wider than the page`);
    equal(await panel.locator(".problem:not([hidden])").evaluateAll((nodes) => nodes.map((node) => node.textContent).join("")), "", `${name}, ${each}: no problem is reported`);
    await accessible(page, `${name}, ${each}`);
    await picture(page, `view-${name}-${each.replace(" ", "_")}`);
  }
}

async function weights_are_those_of_the_program(page) {
  await tab(page, "Attention");
  await inside(page).getByLabel("Layer", { exact: true }).selectOption("1");
  await inside(page).getByLabel("Head", { exact: true }).selectOption("2");
  await settled(page);
  const text = await page.locator("#text").inputValue();
  const answer = await ask(page, "attention", { text, model: "baseline", layer: 1, head: 2 });
  const weights = await page.evaluate((base64) => [...saccade.floats(base64)], answer.heads[0].weights);
  const n = answer.tokens.length, canvas = page.locator("canvas.heat").first();
  await canvas.focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  const told = await readout(page).textContent();
  const [, query, key] = /query (\d+) .* looks at key (\d+) /.exec(told) ?? [];
  check(query !== undefined, "the read-out names a pair: " + told);
  const shown = await page.evaluate((value) => saccade.formatExact(value), weights[Number(query) * n + Number(key)]);
  check(told.endsWith(": " + shown), `the weight of query ${query} and key ${key} is ${shown}: ${told}`);
  // The list of a token's strongest keys.
  const row = weights.slice(Number(query) * n, (Number(query) + 1) * n), best = Math.max(...row);
  await page.waitForFunction((number) => document.querySelector("[role=tabpanel]:not([hidden]) h3").textContent.includes("token " + number + " "), query);
  const first = await page.locator("[role=tabpanel]:not([hidden]) tbody td.number").first().textContent();
  equal(first, await page.evaluate((value) => saccade.formatExact(value), best), "the strongest weight comes first");
}

async function all_heads_are_small_pictures(page) {
  await inside(page).getByLabel("Head", { exact: true }).selectOption("all");
  await page.locator(".multiples button").first().waitFor();
  const described = await ask(page, "describe", {});
  equal(await page.locator(".multiples button").count(), described.models.baseline.heads, "a picture for each head");
  await page.waitForFunction((count) => document.querySelectorAll("[role=tabpanel]:not([hidden]) .legend button").length === count, described.models.baseline.heads);
  await page.locator(".multiples button").nth(1).click();
  equal(await inside(page).getByLabel("Head", { exact: true }).inputValue(), "1", "a picture leads to its head");
  await page.locator("canvas.heat").first().waitFor();
}

async function sliders_recompute(page) {
  await settled(page);
  const pixels = () => page.locator("canvas.heat").first().evaluate((node) => node.toDataURL());
  const before = await pixels();
  const slider = page.locator(".slider input").first();
  await slider.focus();
  await page.keyboard.press("End");
  await page.waitForTimeout(100);
  await settled(page);
  await page.waitForFunction((old) => document.querySelector("canvas.heat").toDataURL() !== old, before);
  await inside(page).locator(".uplot").waitFor();
  await page.getByRole("button", { name: "Back to what was learned" }).click();
  await page.waitForFunction((old) => document.querySelector("canvas.heat").toDataURL() === old, before);
}

async function tiles_are_shown(page) {
  await inside(page).getByLabel("Shown", { exact: true }).selectOption("tiles");
  await page.locator("canvas.heat").first().focus();
  for (const key of ["ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  check((await readout(page).textContent()).includes("the mask allows nothing here"), "the tile right of the first is left out");
  await inside(page).getByLabel("Shown", { exact: true }).selectOption("weights");
}

async function predictions_are_those_of_the_program(page) {
  await tab(page, "Next token");
  const text = await page.locator("#text").inputValue();
  await page.locator("[role=tabpanel]:not([hidden]) tbody tr").first().waitFor();
  await page.locator("[role=tabpanel]:not([hidden]) .tokens button").nth(5).click();
  await page.waitForFunction(() => [...document.querySelectorAll("[role=tabpanel]:not([hidden]) h3")].some((each) => each.textContent.startsWith("After token 5 ")));
  const answer = await ask(page, "prediction", { text, position: 5 });
  const rows = await page.locator("[role=tabpanel]:not([hidden]) tbody tr.row").evaluateAll((nodes) => nodes.slice(0, 12).map((node) => [...node.children].map((cell) => cell.textContent)));
  for (const [index, each] of answer.next.entries()) {
    const share = (value) => page.evaluate((one) => saccade.format(one, "share"), value);
    equal(rows[index], ["“" + each.token.replace(/\n/g, "⏎") + "”", await share(each.baseline), await share(each.candidate)], `row ${index} of the next tokens`);
  }
  const sum = await page.evaluate((value) => saccade.format(value), answer.mean_divergence);
  check((await page.locator("[role=tabpanel]:not([hidden])").textContent()).includes(`mean over the text ${sum} nats`), "the mean divergence");
}

async function text_that_is_typed_is_read(page) {
  await tab(page, "Attention");
  await page.locator("#text").fill("Ann gave <b>Ben</b> & \"Carl\" a key.");
  await page.waitForFunction(() => document.querySelector("[role=tabpanel]:not([hidden]) .tokens").textContent.includes("<b>Ben</b>"));
  equal(await page.locator(".tokens b").count(), 0, "text is shown as text");
  await page.locator("#text").fill("");
  await page.waitForTimeout(500);
  await page.locator("#text").fill("a ".repeat(3000));
  await page.waitForFunction(() => document.querySelector("[role=tabpanel]:not([hidden]) .problem").textContent.includes("tokens; at most"));
  await page.locator("#text").fill("Ann gave Ben a key.");
  await page.waitForFunction(() => document.querySelector("[role=tabpanel]:not([hidden]) .problem").textContent === "");
}

async function formulas_are_checked_while_typing(page) {
  await tab(page, "Formula");
  const formula = page.locator("#formula"), problem = page.locator("#formula-problem");
  await formula.fill("mask = causal\nscore = s - alpah * d");
  await problem.filter({ hasText: "^^^^^" }).waitFor();
  check((await problem.textContent()).includes("alpah"), "the error names what is wrong");
  check((await problem.textContent()).includes(":2:13"), "and where");
  await formula.fill("param alpha[head] = 1\nmask = causal\nscore = s - alpha * d");
  await problem.waitFor({ state: "hidden" });
  const panel = inside(page);
  check((await panel.locator("pre").last().textContent()).includes("s - alpha * d"), "it is explained");
  equal(await panel.locator(".slider").count(), 1, "its parameter has a slider");
  await panel.locator("canvas.heat").focus();
  await page.keyboard.press("ArrowRight");
  near(Number((await readout(page).textContent()).split(": ").at(-1)), 1, "the first token looks at itself");
  // A slider says what is shown: it stays for other numbers of tokens, and starts anew with a formula that is typed anew.
  const slider = panel.locator(".slider"), text = await formula.inputValue();
  await slider.locator("input").focus();
  await page.keyboard.press("End");
  await page.locator("#formula-tokens").fill("32");
  await page.keyboard.press("Tab");
  await settled(page);
  equal(await slider.locator("output").textContent(), "3", "a slider that was moved");
  await formula.fill(text + " x");
  await problem.waitFor();
  await formula.fill(text);
  await problem.waitFor({ state: "hidden" });
  equal(await slider.locator("output").textContent(), "1", "a slider of a formula that was typed anew");
  await formula.fill("mask = causal\nscore = s - log(d)");
  await panel.getByText("528 of 1024 weights of this head are not finite numbers").waitFor();
  await page.getByLabel("start from").selectOption({ label: "gpam" });
  await page.waitForFunction(() => document.querySelector("#formula").value.includes("weights"));
  await formula.fill("input bias[query, key]\nscore = s + bias[i, j]");
  await panel.getByText("needs the input 'bias'").waitFor();
}

try {
  for (const [width, height] of [[1280, 900], [390, 844]])
    for (const colorScheme of ["light", "dark"]) {
      const page = await watched(browser, address, { viewport: { width, height }, colorScheme }, (url) => url.startsWith(address) || url === "data:,");
      await page.getByRole("tab").first().waitFor();
      await everything_is_shown(page, `${width}-${colorScheme}`);
      await page.context().close();
    }
  // Refused questions are errors to the browser's console, so these are watched less closely.
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
  page.on("pageerror", (error) => check(false, "error in the page: " + error.stack));
  await page.goto(address);
  for (const test of [weights_are_those_of_the_program, all_heads_are_small_pictures, sliders_recompute, tiles_are_shown,
    predictions_are_those_of_the_program, text_that_is_typed_is_read, formulas_are_checked_while_typing])
    try {
      await test(page);
    } catch (error) {
      check(false, test.name + ": " + error.stack.slice(0, 1500));
    }
} finally {
  await browser.close();
}
finish();
