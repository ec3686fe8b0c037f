// Pays for one request with a foreign client and prints what came: node driver.cjs CLIENT, with URL, KEY, CHAIN (an RPC address) and BODY in the
// environment. CLIENT is fetch or upto (@x402/fetch, version 2 of the protocol, by that scheme) or old (x402-fetch, version 1). Every request and its status is printed as well.
const { privateKeyToAccount } = require("viem/accounts");

const account = privateKeyToAccount(process.env.KEY);
const seen = [];
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

(async () => {
  const response = await payer()(process.env.URL, { method: "POST", headers: { "content-type": "application/json" }, body: process.env.BODY });
  const result = response.headers.get("payment-response");
  console.log(JSON.stringify({
    status: response.status, text: await response.text(), seen, request: response.headers.get("x-request-id"),
    settlement: result && JSON.parse(atob(result)), old: response.headers.get("x-payment-response"),
  }));
})().catch((e) => {
  console.log(JSON.stringify({ error: String(e), seen }));
  process.exit(1);
});
