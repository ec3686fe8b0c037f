// The official TypeScript client of MCP. BARDO_PATH is the gateway's path, BARDO_TOOLS what the names of tools begin with there.
"use strict";

const { assert, env, need, run, said } = require("./driver.cjs");

const { Client } = need("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = need("@modelcontextprotocol/sdk/client/streamableHttp.js");

const { BARDO_URL: url, BARDO_KEY: key, BARDO_PATH: at, BARDO_TOOLS: tools } = env;
const oneServer = tools === ""; // the path is of one server, which alone has resources

const call = (c, name, args = {}, options = {}) => c.callTool({ name: tools + name, arguments: args }, undefined, options);
const text = (result) => result.content[0].text;

const cases = {
  async lists(c) {
    assert.equal(c.getInstructions(), oneServer ? "Be kind." : undefined);
    const names = (await c.listTools()).tools.map((tool) => tool.name).sort();
    assert.deepEqual(names, ["echo", "fail", "picture", "slow", "wait", "weather"].map((name) => tools + name));
  },

  async calls(c) {
    assert.equal(text(await call(c, "echo", { text: said.unicode })), said.unicode);
    assert.deepEqual((await call(c, "weather", { city: "Paris" })).structuredContent, { city: "Paris", celsius: 21.5 });
    assert.deepEqual((await call(c, "picture")).content, [{ type: "image", data: "aGk=", mimeType: "image/png" }, { type: "text", text: "a picture" }]);
  },

  async parallel(c) {
    const numbers = [...Array(20).keys()].map(String);
    assert.deepEqual((await Promise.all(numbers.map((n) => call(c, "echo", { text: n })))).map(text), numbers);
  },

  async progress(c) {
    const got = [];
    assert.equal(text(await call(c, "slow", {}, { onprogress: (p) => got.push(p.progress) })), "done");
    assert.deepEqual(got, [1, 2, 3]);
  },

  async errors(c) {
    const failed = await call(c, "fail");
    assert.ok(failed.isError && text(failed).includes("fail"), JSON.stringify(failed));
  },

  async cancel(c) {
    const abort = new AbortController();
    await assert.rejects(call(c, "wait", {}, { signal: abort.signal, onprogress: () => abort.abort("enough") }), /enough/);
    assert.equal(text(await call(c, "echo", { text: "after" })), "after");
  },

  async prompts(c) {
    assert.deepEqual((await c.listPrompts()).prompts.map((p) => p.name), [tools + "greet"]);
    const { messages } = await c.getPrompt({ name: `${tools}greet`, arguments: { name: "you" } });
    assert.equal(messages[0].content.text, "Greet you");
  },
};
if (oneServer) {
  cases.resources = async (c) => {
    assert.deepEqual((await c.listResources()).resources.map((r) => r.uri), ["file:///readme"]);
    assert.deepEqual((await c.listResourceTemplates()).resourceTemplates.map((r) => r.uriTemplate), ["note://{number}"]);
    assert.equal((await c.readResource({ uri: "note://7" })).contents[0].text, "Note 7");
  };
}

// alone runs a case with a client of its own, and ends its session.
const alone = (body) => async () => {
  const transport = new StreamableHTTPClientTransport(new URL(url + at), { requestInit: { headers: { authorization: `Bearer ${key}` } } });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  await body(client);
  await transport.terminateSession();
  await client.close();
};

run("@modelcontextprotocol/sdk", Object.fromEntries(Object.entries(cases).map(([name, body]) => [name, alone(body)])));
