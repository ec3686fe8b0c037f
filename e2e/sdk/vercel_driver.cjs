// The Vercel AI SDK, with one of its providers.
"use strict";

const { assert, caught, cities, env, errors, key, model, need, run, said, weather } = require("./driver.cjs");
const { APICallError, generateText, isStepCount, jsonSchema, streamText, tool } = need("ai");

// providers are made for a base URL and a key, and give a model by its name.
const providers = {
  "vercel-openai": ["@ai-sdk/openai", (options) => need("@ai-sdk/openai").createOpenAI(options).chat],
  "vercel-openai-responses": ["@ai-sdk/openai", (options) => need("@ai-sdk/openai").createOpenAI(options)], // as it comes
  "vercel-openai-compatible": [
    "@ai-sdk/openai-compatible",
    (options) => need("@ai-sdk/openai-compatible").createOpenAICompatible({ name: "bardo", includeUsage: true, ...options }),
  ],
  "vercel-anthropic": ["@ai-sdk/anthropic", (options) => need("@ai-sdk/anthropic").createAnthropic(options)],
};
const [name, provider] = providers[env.BARDO_CLIENT];

const made = (apiKey, baseURL = `${env.BARDO_URL}/v1`) => provider({ baseURL, apiKey });
// What the provider would keep, it would refer to by ids: the gateway keeps nothing.
const stateless = { openai: { store: false, reasoningSummary: "auto", include: ["reasoning.encrypted_content"] } };
const providerOptions = env.BARDO_CLIENT === "vercel-openai-responses" ? stateless : {};
const ask = (behaviour, more) => ({ model: made(key())(model(behaviour)), maxRetries: 0, prompt: "hi", onError: () => {}, providerOptions, ...more });

const generate = (behaviour, more) => generateText(ask(behaviour, more));

// read collects a stream's text, and throws the error that it brings.
async function read(result, onText = () => {}) {
  for await (const part of result.stream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") onText(part.text);
  }
  return result;
}
const streamed = (behaviour, more, onText) => read(streamText(ask(behaviour, more)), onText);

const asking = (execute) => ({
  [weather.name]: tool({ description: weather.description, inputSchema: jsonSchema(weather.schema), ...(execute && { execute }) }),
});
const tools = asking();

function checkCalls(calls, reason, of) {
  assert.deepEqual(calls.map((c) => [c.toolName, c.input]), of.map((city) => [weather.name, { city }]));
  assert.equal(new Set(calls.map((c) => c.toolCallId)).size, of.length, "ids of calls");
  assert.equal(reason, "tool-calls");
}

// refused is the line of an error that an answer's status made.
function refused(e) {
  assert.ok(APICallError.isInstance(e), `${e.name} is not of the client's own: ${e.message}`);
  assert.ok(e.message && e.data?.error?.message === e.message, `the body was not understood: ${e.responseBody}`);
  assert.equal(e.isRetryable, [408, 409, 429].includes(e.statusCode) || e.statusCode >= 500);
  return { exception: e.constructor.name, status: e.statusCode };
}

// broken is the line of a stream that died: an exception that says so, after the text that came.
async function broken(behaviour) {
  let got = "";
  const e = await caught(() => streamed(behaviour, {}, (text) => (got += text)));
  assert.equal(got, said.cut);
  assert.ok(!(e.statusCode >= 400 && e.statusCode < 500), "K-47: a mistake of the caller's");
  return { exception: e.constructor.name, detail: `${e.message}, status ${e.statusCode}, retryable ${e.isRetryable}` };
}

const bridged = async (behaviour) => assert.equal(await (await streamed(behaviour)).text, said.quiet);

const thinking = { providerOptions: { ...providerOptions, anthropic: { thinking: { type: "enabled", budgetTokens: 2048 } } } };

const cases = {
  async chat() {
    const { text, finishReason, usage, response } = await generate("chat");
    assert.equal(text, said.hello);
    assert.equal(finishReason, "stop");
    assert.equal(usage.outputTokens, 5);
    assert.ok(usage.inputTokens > 0);
    assert.equal(response.modelId, model("chat"));
  },
  async stream() {
    const pieces = [];
    const result = await streamed("chat", {}, (text) => pieces.push(text));
    assert.equal(pieces.join(""), said.hello);
    assert.ok(pieces.length > 1, "it came in one piece");
    assert.equal(await result.finishReason, "stop");
    assert.equal((await result.usage).outputTokens, 5);
  },
  async "base-url"() {
    assert.equal((await generate("chat", { model: made(key(), env.BARDO_URL)(model("chat")) })).text, said.hello);
  },
  async tools() {
    const { text, toolCalls, finishReason } = await generate("tools", { tools });
    assert.equal(text, said.see);
    checkCalls(toolCalls, finishReason, cities);
  },
  async "tools-stream"() {
    const result = await streamed("tools", { tools });
    assert.equal(await result.text, said.see);
    checkCalls(await result.toolCalls, await result.finishReason, cities);
  },
  async loop() {
    const asked = [];
    const more = { tools: asking(({ city }) => (asked.push(city), "sunny")), stopWhen: isStepCount(5) };
    const { text, steps } = await generate("loop", more);
    assert.equal(text, said.sunny);
    assert.equal(steps.length, 2);
    assert.equal(await (await streamed("loop", more)).text, said.sunny);
    assert.deepEqual(asked, ["Paris", "Paris"]);
  },
  async thinks() {
    for (const result of [await generate("thinks", thinking), await streamed("thinks", thinking)]) {
      assert.equal(await result.reasoningText, said.thought);
      assert.equal(await result.text, said.hello);
      const messages = [{ role: "user", content: "hi" }, ...(await result.response).messages, { role: "user", content: "go on" }];
      assert.equal((await generate("thinks", { ...thinking, prompt: undefined, messages })).text, said.hello, "the next turn");
    }
  },
  async unicode() {
    assert.equal((await generate("unicode", { prompt: said.unicode })).text, said.unicode);
    assert.equal(await (await streamed("unicode", { prompt: said.unicode })).text, said.unicode);
  },
  async "unicode-tools"() {
    const whole = await generate("unicode-tools", { tools });
    checkCalls(whole.toolCalls, whole.finishReason, [said.unicode]);
    const stream = await streamed("unicode-tools", { tools });
    checkCalls(await stream.toolCalls, await stream.finishReason, [said.unicode]);
  },
  async large() {
    const { text } = await generate("large", { prompt: said.prompt });
    assert.equal(text.length, said.answer);
    assert.equal(await (await streamed("large", { prompt: said.prompt })).text, text);
  },
  async cancel() {
    const leave = new AbortController();
    const seen = [];
    for await (const part of streamText(ask("slow", { abortSignal: leave.signal })).stream) {
      seen.push(part.type);
      if (part.type === "text-delta") leave.abort();
    }
    assert.equal(seen.at(-1), "abort");
  },
  heartbeat: () => bridged("quiet"),
  heartbeat2: () => bridged("quiet2"),
  async retry() {
    assert.equal((await generate("retry", { maxRetries: 1 })).text, said.hello);
  },
  dies: () => broken("dies"),
  dies2: () => broken("dies2"),
};
if (env.BARDO_CLIENT === "vercel-openai") delete cases.thinks; // it reads no reasoning in chat completions

errors(cases, (apiKey, model, stream) => {
  const asked = ask("", { model: made(apiKey)(model) });
  return stream ? read(streamText(asked)) : generateText(asked);
}, refused);
run(name, cases);
