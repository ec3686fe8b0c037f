// The playground: sends a request to this gateway as any client does, and shows the answer as it comes. The key stays in its field. Whatever comes is put into the
// page as text.
const at = (id) => document.getElementById("try-" + id);
const form = document.getElementById("try");
const facts = ["cost", "model", "provider", "tokens", "cache", "attempts"];
let running = null; // aborts the request under way
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

// record links to the page of a request, once there is one that the viewer may see. It is written when the answer has ended, or a little later.
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

// hold says why nothing of an answer is shown yet: the gateway checks the whole of it against the schema of the subsystem.
function hold() {
  const schema = at("subsystem").selectedOptions[0].dataset.schema;
  if (!schema) return;
  at("held").textContent = `Answers of this subsystem follow the schema ${schema}. The gateway shows nothing of one before the whole is valid.`;
  at("held").hidden = false;
}

// settle shows what the gateway says of a request when its answer has ended.
function settle(end) {
  const values = {
    cost: usd(end.cost_usd), model: end.model, provider: end.provider, tokens: `${end.input_tokens} / ${end.output_tokens}`, cache: end.cache, attempts: end.attempts,
  };
  for (const name of facts) at("facts").querySelector(`[data-fact=${name}]`).textContent = values[name];
  at("facts").hidden = false;
}

// take shows one line of an answer's stream.
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
    const said = delta?.content ?? delta?.refusal;
    if (said) {
      at("held").hidden = true;
      at("answer").append(said);
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

// request is the body of the request that the form describes.
function request() {
  const messages = [{ role: "user", content: at("message").value }];
  if (at("system").value.trim()) messages.unshift({ role: "system", content: at("system").value });
  const r = { model: at("model").value.trim(), messages, stream: true };
  if (at("most").value) r.max_tokens = Number(at("most").value);
  return JSON.stringify(r);
}

// problem is what an answer that is no stream says.
async function problem(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text || answer.statusText || "the gateway does not answer";
  }
}

// ask sends the request. noted is told its id.
async function ask(signal, noted) {
  const h = { ...headers(), "content-type": "application/json" };
  if (at("subsystem").value) h["x-bardo-subsystem"] = at("subsystem").value;
  const answer = await fetch("/v1/chat/completions", { method: "POST", headers: h, body: request(), signal, credentials: "omit", cache: "no-store" });
  noted(answer.headers.get("x-request-id"));
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
    await ask(running.signal, (of) => (id = of));
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

// models offers those that the key may use; nothing where it may not list them.
async function models() {
  let list = [];
  try {
    const answer = await fetch("/v1/models", { headers: headers(), credentials: "omit" });
    if (answer.ok) list = (await answer.json()).data;
  } catch {
    // one can still type a name
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
