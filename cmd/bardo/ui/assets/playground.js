// The playground: sends a request to this gateway as any client does, and shows the answer as it is streamed. The key stays in its field. Answers are inserted as
// text.
const at = (id) => document.getElementById("try-" + id);
const form = document.getElementById("try");
const facts = ["cost", "model", "provider", "tokens", "cache", "attempts"];
let running = null; // aborts the request in flight
let latest = 0; // counts requests

function say(text, className = "") {
  at("state").textContent = text;
  at("state").className = "state " + className;
}

function headers() {
  const h = {};
  const key = at("key").value.trim();
  if (key) h.authorization = "Bearer " + key;
  return h;
}

const usd = (n) => "$" + n.toFixed(6).replace(/0{1,4}$/, "");

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// record links to a request's page once the viewer may see it. The record is written at the end of the answer, or shortly after.
async function record(id, run) {
  const name = encodeURIComponent(id);
  for (let ms = 50; ms < 5000; ms *= 2) {
    const answer = await fetch("/ui/playground/records/" + name, { redirect: "manual", cache: "no-store" }).catch(() => null);
    if (run !== latest) return;
    if (answer?.status === 200) {
      at("record").href = "/ui/requests/" + name;
      at("record").hidden = false;
    }
    if (answer?.status !== 204) return;
    await pause(ms);
  }
  if (run === latest) at("elsewhere").hidden = false;
}

// hold explains why nothing of an answer is shown yet: the gateway validates the whole answer against the subsystem's schema.
function hold() {
  const schema = at("subsystem").selectedOptions[0].dataset.schema;
  if (!schema) return;
  at("held").textContent = `Answers of this subsystem follow the schema ${schema}. The gateway shows nothing of one before the whole is valid.`;
  at("held").hidden = false;
}

// settle shows the summary that the gateway sends at the end of an answer.
function settle(end) {
  const values = {
    cost: usd(end.cost_usd), model: end.model, provider: end.provider, tokens: `${end.input_tokens} / ${end.output_tokens}`, cache: end.cache, attempts: end.attempts,
  };
  for (const name of facts) at("facts").querySelector(`[data-fact=${name}]`).textContent = values[name];
  at("facts").hidden = false;
}

// take handles one line of an answer's stream.
function take(line) {
  if (line.startsWith(": bardo ")) return settle(JSON.parse(line.slice(8)));
  if (!line.startsWith("data: ") || line === "data: [DONE]") return;
  const event = JSON.parse(line.slice(6));
  if (event.error) throw new Error(event.error.message);
  for (const { delta } of event.choices ?? []) {
    const thought = delta?.reasoning_content ?? delta?.reasoning;
    if (thought) {
      at("thoughts").hidden = false;
      at("reasoning").append(thought);
    }
    const text = delta?.content ?? delta?.refusal;
    if (text) {
      at("held").hidden = true;
      at("answer").append(text);
    }
    if (delta?.tool_calls) for (const c of delta.tool_calls) at("answer").append(c.function?.name ?? "", c.function?.arguments ?? "");
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const all = (rest + value).split("\n");
    rest = all.pop();
    yield* all;
  }
  if (rest) yield rest;
}

// request returns the request's body, from the form.
function request() {
  const messages = [{ role: "user", content: at("message").value }];
  if (at("system").value.trim()) messages.unshift({ role: "system", content: at("system").value });
  const r = { model: at("model").value.trim(), messages, stream: true };
  if (at("most").value) r.max_tokens = Number(at("most").value);
  return JSON.stringify(r);
}

// problem returns the message of an error answer.
async function problem(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text || answer.statusText || "the gateway does not answer";
  }
}

// complete sends the request, and passes its id to onID.
async function complete(signal, onID) {
  const h = { ...headers(), "content-type": "application/json" };
  if (at("subsystem").value) h["x-bardo-subsystem"] = at("subsystem").value;
  const answer = await fetch("/v1/chat/completions", { method: "POST", headers: h, body: request(), signal, credentials: "omit", cache: "no-store" });
  onID(answer.headers.get("x-request-id"));
  if (!answer.ok) throw new Error(`${answer.status}: ${await problem(answer)}`);
  for await (const line of lines(answer.body)) take(line.replace(/\r$/, ""));
}

function clear() {
  for (const id of ["answer", "reasoning", "error"]) at(id).textContent = "";
  for (const id of ["error", "thoughts", "facts", "record", "elsewhere", "held"]) at(id).hidden = true;
  at("result").hidden = false;
}

async function send() {
  const began = performance.now();
  const run = ++latest;
  let id = "";
  running = new AbortController();
  clear();
  hold();
  say("Answering…", "on");
  at("send").disabled = true;
  at("stop").hidden = false;
  try {
    await complete(running.signal, (of) => (id = of));
    say(`Answered in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  } catch (e) {
    const stopped = running.signal.aborted;
    say(stopped ? "Stopped" : "Failed", stopped ? "" : "off");
    at("error").textContent = stopped ? "" : e.message;
    at("error").hidden = stopped;
  }
  running = null;
  at("held").hidden = true;
  at("send").disabled = false;
  at("stop").hidden = true;
  if (id) record(id, run);
}

// models lists the models that the key may use; none if it may not list them.
async function models() {
  let list = [];
  try {
    const answer = await fetch("/v1/models", { headers: headers(), credentials: "omit" });
    if (answer.ok) list = (await answer.json()).data;
  } catch {
    // a name can still be typed
  }
  at("models").replaceChildren(...["auto", ...list.map((m) => m.id)].map((id) => Object.assign(document.createElement("option"), { value: id })));
}

form.addEventListener("submit", (e) => {
  e.preventDefault();
  if (!running) send();
});
form.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit();
});
at("stop").addEventListener("click", () => running?.abort());
at("key").addEventListener("change", models);
at("model").addEventListener("focus", models, { once: true });
at("send").disabled = false;
