// Compiles contracts.sol of a folder to contracts.json beside it: the bytecode of each contract. Run it where solc is installed: npm install
// solc@0.8.37, then node build.mjs FOLDER, such as e2e/pay/contracts. The tests read contracts.json and need no compiler.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const solc = createRequire(process.cwd() + "/")("solc");
const here = pathToFileURL(resolve(process.argv[2]) + "/");
const input = {
  language: "Solidity",
  sources: { "contracts.sol": { content: readFileSync(new URL("contracts.sol", here), "utf8") } },
  settings: {
    optimizer: { enabled: true, runs: 200 },
    evmVersion: "cancun",
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
  },
};
const out = JSON.parse(solc.compile(JSON.stringify(input)));
for (const e of out.errors ?? []) console.error(e.formattedMessage);
if ((out.errors ?? []).some((e) => e.severity === "error")) process.exit(1);
const made = {};
for (const [name, c] of Object.entries(out.contracts["contracts.sol"])) {
  if (c.evm.bytecode.object) made[name] = c.evm.bytecode.object;
}
writeFileSync(new URL("contracts.json", here), JSON.stringify(made, null, 1) + "\n");
