// Pays for each request that a line of the standard input has as JSON, by url and body, with a foreign client, and prints what came in a line: node
// driver.cjs CLIENT, with KEY and CHAIN (an RPC address) in the environment. CLIENT is fetch or upto (@x402/fetch, version 2 of the protocol, by that scheme) or old (x402-fetch, version 1). Every request and its status is printed as well.
const { createInterface } = require("node:readline");
const { privateKeyToAccount } = require("viem/accounts");

const account = privateKeyToAccount(process.env.KEY);
let seen = [];
const spy = async (input, init) => {
  const request = new Request(input, init);
  const sent = request.headers.get("payment-signature") ?? request.headers.get("x-payment");
  const response = await fetch(request);
  seen.push({ status: response.status, payment: sent });
  return response;
};

function payer() {
  if (process.argv[2] === "old") {
    return require("x402-fetch").wrapFetchWithPayment(spy, account, BigInt(10_000_000));
  }
  const { wrapFetchWithPaymentFromConfig } = require("@x402/fetch");
  const Scheme = process.argv[2] === "upto" ? require("@x402/evm/upto/client").UptoEvmScheme : require("@x402/evm/exact/client").ExactEvmScheme;
  return wrapFetchWithPaymentFromConfig(spy, {
    schemes: [{ network: "eip155:84532", client: new Scheme(account, { rpcUrl: process.env.CHAIN }) }],
    spendControls: { allowedAssets: true },
  });
}

async function pay({ url, body }) {
  seen = [];
  const response = await payer()(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  const result = response.headers.get("payment-response");
  console.log(JSON.stringify({
    status: response.status, text: await response.text(), seen, request: response.headers.get("x-request-id"),
    settlement: result && JSON.parse(atob(result)), old: response.headers.get("x-payment-response"),
  }));
}

(async () => {
  for await (const line of createInterface({ input: process.stdin })) await pay(JSON.parse(line));
})().catch((e) => {
  console.log(JSON.stringify({ error: String(e), seen }));
  process.exit(1);
});
