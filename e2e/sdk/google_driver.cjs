// Google's SDK for Node, @google/genai.
"use strict";

const { assert, caught, cities, env, errors, key, model, need, run, said, weather } = require("./driver.cjs");
const { ApiError, FinishReason, GoogleGenAI } = need("@google/genai");

const client = ({ apiKey = key(), suffix = "", retries = 0 } = {}) =>
  new GoogleGenAI({ apiKey, httpOptions: { baseUrl: env.BARDO_URL + suffix, timeout: 50_000, ...(retries && { retryOptions: { attempts: retries + 1 } }) } });

const config = { tools: [{ functionDeclarations: [{ name: weather.name, description: weather.description, parametersJsonSchema: weather.schema }] }] };

const whole = (behaviour, { contents = "hi", config } = {}, options) =>
  client(options).models.generateContent({ model: model(behaviour), contents, config });

async function read(behaviour, { contents = "hi", config } = {}) {
  const answers = [];
  for await (const a of await client().models.generateContentStream({ model: model(behaviour), contents, config })) answers.push(a);
  return answers;
}

const parts = (answers) => answers.flatMap((a) => a.candidates?.[0]?.content?.parts ?? []);
const text = (answers, thought = false) => parts(answers).filter((p) => !!p.thought === thought).map((p) => p.text ?? "").join("");

function checkCalls(answers, of) {
  const calls = parts(answers).flatMap((p) => p.functionCall ?? []);
  assert.deepEqual(calls.map((c) => [c.name, c.args]), of.map((city) => [weather.name, { city }]));
  assert.equal(new Set(calls.map((c) => c.id)).size, of.length, "ids of calls");
  assert.equal(answers.at(-1).candidates[0].finishReason, FinishReason.STOP);
}

function checkHello(answers) {
  assert.equal(text(answers), said.hello);
  const last = answers.at(-1);
  assert.equal(last.candidates[0].finishReason, FinishReason.STOP);
  assert.equal(last.modelVersion, model("chat"));
  assert.equal(last.usageMetadata.candidatesTokenCount, 5);
  assert.ok(last.responseId, "no id");
}

function see(answers) {
  assert.equal(text(answers), said.see);
  checkCalls(answers, cities);
}

// refused is the line of an error that an answer's status made.
function refused(e) {
  assert.ok(e instanceof ApiError, `${e.name} is not of the client's own: ${e.message}`);
  assert.ok(JSON.parse(e.message).error.message, "the body has no message");
  return { exception: e.constructor.name, status: e.status };
}

// broken is the line of a stream that died: an exception that says so, after the text that came.
async function broken(behaviour) {
  let got = "";
  const e = await caught(async () => {
    for await (const a of await client().models.generateContentStream({ model: model(behaviour), contents: "hi" })) got += text([a]);
  });
  assert.equal(got, said.cut);
  assert.ok(!(e.status >= 400 && e.status < 500), "K-47: a mistake of the caller's");
  return { exception: e.constructor.name, detail: e.message };
}

const bridged = async (behaviour) => assert.equal(text(await read(behaviour)), said.quiet);

const cases = {
  chat: async () => checkHello([await whole("chat")]),
  stream: async () => checkHello(await read("chat")),
  "base-url": async () => assert.equal(text([await whole("chat", {}, { suffix: "/v1beta" })]), said.hello),
  async models() {
    const names = [];
    for await (const m of await client().models.list()) names.push(m.name);
    assert.ok(names.includes(`models/${model("chat")}`), "the model is not listed");
    assert.equal((await client().models.get({ model: model("chat") })).name, `models/${model("chat")}`);
    assert.ok((await client().models.countTokens({ model: model("chat"), contents: "hi there" })).totalTokens > 0, "no tokens");
    assert.equal((await caught(() => whole("unheard-of"))).status, 404, "an unknown model");
  },
  tools: async () => see([await whole("tools", { config })]),
  "tools-stream": async () => see(await read("tools", { config })),
  async loop() {
    const first = await whole("loop", { config });
    checkCalls([first], ["Paris"]);
    const { id, name } = first.functionCalls[0];
    const contents = [
      { role: "user", parts: [{ text: "hi" }] }, first.candidates[0].content,
      { role: "user", parts: [{ functionResponse: { id, name, response: { result: "sunny" } } }] },
    ];
    assert.equal(text([await whole("loop", { contents, config })]), said.sunny);
    assert.equal(text(await read("loop", { contents, config })), said.sunny);
  },
  async conversation() {
    const chat = client().chats.create({ model: model("thinks"), config: { thinkingConfig: { includeThoughts: true } } });
    assert.equal(text([await chat.sendMessage({ message: "hi" })]), said.hello);
    const answers = [];
    for await (const a of await chat.sendMessageStream({ message: "hi again" })) answers.push(a);
    assert.equal(text(answers), said.hello);
    assert.equal(text([await chat.sendMessage({ message: "and again" })]), said.hello);
  },
  async thinks() {
    const config = { thinkingConfig: { includeThoughts: true } };
    for (const answers of [[await whole("thinks", { config })], await read("thinks", { config })]) {
      assert.deepEqual([text(answers, true), text(answers)], [said.thought, said.hello]);
    }
  },
  async unicode() {
    assert.equal(text([await whole("unicode", { contents: said.unicode })]), said.unicode);
    assert.equal(text(await read("unicode", { contents: said.unicode })), said.unicode);
  },
  async "unicode-tools"() {
    checkCalls([await whole("unicode-tools", { config })], [said.unicode]);
    checkCalls(await read("unicode-tools", { config }), [said.unicode]);
  },
  async large() {
    const answer = text([await whole("large", { contents: said.prompt })]);
    assert.equal(answer.length, said.answer);
    assert.equal(text(await read("large", { contents: said.prompt })), answer);
  },
  async cancel() {
    const abort = new AbortController();
    const e = await caught(async () => {
      for await (const a of await client().models.generateContentStream({ model: model("slow"), contents: "hi", config: { abortSignal: abort.signal } })) {
        if (text([a])) abort.abort();
      }
    });
    assert.ok(abort.signal.aborted, `${e}`);
  },
  heartbeat: () => bridged("quiet"),
  heartbeat2: () => bridged("quiet2"),
  retry: async () => assert.equal(text([await whole("retry", {}, { retries: 1 })]), said.hello),
  dies: () => broken("dies"),
  dies2: () => broken("dies2"),
};

async function ask(apiKey, name, stream) {
  const request = { model: name, contents: "hi" };
  return stream ? client({ apiKey }).models.generateContentStream(request) : client({ apiKey }).models.generateContent(request);
}

errors(cases, ask, refused);
run("@google/genai", cases);
