"""The official SDKs for Python, by what the gateway puts beside an answer: its reasoning, where the header asks for it."""

import os

import anthropic
import openai
from google import genai
from google.genai import types

URL, KEY = os.environ["BARDO_URL"], os.environ["BARDO_KEY"]
FULL = {"X-Bardo-Reasoning": "full"}
HELLO, THOUGHT = "Hello from the fake provider.", "let me think"
MODELS = ["like-openai", "like-anthropic", "like-responses"]
HI = [{"role": "user", "content": "hi"}]


def same(got, want):
    assert got == want, f"{got!r}, want {want!r}"


def beside(of):
    chain = of.model_extra["bardo"]["reasoning"]
    same(chain["content"], THOUGHT)
    assert chain["reasoning_tokens"] > 0, chain


def of_chat(model):
    c = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, default_headers=FULL)
    answer = c.chat.completions.create(model=model, messages=HI)
    same(answer.choices[0].message.content, HELLO)
    beside(answer)
    chunks = list(c.chat.completions.create(model=model, messages=HI, stream=True, stream_options={"include_usage": True}))
    same("".join(k.choices[0].delta.content or "" for k in chunks if k.choices), HELLO)
    same(len([k for k in chunks if k.usage]), 1)
    beside(chunks[-1])
    same(chunks[-1].choices, [])
    with c.chat.completions.stream(model=model, messages=HI) as stream:
        for _ in stream:
            pass
        same(stream.get_final_completion().choices[0].message.content, HELLO)


def of_responses(model):
    c = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, default_headers=FULL)
    answer = c.responses.create(model=model, input="hi")
    same(answer.output_text, HELLO)
    beside(answer)
    events = list(c.responses.create(model=model, input="hi", stream=True))
    same(events[-1].type, "response.completed")
    beside(events[-1].response)
    with c.responses.stream(model=model, input="hi") as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    same(final.output_text, HELLO)
    beside(final)


def of_messages(model):
    c = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, default_headers=FULL)
    ask = {"model": model, "max_tokens": 100, "messages": HI}
    answer = c.messages.create(**ask)
    same([b.text for b in answer.content if b.type == "text"], [HELLO])
    beside(answer)
    events = list(c.messages.create(**ask, stream=True))
    same(events[-1].type, "message_stop")
    beside(events[-1])
    with c.messages.stream(**ask) as stream:
        same("".join(stream.text_stream), HELLO)
        same(stream.get_final_message().stop_reason, "end_turn")


def of_google(model):
    c = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=URL, headers=FULL))
    config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))
    same(c.models.generate_content(model=model, contents="hi", config=config).text, HELLO)
    chunks = list(c.models.generate_content_stream(model=model, contents="hi", config=config))
    same("".join(k.text or "" for k in chunks), HELLO)
    same(chunks[-1].candidates[0].finish_reason, types.FinishReason.STOP)


for model in MODELS:
    of_chat(model)
    of_responses(model)
    of_messages(model)
for model in [*MODELS, "like-gemini"]:
    of_google(model)
