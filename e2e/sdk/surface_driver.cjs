// The official SDKs for Node, by what the gateway puts beside an answer: its reasoning, where the header asks for it.
"use strict";

const assert = require("node:assert/strict");
const { createRequire } = require("node:module");
const path = require("node:path");

const need = createRequire(path.join(path.resolve(process.argv[2]), "index.js"));
const OpenAI = need("openai").default;
const Anthropic = need("@anthropic-ai/sdk").default;
const { GoogleGenAI } = need("@google/genai");

const { BARDO_URL: url, BARDO_KEY: apiKey } = process.env;
const full = { "X-Bardo-Reasoning": "full" };
const hello = "Hello from the fake provider.";
const models = ["like-openai", "like-anthropic", "like-responses"];
const messages = [{ role: "user", content: "hi" }];

function beside(of) {
  assert.equal(of.bardo.reasoning.content, "let me think");
  assert.ok(of.bardo.reasoning.reasoning_tokens > 0);
}

async function list(events) {
  const out = [];
  for await (const e of events) out.push(e);
  return out;
}

async function ofChat(model) {
  const c = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, defaultHeaders: full });
  const answer = await c.chat.completions.create({ model, messages });
  assert.equal(answer.choices[0].message.content, hello);
  beside(answer);
  const chunks = await list(await c.chat.completions.create({ model, messages, stream: true }));
  assert.equal(chunks.map((k) => k.choices[0]?.delta?.content ?? "").join(""), hello);
  beside(chunks.at(-1));
  const final = await c.chat.completions.stream({ model, messages }).finalChatCompletion();
  assert.equal(final.choices[0].message.content, hello);
}

async function ofResponses(model) {
  const c = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, defaultHeaders: full });
  const answer = await c.responses.create({ model, input: "hi" });
  assert.equal(answer.output_text, hello);
  beside(answer);
  const events = await list(await c.responses.create({ model, input: "hi", stream: true }));
  beside(events.at(-1).response);
  const final = await c.responses.stream({ model, input: "hi" }).finalResponse();
  assert.equal(final.output_text, hello);
  beside(final);
}

async function ofMessages(model) {
  const c = new Anthropic({ baseURL: url, apiKey, maxRetries: 0, defaultHeaders: full });
  const ask = { model, max_tokens: 100, messages };
  const answer = await c.messages.create(ask);
  assert.equal(answer.content.at(-1).text, hello);
  beside(answer);
  const events = await list(await c.messages.create({ ...ask, stream: true }));
  assert.equal(events.at(-1).type, "message_stop");
  beside(events.at(-1));
  assert.equal((await c.messages.stream(ask).finalMessage()).content.at(-1).text, hello);
}

async function ofGoogle(model) {
  const c = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url, headers: full } });
  const ask = { model, contents: "hi", config: { thinkingConfig: { includeThoughts: true } } };
  assert.equal((await c.models.generateContent(ask)).text, hello);
  const chunks = await list(await c.models.generateContentStream(ask));
  assert.equal(chunks.map((k) => k.text ?? "").join(""), hello);
  assert.equal(chunks.at(-1).candidates[0].finishReason, "STOP");
}

(async () => {
  for (const model of models) {
    await ofChat(model);
    await ofResponses(model);
    await ofMessages(model);
  }
  for (const model of [...models, "like-gemini"]) await ofGoogle(model);
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
