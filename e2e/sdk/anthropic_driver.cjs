// The official Anthropic SDK for Node.
"use strict";

const { assert, caught, cities, env, errors, key, model, need, run, said, weather } = require("./driver.cjs");
const Anthropic = need("@anthropic-ai/sdk").default;
const { betaTool } = need("@anthropic-ai/sdk/helpers/beta/json-schema");

const client = (options) => new Anthropic({ baseURL: env.BARDO_URL, apiKey: key(), maxRetries: 0, timeout: 50_000, ...options });

const hi = [{ role: "user", content: "hi" }];
const tools = [{ name: weather.name, description: weather.description, input_schema: weather.schema }];
const ask = (behaviour, more) => ({ model: model(behaviour), max_tokens: 4096, messages: hi, ...more });

const create = (behaviour, more, options) => client(options).messages.create(ask(behaviour, more));
const streamed = (behaviour, more) => client().messages.stream(ask(behaviour, more)).finalMessage();

const text = (message) => message.content.filter((b) => b.type === "text").map((b) => b.text).join("");

function checkCalls(message, of) {
  const calls = message.content.filter((b) => b.type === "tool_use");
  assert.deepEqual(calls.map((b) => [b.name, b.input]), of.map((city) => [weather.name, { city }]));
  assert.equal(new Set(calls.map((b) => b.id)).size, of.length, "ids of calls");
  assert.equal(message.stop_reason, "tool_use");
}

// refused is the line of an error that an answer's status made.
function refused(e) {
  assert.ok(e instanceof Anthropic.APIError, `${e.name} is not of the client's own: ${e.message}`);
  assert.equal(e.error?.type, "error");
  assert.ok(e.type && e.error.error.message, "the body has no type or no message");
  assert.ok(e.requestID, "no request id");
  return { exception: e.constructor.name, status: e.status };
}

// broken is the line of a stream that died: an exception that says so, after the text that came.
async function broken(behaviour) {
  let got = "";
  const e = await caught(async () => {
    for await (const ev of await create(behaviour, { stream: true })) got += ev.delta?.text ?? "";
  });
  assert.equal(got, said.cut);
  assert.ok(!(e instanceof Anthropic.BadRequestError) && e.type !== "invalid_request_error", "K-47: a mistake of the caller's");
  return { exception: e.constructor.name, detail: e.message };
}

const bridged = async (behaviour) => assert.equal(text(await streamed(behaviour)), said.quiet);

const cases = {
  async chat() {
    const { data, request_id } = await client().messages.create(ask("chat")).withResponse();
    assert.deepEqual(data.content.map((b) => [b.type, b.text]), [["text", said.hello]]);
    assert.equal(data.stop_reason, "end_turn");
    assert.equal(data.model, model("chat"));
    assert.equal(data.usage.output_tokens, 5);
    assert.ok(request_id, "no request id");
  },
  async stream() {
    const message = await streamed("chat");
    assert.equal(text(message), said.hello);
    assert.equal(message.stop_reason, "end_turn");
    assert.equal(message.usage.output_tokens, 5);
    assert.ok(message.usage.input_tokens > 0);
  },
  async "base-url"() {
    assert.equal(text(await create("chat", {}, { baseURL: `${env.BARDO_URL}/v1` })), said.hello);
  },
  async models() {
    const ids = [];
    for await (const m of client().models.list({ limit: 1000 })) ids.push(m.id);
    assert.ok(ids.includes(model("chat")), "the model is not listed");
    assert.equal((await client().models.retrieve(model("chat"))).id, model("chat"));
    assert.ok((await caught(() => create("unheard-of"))) instanceof Anthropic.NotFoundError, "an unknown model");
  },
  async "count-tokens"() {
    assert.ok((await client().messages.countTokens({ model: model("chat"), messages: hi, tools })).input_tokens > 0);
  },
  async tools() {
    const message = await create("tools", { tools });
    assert.equal(text(message), said.see);
    checkCalls(message, cities);
  },
  async "tools-stream"() {
    const message = await streamed("tools", { tools });
    assert.equal(text(message), said.see);
    checkCalls(message, cities);
  },
  async loop() {
    const asked = [];
    const runnable = betaTool({
      name: weather.name, description: weather.description, inputSchema: weather.schema, run: ({ city }) => (asked.push(city), "sunny"),
    });
    const message = await client().beta.messages.toolRunner(ask("loop", { tools: [runnable] })).runUntilDone();
    assert.equal(text(message), said.sunny);
    assert.deepEqual(asked, ["Paris"]);
  },
  async thinks() {
    const thinking = { type: "enabled", budget_tokens: 2048 };
    for (const message of [await create("thinks", { thinking }), await streamed("thinks", { thinking })]) {
      assert.deepEqual(message.content.map((b) => b.type), ["thinking", "text"]);
      assert.equal(message.content[0].thinking, said.thought);
      assert.equal(text(message), said.hello);
      const messages = [...hi, { role: "assistant", content: message.content }, { role: "user", content: "go on" }];
      assert.equal(text(await create("thinks", { thinking, messages })), said.hello, "the next turn");
    }
  },
  async unicode() {
    const messages = [{ role: "user", content: said.unicode }];
    assert.equal(text(await create("unicode", { messages })), said.unicode);
    assert.equal(text(await streamed("unicode", { messages })), said.unicode);
  },
  async "unicode-tools"() {
    checkCalls(await create("unicode-tools", { tools }), [said.unicode]);
    checkCalls(await streamed("unicode-tools", { tools }), [said.unicode]);
  },
  async large() {
    const messages = [{ role: "user", content: said.prompt }];
    const whole = text(await create("large", { messages }));
    assert.equal(whole.length, said.answer);
    assert.equal(text(await streamed("large", { messages })), whole);
  },
  async cancel() {
    const stream = await create("slow", { stream: true });
    for await (const ev of stream) if (ev.delta?.text) stream.controller.abort();
    assert.ok(stream.controller.signal.aborted);
  },
  heartbeat: () => bridged("quiet"),
  heartbeat2: () => bridged("quiet2"),
  async retry() {
    assert.equal(text(await create("retry", {}, { maxRetries: 1 })), said.hello);
  },
  dies: () => broken("dies"),
  dies2: () => broken("dies2"),
};

errors(cases, (apiKey, model, stream) => client({ apiKey }).messages.create({ ...ask(), model, stream }), refused);
run("@anthropic-ai/sdk", cases);
