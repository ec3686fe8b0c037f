// Does in Chromium what people do with the dashboard, and prints what it found as JSON. $TASKS says where, as whom and for what.
"use strict";

const { chromium } = require("playwright-core");
const { AxeBuilder } = require("@axe-core/playwright");
const sparticuz = require("@sparticuz/chromium");

const tasks = JSON.parse(process.env.TASKS);
const out = { Problems: [], Violations: [], Foreign: [] };

// page is a new page of a browser of its own. Whatever a page logs as an error, requests elsewhere, or violates of its policy, is a problem.
async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.on("pageerror", (e) => out.Problems.push("script: " + e.message));
  page.on("console", (m) => m.type() === "error" && !/status of 4\d\d/.test(m.text()) && out.Problems.push("console: " + m.text()));
  page.on("request", (r) => new URL(r.url()).origin !== tasks.Base && out.Foreign.push(r.url()));
  page.on("dialog", (d) => { out.Problems.push("dialog: " + d.message()); d.dismiss(); });
  return page;
}

async function logIn(page, secret) {
  await page.goto(tasks.Base + "/ui");
  await page.getByLabel("API key or operator's token").fill(secret);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: "Log out" }).waitFor();
}

async function accessible(page, name) {
  const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]).analyze();
  for (const v of found.violations) out.Violations.push(`${name}: ${v.id}: ${v.nodes.map((n) => n.html + " " + n.failureSummary).join(" | ")}`.slice(0, 800));
  await fits(page, name);
}

async function fits(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
  if (wide) out.Problems.push(name + " is wider than its window");
}

async function shot(page, name) {
  if (tasks.Shots) await page.screenshot({ path: `${tasks.Shots}/${name}.png`, animations: "disabled" });
}

const text = async (locator) => (await locator.innerText()).replace(/\s+/g, " ");

// why finds why a request cost what it cost: from the list to the one with the highest cost, to its price by line and its attempts.
async function why(page) {
  await page.getByRole("link", { name: "Requests", exact: true }).click();
  await page.getByLabel("Model").fill(tasks.Dear);
  await page.getByRole("button", { name: "Filter" }).click();
  await page.locator("table.requests tbody tr").first().getByRole("link").click();
  await page.getByRole("heading", { name: "Why it cost this" }).waitFor();
  out.Why = await text(page.locator("#cost"));
  out.Attempts = await text(page.locator("#attempts"));
  await shot(page, "request");
  await accessible(page, "a request");
}

// wrong removes the cached answer of a request, from the request's page.
async function wrong(page) {
  await page.goto(`${tasks.Base}/ui/requests/${tasks.Hit}`);
  await page.getByRole("button", { name: "Remove this cached answer" }).click();
  out.Removed = await text(page.getByRole("status"));
  await page.getByRole("link", { name: "Cache", exact: true }).click();
  await shot(page, "cache");
  await accessible(page, "caches");
}

// down sees which provider is down, takes another out, and puts it back.
async function down(page) {
  await page.getByRole("link", { name: "Providers", exact: true }).click();
  const row = (name) => page.locator("#providers tbody tr", { hasText: name });
  out.Down = await text(row(tasks.Down));
  await shot(page, "providers");
  await accessible(page, "providers");
  await page.getByRole("button", { name: "Disable " + tasks.Other }).click();
  await page.getByRole("button", { name: "Enable " + tasks.Other }).waitFor();
  out.Disabled = await text(row(tasks.Other));
  await page.getByRole("button", { name: "Enable " + tasks.Other }).click();
  await page.getByRole("button", { name: "Disable " + tasks.Other }).waitFor();
}

// keys makes a key by keyboard alone, logs in with it elsewhere, and revokes it, which ends that session.
async function keys(page, browser) {
  await page.getByRole("link", { name: "Keys", exact: true }).click();
  await page.locator("#new summary").focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Name").focus();
  await page.keyboard.type("made in a browser");
  await page.getByLabel("Limit per day, $").first().focus();
  await page.keyboard.type("2.50");
  await page.keyboard.press("Enter");
  out.Secret = await page.locator("#secret").innerText();
  await accessible(page, "a new key");
  const other = await open(browser);
  await logIn(other, out.Secret);
  await other.getByRole("link", { name: "Requests", exact: true }).click();
  out.New = await text(other.locator("main"));
  await page.getByRole("link", { name: "Keys", exact: true }).click();
  await shot(page, "keys");
  await accessible(page, "keys");
  const row = page.locator("#keys tbody tr", { hasText: "made in a browser" });
  await row.locator("summary").click();
  await row.getByRole("button", { name: "Revoke made in a browser" }).click();
  out.Revoked = await text(page.getByRole("status"));
  await other.reload();
  out.Ended = new URL(other.url()).pathname;
  await other.context().close();
}

// live waits for a request that is sent while the page is open.
async function live(page) {
  await page.getByRole("link", { name: "Live", exact: true }).click();
  await page.locator("#state.on").waitFor();
  await (await fetch(tasks.Base + "/v1/chat/completions", {
    method: "POST", headers: { authorization: "Bearer " + tasks.Key, "content-type": "application/json" },
    body: JSON.stringify({ model: tasks.Fast, messages: [{ role: "user", content: tasks.Marker }] }),
  })).text();
  const row = page.locator("#live tbody tr.new").first();
  await row.waitFor();
  out.Live = await text(row);
  await shot(page, "live");
  await accessible(page, "live");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
}

// play tries a request in the playground: what it cost is shown, and explained on its own page; one that hangs is shown as far as it came, and stopped; one of a
// subsystem with a schema says why nothing of it is shown yet; one with a wrong key says why it failed.
async function play(page) {
  const ask = async (key, model, subsystem = "operator") => {
    await page.getByRole("link", { name: "Playground", exact: true }).click();
    await page.getByLabel("API key").fill(key);
    await page.getByLabel("Model").fill(model);
    await page.getByLabel("Subsystem").selectOption(subsystem);
    await page.getByLabel("Message").fill(tasks.Marker);
    await page.getByRole("button", { name: "Send" }).click();
  };
  const state = page.getByRole("status");
  const answer = page.getByRole("region", { name: "Answer" });
  await ask("bardo_sk_none", tasks.Fast);
  await state.filter({ hasText: "Failed" }).waitFor();
  out.Refused = await text(page.getByRole("alert"));
  await ask(tasks.Key, tasks.Slow);
  await answer.filter({ hasText: "tok1" }).waitFor();
  out.Streams = await text(state);
  await page.getByRole("button", { name: "Stop" }).click();
  await state.filter({ hasText: "Stopped" }).waitFor();
  await ask(tasks.Key, tasks.Slow, "heartbeat_t1");
  out.Held = await text(page.locator("#try-held").filter({ visible: true }));
  await page.getByRole("button", { name: "Stop" }).click();
  await state.filter({ hasText: "Stopped" }).waitFor();
  await page.locator("#try-held").waitFor({ state: "hidden" });
  await ask(tasks.Key, tasks.Fast);
  await state.filter({ hasText: "Answered" }).waitFor();
  await page.locator(`#try-models option[value=${tasks.Slow}]`).waitFor({ state: "attached" });
  out.Models = await page.locator("#try-models option").evaluateAll((all) => all.map((o) => o.value).join(" "));
  out.Answer = await text(answer);
  out.Facts = await text(page.locator("#try-facts"));
  await page.getByLabel("Message").fill("What is a monad?");
  await shot(page, "playground");
  await accessible(page, "playground");
  await page.getByRole("link", { name: "Why it cost this" }).click();
  await page.getByRole("heading", { name: "Why it cost this" }).waitFor();
  out.Tried = await text(page.locator("main"));
}

// others are the pages that no task above looks at, and all of them in the dark and on a phone.
async function others(page, browser) {
  for (const [name, path] of [["overview", "/ui"], ["requests", "/ui/requests"], ["privacy", "/ui/privacy"], ["no page", "/ui/none"]]) {
    await page.goto(tasks.Base + path);
    await accessible(page, name);
    if (name !== "no page") await shot(page, name);
  }
  const dark = await open(browser, { colorScheme: "dark" });
  await dark.goto(tasks.Base + "/ui/login");
  await accessible(dark, "log in");
  await shot(dark, "login");
  await logIn(dark, tasks.Token);
  await shot(dark, "overview-dark");
  const pages = ["/ui", "/ui/playground", "/ui/live", "/ui/requests", "/ui/requests/" + tasks.Hit, "/ui/providers", "/ui/cache", "/ui/keys", "/ui/privacy"];
  await dark.setViewportSize({ width: 390, height: 844 });
  for (const path of pages) {
    await dark.goto(tasks.Base + path);
    await fits(dark, path + " on a phone");
    if (["/ui/requests/" + tasks.Hit, "/ui/keys", "/ui/playground"].includes(path)) await accessible(dark, path + " on a dark phone");
  }
  await dark.goto(`${tasks.Base}/ui/requests/${tasks.Hit}`);
  await shot(dark, "phone");
  await dark.context().close();
}

// hostile shows a request whose model was named by somebody who tries to put script into the page.
async function hostile(page) {
  await page.goto(tasks.Base + "/ui/requests?status=model_not_found");
  await page.goto(`${tasks.Base}/ui/requests/${tasks.Hostile}`);
  out.Hostile = await text(page.locator("main"));
}

(async () => {
  const browser = await chromium.launch({ executablePath: await sparticuz.default.executablePath(), args: ["--no-sandbox", "--no-zygote", "--disable-gpu", "--font-render-hinting=none"], headless: true });
  try {
    const page = await open(browser);
    page.setDefaultTimeout(20_000);
    await logIn(page, tasks.Token);
    for (const task of [why, wrong, down, keys, live, play, others, hostile]) {
      await task(page, browser).catch((e) => out.Problems.push(`${task.name}: ${e.message} at ${page.url()}`));
    }
  } finally {
    await browser.close();
  }
  process.stdout.write(JSON.stringify(out));
})().catch((e) => {
  process.stderr.write(String(e.stack));
  process.exit(1);
});
