// Live updates: the rows and numbers of the live page, and copy buttons. The pages work without it.
"use strict";

const maxRows = 200;

function cell(row, text, className) {
  const td = row.insertCell();
  td.textContent = text;
  if (className) td.className = className;
  return td;
}

function badge(td, text, mood) {
  const span = document.createElement("span");
  span.className = "badge " + mood;
  span.textContent = text;
  td.replaceChildren(span);
}

function addRow(body, r) {
  const row = body.insertRow(0);
  row.className = "new";
  const link = document.createElement("a");
  link.href = "/ui/requests/" + encodeURIComponent(r.id);
  link.textContent = r.at.slice(11, 19);
  cell(row, "").append(link);
  badge(cell(row, ""), r.verdict, ["good", "warn", "bad"].includes(r.mood) ? r.mood : "info");
  cell(row, r.model || r.requested);
  cell(row, r.route);
  cell(row, r.key);
  const cache = cell(row, "");
  if (r.cache && r.cache !== "miss") badge(cache, r.cache, "info");
  cell(row, r.tokens, "n");
  cell(row, r.cost, "n");
  cell(row, r.took, "n");
  while (body.rows.length > maxRows) body.deleteRow(-1);
}

function put(id, text) {
  const e = document.getElementById(id);
  if (e && e.textContent !== String(text)) e.textContent = text;
}

function watch(state) {
  const body = document.querySelector("#live tbody");
  const pause = document.getElementById("pause");
  const seen = new Set([...body.querySelectorAll("a")].map((a) => a.getAttribute("href").split("/").pop()));
  let waiting = [];
  let paused = false;
  const say = (text, className) => {
    state.textContent = text;
    state.className = "state " + className;
  };
  const show = (r) => {
    if (seen.has(r.id)) return;
    seen.add(r.id);
    addRow(body, r);
    document.getElementById("none").hidden = true;
  };
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    say(paused ? "Paused" : "Live", paused ? "" : "on");
    if (paused) return;
    waiting.forEach(show);
    waiting = [];
  });
  const source = new EventSource(state.dataset.live);
  source.addEventListener("hello", () => say(paused ? "Paused" : "Live", paused ? "" : "on"));
  source.addEventListener("request", (e) => {
    const r = JSON.parse(e.data);
    if (!paused) show(r);
    else if (waiting.push(r) > maxRows) waiting.shift();
  });
  source.addEventListener("away", () => say("The books do not answer", "off"));
  source.addEventListener("stats", (e) => {
    const s = JSON.parse(e.data);
    put("s-requests", s.requests.toLocaleString("en").replaceAll(",", "\u202f"));
    put("s-cost", s.cost);
    put("s-saved", s.saved);
    put("s-live", s.live);
    put("s-down", s.down);
    if (!paused) say(s.lost ? `Live, ${s.lost} not shown` : "Live", "on");
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) say("Disconnected: reload the page", "off");
    else say("Reconnecting…", "off");
  });
}

function copyButton(button) {
  if (!navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

const state = document.querySelector("[data-live]");
if (state) watch(state);
document.querySelectorAll("[data-copy]").forEach(copyButton);
