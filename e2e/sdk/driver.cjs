// What the Node drivers share: README.md tells the protocol that they speak with the Go test. The first argument is the
// folder of the packages, which are not installed beside this one.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");

const packages = path.resolve(process.argv[2]);
const need = createRequire(path.join(packages, "index.js"));

const env = process.env;
const direct = env.BARDO_DIRECT !== undefined; // the URL is the provider's own
const statuses = [400, 401, 402, 403, 404, 413, 422, 429, 500, 502, 503, 504, 529];

const said = {
  hello: "Hello from the fake provider.",
  see: "Let me see.",
  sunny: "It is sunny.",
  thought: "let me think",
  cut: "tok0 tok1 tok2 ",
  quiet: "tok0 tok1 tok2 ",
  unicode: JSON.parse(env.BARDO_UNICODE),
  prompt: "large ".repeat(400_000), // what a large request says
  answer: 1000 * 1024, // the characters of its answer
};

const weather = {
  name: "get_weather",
  description: "The weather of a city.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const cities = ["Paris", "Rome"];

const model = (behaviour) => `${env.BARDO_PREFIX}-${behaviour}`;

// key is the one that is refused with this status, or the good one: then the model's provider refuses.
const key = (status) => env[`BARDO_KEY_${status}`] ?? env.BARDO_KEY;

// caught returns what an async function throws, which it must.
async function caught(body) {
  try {
    await body();
  } catch (e) {
    return e;
  }
  throw new Error("nothing was thrown");
}

// errors adds a case for every status: a stream is refused as a whole answer is. ask(key, model, stream) asks, and refused
// turns what was thrown into the case's line.
function errors(cases, ask, refused) {
  for (const status of statuses) {
    cases[`error-${status}`] = async () => {
      const line = refused(await caught(() => ask(key(status), model(status), false)));
      assert.deepEqual(refused(await caught(() => ask(key(status), model(status), true))), line, "a stream is refused differently");
      return line;
    };
  }
}

const print = (line) => fs.writeSync(1, JSON.stringify(line) + "\n");

const runsDirectly = (name) => ["chat", "stream", "dies"].includes(name) || name.startsWith("error-");

// run runs the cases in order. Each is an async function that may return more members for its line, and throws what is wrong.
async function run(name, cases) {
  const { version } = JSON.parse(fs.readFileSync(path.join(packages, name, "package.json"), "utf8"));
  print({ client: env.BARDO_CLIENT, version });
  for (const [name, body] of Object.entries(cases)) {
    if (direct && !runsDirectly(name)) continue;
    try {
      print({ case: name, ok: true, ...(await within(60, body())) });
    } catch (e) {
      print({ case: name, ok: false, detail: `${e.name}: ${e.message}`.slice(0, 2000) });
    }
  }
  process.exit(0); // connections that are left open do not keep it
}

async function within(seconds, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

module.exports = { assert, caught, cities, env, errors, key, model, need, run, said, weather };
