// The official OpenAI SDK for Node, by its Responses calls.
"use strict";

const { assert, caught, cities, env, errors, key, model, need, run, said, weather } = require("./driver.cjs");
const OpenAI = need("openai").default;

const client = (options) => new OpenAI({ baseURL: `${env.BARDO_URL}/v1`, apiKey: key(), maxRetries: 0, timeout: 50_000, ...options });

const hi = [{ role: "user", content: "hi" }];
const tools = [{ type: "function", name: weather.name, description: weather.description, parameters: weather.schema, strict: false }];
const ask = (behaviour, more) => ({ model: model(behaviour), input: "hi", ...more });

const create = (behaviour, more, options) => client(options).responses.create(ask(behaviour, more));

async function read(behaviour, more) {
  const events = [];
  for await (const e of await create(behaviour, { ...more, stream: true })) events.push(e);
  return events;
}

const text = (events, of = "response.output_text.delta") => events.filter((e) => e.type === of).map((e) => e.delta).join("");
const streamed = (behaviour, more) => client().responses.stream(ask(behaviour, more)).finalResponse();

function checkCalls({ output, status }, of) {
  const calls = output.filter((o) => o.type === "function_call");
  assert.deepEqual(calls.map((c) => [c.name, JSON.parse(c.arguments)]), of.map((city) => [weather.name, { city }]));
  assert.equal(new Set(calls.map((c) => c.call_id)).size, of.length, "ids of calls");
  assert.equal(status, "completed");
}

// refused is the line of an error that an answer's status made.
function refused(e) {
  assert.ok(e instanceof OpenAI.APIError, `${e.name} is not of the client's own: ${e.message}`);
  assert.ok(e.error?.message, "the body has no message");
  return { exception: e.constructor.name, status: e.status };
}

// broken is the line of a stream that died: an exception that says so, after the text that came.
async function broken(behaviour) {
  let got = "";
  const e = await caught(async () => {
    for await (const ev of await create(behaviour, { stream: true })) if (ev.type === "response.output_text.delta") got += ev.delta;
  });
  assert.equal(got, said.cut);
  assert.ok(!(e instanceof OpenAI.BadRequestError), "K-47: a mistake of the caller's");
  return { exception: e.constructor.name, detail: e.message };
}

const bridged = async (behaviour) => assert.equal(text(await read(behaviour)), said.quiet);

const cases = {
  async chat() {
    const { data, request_id } = await create("chat").withResponse();
    assert.equal(data.output_text, said.hello);
    assert.equal(data.status, "completed");
    assert.equal(data.model, model("chat"));
    assert.equal(data.usage.output_tokens, 5);
    assert.ok(request_id, "no request id");
  },
  async stream() {
    const events = await read("chat");
    assert.equal(text(events), said.hello);
    assert.deepEqual(events.map((e) => e.sequence_number), [...events.keys()]);
    assert.equal(events.at(-1).type, "response.completed");
    assert.equal(events.at(-1).response.usage.output_tokens, 5);
    assert.equal((await streamed("chat")).output_text, said.hello);
  },
  async "base-url"() {
    assert.equal((await create("chat", { input: hi }, { baseURL: env.BARDO_URL })).output_text, said.hello);
  },
  async tools() {
    const answer = await create("tools", { tools });
    assert.equal(answer.output_text, said.see);
    checkCalls(answer, cities);
  },
  async "tools-stream"() {
    const answer = await streamed("tools", { tools });
    assert.equal(answer.output_text, said.see);
    checkCalls(answer, cities);
  },
  async loop() {
    const { output } = await create("loop", { input: hi, tools });
    const results = output.filter((o) => o.type === "function_call").map((o) => ({ type: "function_call_output", call_id: o.call_id, output: "sunny" }));
    assert.equal(results.length, 1);
    const input = [...hi, ...output, ...results];
    assert.equal((await create("loop", { input, tools })).output_text, said.sunny);
    assert.equal(text(await read("loop", { input, tools })), said.sunny);
  },
  async structured() {
    const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
    const format = { type: "json_schema", name: "city", schema, strict: true };
    assert.deepEqual(JSON.parse((await create("json", { text: { format } })).output_text), { city: "Paris" });
    assert.deepEqual(JSON.parse((await streamed("json", { text: { format } })).output_text), { city: "Paris" });
  },
  async thinks() {
    const more = { reasoning: { summary: "auto" }, include: ["reasoning.encrypted_content"], store: false };
    const { output, output_text } = await create("thinks", more);
    assert.deepEqual(output.filter((o) => o.type === "reasoning").map((o) => o.summary.map((s) => s.text)), [[said.thought]]);
    assert.equal(output_text, said.hello);
    const events = await read("thinks", more);
    assert.equal(text(events, "response.reasoning_summary_text.delta"), said.thought);
    assert.equal(text(events), said.hello);
    assert.equal((await create("thinks", { ...more, input: [...hi, ...events.at(-1).response.output, ...hi] })).output_text, said.hello);
  },
  async kept() {
    const e = await caught(() => client().responses.retrieve("resp_1"));
    assert.ok(e instanceof OpenAI.BadRequestError, e.message);
    assert.equal(e.code, "requires_direct_key");
  },
  async unicode() {
    const input = said.unicode;
    assert.equal((await create("unicode", { input })).output_text, said.unicode);
    assert.equal(text(await read("unicode", { input })), said.unicode);
  },
  async "unicode-tools"() {
    checkCalls(await create("unicode-tools", { tools }), [said.unicode]);
    checkCalls(await streamed("unicode-tools", { tools }), [said.unicode]);
  },
  async large() {
    const input = said.prompt;
    const whole = (await create("large", { input })).output_text;
    assert.equal(whole.length, said.answer);
    assert.equal(text(await read("large", { input })), whole);
  },
  async cancel() {
    const stream = await create("slow", { stream: true });
    for await (const e of stream) if (e.type === "response.output_text.delta") stream.controller.abort();
    assert.ok(stream.controller.signal.aborted);
  },
  heartbeat: () => bridged("quiet"),
  heartbeat2: () => bridged("quiet2"),
  async retry() {
    assert.equal((await create("retry", {}, { maxRetries: 1 })).output_text, said.hello);
  },
  dies: () => broken("dies"),
  dies2: () => broken("dies2"),
};

errors(cases, (apiKey, model, stream) => client({ apiKey }).responses.create({ model, input: "hi", stream }), refused);
run("openai", cases);
