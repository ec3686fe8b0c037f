"""The official SDKs for Python with their own number of retries: what do they make of an error?"""

import os
import sys

import anthropic
import openai

URL, KEY = os.environ["BARDO_URL"], os.environ["BARDO_KEY"]
client, model, subsystem = sys.argv[1:]
headers = {"X-Bardo-Subsystem": subsystem} if subsystem else {}
messages = [{"role": "user", "content": "hi"}]
try:
    if client == "openai":
        openai.OpenAI(base_url=URL + "/v1", api_key=KEY).chat.completions.create(model=model, messages=messages, extra_headers=headers)
    else:
        anthropic.Anthropic(base_url=URL, api_key=KEY).messages.create(model=model, max_tokens=100, messages=messages, extra_headers=headers)
    sys.exit("no error")
except (openai.APIStatusError, anthropic.APIStatusError) as e:
    print(e.status_code)
