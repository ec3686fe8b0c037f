// Conversations with tools in which the model thinks between its calls, by the official SDKs for Node: README.md tells the protocol.
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");
const need = createRequire(path.join(process.argv[2], "..", "package.json"));

const { BARDO_URL: url, BARDO_KEY: key, BARDO_RUNS: runs } = process.env;
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const questions = ["What is the weather in Paris and Rome?", "And in Oslo and Bergen?"];
const weather = (args) => `sunny in ${JSON.parse(args).city}`;

// Each message goes back as it came. With a budget, the flag asks for thoughts between the calls; adaptive models have them anyway.
function anthropic({ model, stream, budget }) {
  const Anthropic = need("@anthropic-ai/sdk").default;
  const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout: 60_000 });
  const messages = [];
  const thinking = budget ? { type: "enabled", budget_tokens: 2000 } : { type: "adaptive" };
  const options = budget ? { headers: { "anthropic-beta": "interleaved-thinking-2025-05-14" } } : {};
  return {
    say: (content) => messages.push({ role: "user", content }),
    async answer() {
      const ask = { model, max_tokens: 8000, thinking, tools: [{ name: "get_weather", input_schema: schema }], messages };
      const message = stream ? await client.messages.stream(ask, options).finalMessage() : await client.messages.create(ask, options);
      messages.push({ role: "assistant", content: message.content });
      const of = (type) => message.content.filter((b) => b.type === type);
      const results = of("tool_use").map((c) => ({ type: "tool_result", tool_use_id: c.id, content: weather(JSON.stringify(c.input)) }));
      if (results.length > 0) messages.push({ role: "user", content: results });
      return { more: results.length > 0, text: of("text").map((b) => b.text).join(""), thoughts: of("thinking").map((b) => b.thinking) };
    },
  };
}

// gathered puts a stream together, and leaves the pieces of reasoning_details as they came: the SDK keeps the last alone.
async function gathered(chunks) {
  const message = { role: "assistant", content: "" };
  for await (const { choices } of chunks) {
    const { content, reasoning_content: thought, reasoning_details: details, tool_calls: calls } = choices[0]?.delta ?? {};
    message.content += content ?? "";
    if (thought) message.reasoning_content = (message.reasoning_content ?? "") + thought;
    if (details) (message.reasoning_details ??= []).push(...details);
    for (const { index, id, type, function: f } of calls ?? []) {
      message.tool_calls ??= [];
      message.tool_calls[index] ??= { id, type, function: { name: f.name, arguments: "" } };
      message.tool_calls[index].function.arguments += f.arguments ?? "";
    }
  }
  return message;
}

const openaiClient = () => {
  const OpenAI = need("openai").default;
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout: 60_000 });
};

function openai({ model, stream }) {
  const client = openaiClient();
  const messages = [];
  const tools = [{ type: "function", function: { name: "get_weather", parameters: schema } }];
  return {
    say: (content) => messages.push({ role: "user", content }),
    async answer() {
      const got = await client.chat.completions.create({ model, reasoning_effort: "high", tools, messages, stream });
      const message = stream ? await gathered(got) : got.choices[0].message;
      messages.push(message);
      const calls = message.tool_calls ?? [];
      for (const c of calls) messages.push({ role: "tool", tool_call_id: c.id, content: weather(c.function.arguments) });
      const thought = message.reasoning_content;
      return { more: calls.length > 0, text: message.content ?? "", thoughts: thought ? [thought] : [] };
    },
  };
}

function responses({ model, stream }) {
  const client = openaiClient();
  const input = [];
  const tools = [{ type: "function", name: "get_weather", parameters: schema, strict: false }];
  return {
    say: (content) => input.push({ role: "user", content }),
    async answer() {
      const ask = { model, store: false, include: ["reasoning.encrypted_content"], reasoning: { effort: "high", summary: "auto" }, tools, input };
      const answer = stream ? await client.responses.stream(ask).finalResponse() : await client.responses.create(ask);
      const items = answer.output.map(({ parsed_arguments: _, ...item }) => item);
      input.push(...items);
      const calls = items.filter((i) => i.type === "function_call");
      for (const c of calls) input.push({ type: "function_call_output", call_id: c.call_id, output: weather(c.arguments) });
      const thoughts = items.filter((i) => i.type === "reasoning").flatMap((i) => i.summary.map((s) => s.text));
      return { more: calls.length > 0, text: answer.output_text, thoughts };
    },
  };
}

async function play(run) {
  const chat = { anthropic, openai, responses }[run.client](run);
  const said = [];
  const thoughts = [];
  for (const question of questions) {
    chat.say(question);
    for (let i = 0; i < 9; i++) {
      const got = await chat.answer();
      said.push(got.text);
      thoughts.push(...got.thoughts);
      if (!got.more) break;
    }
  }
  return { said, thoughts };
}

(async () => {
  for (const run of JSON.parse(runs)) {
    const line = await play(run).catch((e) => ({ failed: `${e.constructor.name}: ${e.message}`.slice(0, 2000) }));
    console.log(JSON.stringify({ name: run.name, ...line }));
  }
  process.exit(0);
})();
