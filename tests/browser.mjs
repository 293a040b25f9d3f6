// What tests of pages share: a headless Chromium in which everything that goes wrong is a failed check, and the checks.
//
// SACCADE_NPM is the folder that scripts/setup fills, SACCADE_BROWSER the browser; with SACCADE_SCREENSHOTS=folder,
// pictures are kept.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const require = createRequire(path.join(process.env.SACCADE_NPM, "node_modules", "x.js"));
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

let failures = 0, checks = 0;
export function check(holds, what) {
  ++checks;
  if (holds) return;
  ++failures;
  console.log("FAILED: " + what);
}
export const equal = (found, expected, what) => check(JSON.stringify(found) === JSON.stringify(expected), `${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
export const near = (found, expected, what, share = 1e-9) => check(Math.abs(found - expected) <= share * Math.max(1, Math.abs(expected)), `${what}: found ${found}, expected ${expected}`);

export const launch = () => chromium.launch({ executablePath: process.env.SACCADE_BROWSER, args: ["--no-sandbox"] });

// A page in which every message, request and error is watched; `allowed(url)` says what it may ask for.
export async function watched(browser, address, options, allowed) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.on("console", (message) => check(message.type() !== "error" && message.type() !== "warning", "console: " + message.text()));
  page.on("pageerror", (error) => check(false, "error in the page: " + error.stack));
  page.on("request", (request) => check(allowed(request.url()), "request of " + request.url().slice(0, 200)));
  await page.goto(address);
  return page;
}

// No finding of axe-core that is serious or critical.
export async function accessible(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => each.id + ": " + each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + " " + node.failureSummary).join(" | ")));
  for (const violation of found) check(false, `${name}: ${violation}`);
  check(true, name);
}

export async function picture(page, name) {
  const folder = process.env.SACCADE_SCREENSHOTS;
  if (folder) await page.screenshot({ path: path.join(folder, name + ".png"), fullPage: true });
}

// Says how many checks there were and ends the process.
export function finish() {
  console.log(`${checks} checks, ${failures} failed`);
  process.exit(failures ? 1 : 0);
}
