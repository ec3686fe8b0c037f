// The SDKs of OpenAI and Google for Node, by what else than words they ask for: embeddings, completions of a prompt, JSON, sound,
// images, speech, moderation.
"use strict";

const assert = require("node:assert/strict");
const { caught, need, run, said } = require("./driver.cjs");

const OpenAI = need("openai").default;
const { GoogleGenAI } = need("@google/genai");

const { BARDO_URL: url, BARDO_KEY: apiKey, BARDO_CLIENT: client } = process.env;
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, timeout: 60_000 });
const google = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url, timeout: 60_000 } });
const formats = ["openai", "anthropic", "gemini"];
const wav = Buffer.from("RIFF....WAVEfmt ").toString("base64");
const mp3 = Buffer.from("ID3.....").toString("base64");

async function list(events) {
  const out = [];
  for await (const e of await events) out.push(e);
  return out;
}

const isObject = (text) => assert.equal(Object.prototype.toString.call(JSON.parse(text)), "[object Object]", `${text} is no object`);

// A second of silence, as a WAV file.
function recording() {
  const head = Buffer.from("RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\0\x7d\0\0", "latin1");
  return OpenAI.toFile(Buffer.concat([head, Buffer.alloc(32_000)]), "a.wav", { type: "audio/wav" });
}

const ofOpenAI = {
  async media() {
    const picture = () => OpenAI.toFile(Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), "a.png", { type: "image/png" });
    assert.equal((await openai.images.generate({ model: "painter", prompt: "a cat", n: 2 })).data.length, 2);
    assert.equal((await openai.images.edit({ model: "painter", prompt: "more cat", image: [await picture(), await picture()] })).data.length, 1);
    assert.equal((await openai.images.createVariation({ model: "painter", image: await picture() })).data.length, 1);
    const { response } = await openai.images.generate({ model: "painter", prompt: "a cat" }).withResponse();
    assert.equal(response.headers.get("x-bardo-cost"), "0.012000");
    const spoken = await openai.audio.speech.create({ model: "speaker", voice: "alloy", input: "Hello.", response_format: "wav" });
    assert.equal(Buffer.from(await spoken.arrayBuffer()).subarray(0, 4).toString(), "RIFF");
    assert.equal((await openai.audio.transcriptions.create({ model: "writer", file: await recording() })).text, "Hello.");
    const words = { response_format: "verbose_json", timestamp_granularities: ["word", "segment"] };
    assert.equal((await openai.audio.transcriptions.create({ model: "writer", file: await recording(), ...words })).duration, 1.25);
    const events = await list(openai.audio.transcriptions.create({ model: "writer", file: await recording(), stream: true }));
    assert.deepEqual(events.map((e) => e.type), ["transcript.text.delta", "transcript.text.done"]);
    assert.equal((await openai.audio.translations.create({ model: "writer", file: await recording() })).text, "Hello.");
    assert.equal((await openai.moderations.create({ model: "judge", input: ["x", "y"] })).results[0].flagged, true);
    const error = await caught(() => openai.audio.speech.create({ model: "painter", voice: "alloy", input: "x" }));
    assert.ok(error instanceof OpenAI.BadRequestError && error.param === "model", `${error}`);
  },

  // The SDK asks for base64 where nobody says a form, and gives numbers.
  async embeddings() {
    const one = await openai.embeddings.create({ model: "vectors", input: "one" });
    const plain = await openai.embeddings.create({ model: "vectors", input: "one", encoding_format: "float" });
    assert.equal(one.data[0].embedding.length, 1536);
    one.data[0].embedding.forEach((n, i) => assert.ok(Math.abs(n - plain.data[0].embedding[i]) < 1e-6, "base64 and numbers differ"));
    assert.equal(one.model, "vectors");
    assert.deepEqual({ ...one.usage }, { prompt_tokens: 1, total_tokens: 1 });
    const several = await openai.embeddings.create({ model: "vectors", input: ["a", "b", "c"], dimensions: 4 });
    assert.deepEqual(several.data.map((d) => [d.index, d.embedding.length]), [[0, 4], [1, 4], [2, 4]]);
    assert.equal((await openai.embeddings.create({ model: "vectors", input: [[1, 2, 3], [4]], dimensions: 2 })).usage.prompt_tokens, 4);
    const error = await caught(() => openai.embeddings.create({ model: "vectors", input: [] }));
    assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
    assert.equal(error.param, "input");
  },

  async prompts() {
    const whole = await openai.completions.create({ model: "prompts", prompt: "hi", suffix: "!", echo: true, logprobs: 1 });
    assert.equal(whole.choices[0].text, "hi" + said.hello);
    assert.ok(whole.choices[0].logprobs.token_logprobs.length > 0 && whole.usage.completion_tokens > 0);
    const four = await openai.completions.create({ model: "prompts", prompt: ["a", "b"], n: 2 });
    assert.deepEqual(four.choices.map((c) => c.text), Array(4).fill(said.hello));
    const chunks = await list(openai.completions.create({ model: "prompts", prompt: "hi", stream: true, stream_options: { include_usage: true } }));
    assert.equal(chunks.map((c) => c.choices[0]?.text ?? "").join(""), said.hello);
    assert.deepEqual(chunks.filter((c) => c.usage).map((c) => c.usage.completion_tokens), [5]);
    for (const at of ["json-anthropic", "json-gemini"]) {
      assert.equal((await openai.completions.create({ model: at, prompt: "hi", max_tokens: 50 })).choices[0].text, said.hello);
      const error = await caught(() => openai.completions.create({ model: at, prompt: "hi", suffix: "!" }));
      assert.ok(error instanceof OpenAI.BadRequestError && error.param === "suffix", `${error}`);
    }
  },

  async json() {
    for (const at of formats) {
      const ask = { model: `json-${at}`, messages: [{ role: "user", content: "Answer in JSON." }], response_format: { type: "json_object" } };
      isObject((await openai.chat.completions.create(ask)).choices[0].message.content);
      isObject((await list(openai.chat.completions.create({ ...ask, stream: true }))).map((c) => c.choices[0]?.delta?.content ?? "").join(""));
    }
  },

  async sound() {
    for (const [format, data] of [["wav", wav], ["mp3", mp3]]) {
      const content = [{ type: "text", text: "What is said?" }, { type: "input_audio", input_audio: { data, format } }];
      const ask = { messages: [{ role: "user", content }] };
      for (const at of ["openai", "gemini"]) {
        assert.equal((await openai.chat.completions.create({ ...ask, model: `sound-${at}` })).choices[0].message.content, said.hello);
      }
      const error = await caught(() => openai.chat.completions.create({ ...ask, model: "sound-anthropic" }));
      assert.ok(error instanceof OpenAI.BadRequestError && error.message.includes("messages[0].content[1]"), `${error}`);
    }
  },
};

const ofGoogle = {
  async json() {
    for (const at of formats) {
      const ask = { model: `json-${at}`, contents: "Answer in JSON.", config: { responseMimeType: "application/json" } };
      isObject((await google.models.generateContent(ask)).text);
      isObject((await list(google.models.generateContentStream(ask))).map((c) => c.text ?? "").join(""));
    }
  },

  async sound() {
    for (const [mimeType, data] of [["audio/wav", wav], ["audio/mp3", mp3]]) {
      const contents = [{ text: "What is said?" }, { inlineData: { mimeType, data } }];
      for (const at of ["openai", "gemini"]) {
        assert.equal((await google.models.generateContent({ model: `sound-${at}`, contents })).text, said.hello);
      }
      assert.equal((await caught(() => google.models.generateContent({ model: "sound-anthropic", contents }))).status, 400);
    }
  },
};

if (client === "openai-node") run("openai", ofOpenAI);
else run("@google/genai", ofGoogle);
