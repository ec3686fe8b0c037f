// A facilitator of others, over HTTP: node facilitator.cjs, with KEY (the account that settles) and CHAIN (an RPC address) in the environment. It prints its address.
const { createServer } = require("node:http");
const { x402Facilitator } = require("@x402/core/facilitator");
const { toFacilitatorEvmSigner } = require("@x402/evm");
const { ExactEvmScheme } = require("@x402/evm/exact/facilitator");
const { createWalletClient, http, publicActions } = require("viem");
const { privateKeyToAccount } = require("viem/accounts");
const { baseSepolia } = require("viem/chains");

const account = privateKeyToAccount(process.env.KEY);
const client = createWalletClient({ account, chain: baseSepolia, transport: http(process.env.CHAIN), pollingInterval: 50 }).extend(publicActions);
const facilitator = new x402Facilitator();
facilitator.register("eip155:84532", new ExactEvmScheme(toFacilitatorEvmSigner({ ...client, address: account.address })));

async function answer(request) {
  if (request.url === "/supported") return facilitator.getSupported();
  let body = "";
  for await (const chunk of request) body += chunk;
  const { paymentPayload, paymentRequirements } = JSON.parse(body);
  if (request.url === "/verify") return facilitator.verify(paymentPayload, paymentRequirements);
  if (request.url === "/settle") return facilitator.settle(paymentPayload, paymentRequirements);
  throw new Error("no such path: " + request.url);
}

const server = createServer(async (request, response) => {
  try {
    const text = JSON.stringify(await answer(request));
    response.writeHead(200, { "content-type": "application/json" }).end(text);
  } catch (e) {
    response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify({ error: String(e) }));
  }
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
