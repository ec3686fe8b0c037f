# Pays for each request that a line of the standard input has as JSON, by url and body, with the client x402 of PyPI (httpx), as driver.cjs does: by scheme upto if that is its argument, else by exact.
import asyncio
import base64
import json
import os
import sys

import httpx
from eth_account import Account
from x402 import x402Client
from x402.http.clients.httpx import wrapHttpxWithPayment
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact.register import register_exact_evm_client
from x402.mechanisms.evm.upto.client import UptoEvmScheme


async def pay(url, body):
    seen = []

    async def spy(response):
        request = response.request
        seen.append({"status": response.status_code, "payment": request.headers.get("payment-signature") or request.headers.get("x-payment")})

    client = x402Client()
    signer = EthAccountSigner(Account.from_key(os.environ["KEY"]))
    if sys.argv[1:] == ["upto"]:
        client.register("eip155:*", UptoEvmScheme(signer))
    else:
        register_exact_evm_client(client, signer)
    client.set_spend_controls(False)
    async with wrapHttpxWithPayment(client, timeout=60, event_hooks={"response": [spy]}) as http:
        got = await http.post(url, headers={"content-type": "application/json"}, content=body)
        result = got.headers.get("payment-response")
        print(json.dumps({
            "status": got.status_code, "text": got.text, "seen": seen, "request": got.headers.get("x-request-id"),
            "settlement": json.loads(base64.b64decode(result)) if result else None, "old": got.headers.get("x-payment-response"),
        }), flush=True)


for line in sys.stdin:
    asyncio.run(pay(**json.loads(line)))
