// The official OpenAI SDK for Node.
"use strict";

const { assert, caught, cities, env, errors, key, model, need, run, said, weather } = require("./driver.cjs");
const OpenAI = need("openai").default;

const client = (options) => new OpenAI({ baseURL: `${env.BARDO_URL}/v1`, apiKey: key(), maxRetries: 0, timeout: 50_000, ...options });

const hi = [{ role: "user", content: "hi" }];
const tools = [{ type: "function", function: { name: weather.name, description: weather.description, parameters: weather.schema } }];
const ask = (behaviour, more) => ({ model: model(behaviour), messages: hi, ...more });

const create = (behaviour, more, options) => client(options).chat.completions.create(ask(behaviour, more));

async function read(behaviour, more) {
  const chunks = [];
  for await (const c of await create(behaviour, { ...more, stream: true })) chunks.push(c);
  return chunks;
}

const text = (chunks) => chunks.map((c) => c.choices[0]?.delta?.content ?? "").join("");

function checkCalls({ message, finish_reason }, of) {
  assert.deepEqual(message.tool_calls.map((t) => [t.type, t.function.name, JSON.parse(t.function.arguments)]),
    of.map((city) => ["function", weather.name, { city }]));
  assert.equal(new Set(message.tool_calls.map((t) => t.id)).size, of.length, "ids of calls");
  assert.equal(finish_reason, "tool_calls");
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
    for await (const c of await create(behaviour, { stream: true })) got += c.choices[0]?.delta?.content ?? "";
  });
  assert.equal(got, said.cut);
  assert.ok(!(e instanceof OpenAI.BadRequestError), "K-47: a mistake of the caller's");
  return { exception: e.constructor.name, detail: e.message };
}

const bridged = async (behaviour) => assert.equal(text(await read(behaviour)), said.quiet);

const cases = {
  async chat() {
    const { data, request_id } = await create("chat").withResponse();
    assert.equal(data.choices[0].message.content, said.hello);
    assert.equal(data.choices[0].finish_reason, "stop");
    assert.equal(data.model, model("chat"));
    assert.equal(data.usage.completion_tokens, 5);
    assert.ok(request_id, "no request id");
  },
  async stream() {
    const chunks = await read("chat", { stream_options: { include_usage: true } });
    assert.equal(text(chunks), said.hello);
    assert.deepEqual(chunks.filter((c) => c.usage).map((c) => c.usage.completion_tokens), [5]);
    assert.equal(chunks.filter((c) => c.choices.length).at(-1).choices[0].finish_reason, "stop");
    const plain = await read("chat");
    assert.ok(plain.every((c) => c.choices.length && !c.usage), "K-28: an extra chunk is shown");
  },
  async "base-url"() {
    const answer = await create("chat", {}, { baseURL: env.BARDO_URL });
    assert.equal(answer.choices[0].message.content, said.hello);
  },
  async models() {
    const ids = [];
    for await (const m of client().models.list()) ids.push(m.id);
    assert.ok(ids.includes(model("chat")), "the model is not listed");
    assert.equal((await client().models.retrieve(model("chat"))).id, model("chat"));
    assert.ok((await caught(() => create("unheard-of"))) instanceof OpenAI.NotFoundError, "an unknown model");
  },
  async tools() {
    const [choice] = (await create("tools", { tools })).choices;
    assert.equal(choice.message.content, said.see);
    checkCalls(choice, cities);
  },
  async "tools-stream"() {
    const stream = client().chat.completions.stream(ask("tools", { tools }));
    const [choice] = (await stream.finalChatCompletion()).choices;
    assert.equal(choice.message.content, said.see);
    checkCalls(choice, cities);
  },
  async loop() {
    const asked = [];
    const runnable = { ...tools[0].function, parse: JSON.parse, function: ({ city }) => (asked.push(city), "sunny") };
    const runner = client().chat.completions.runTools(ask("loop", { stream: true, tools: [{ type: "function", function: runnable }] }));
    assert.equal(await runner.finalContent(), said.sunny);
    assert.deepEqual(asked, ["Paris"]);
  },
  async thinks() {
    const { message } = (await create("thinks")).choices[0];
    assert.equal(message.reasoning_content, said.thought);
    assert.equal(message.content, said.hello);
    const chunks = await read("thinks");
    assert.equal(chunks.map((c) => c.choices[0]?.delta?.reasoning_content ?? "").join(""), said.thought);
    assert.equal(text(chunks), said.hello);
  },
  async unicode() {
    const messages = [{ role: "user", content: said.unicode }];
    assert.equal((await create("unicode", { messages })).choices[0].message.content, said.unicode);
    assert.equal(text(await read("unicode", { messages })), said.unicode);
  },
  async "unicode-tools"() {
    checkCalls((await create("unicode-tools", { tools })).choices[0], [said.unicode]);
    const stream = client().chat.completions.stream(ask("unicode-tools", { tools }));
    checkCalls((await stream.finalChatCompletion()).choices[0], [said.unicode]);
  },
  async large() {
    const messages = [{ role: "user", content: said.prompt }];
    const whole = (await create("large", { messages })).choices[0].message.content;
    assert.equal(whole.length, said.answer);
    assert.equal(text(await read("large", { messages })), whole);
  },
  async cancel() {
    const stream = await create("slow", { stream: true });
    for await (const c of stream) if (c.choices[0]?.delta?.content) stream.controller.abort();
    assert.ok(stream.controller.signal.aborted);
  },
  heartbeat: () => bridged("quiet"),
  heartbeat2: () => bridged("quiet2"),
  async retry() {
    assert.equal((await create("retry", {}, { maxRetries: 1 })).choices[0].message.content, said.hello);
  },
  dies: () => broken("dies"),
  dies2: () => broken("dies2"),
};

errors(cases, (apiKey, model, stream) => client({ apiKey }).chat.completions.create({ model, messages: hi, stream }), refused);
run("openai", cases);
