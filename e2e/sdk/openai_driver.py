"""The official OpenAI SDK for Python."""

import json
import os

import openai

from driver import ANSWER, CUT, HELLO, KEY, PDF, PNG, PROMPT, QUIET, SUNNY, THOUGHT, UNICODE, URL, WEATHER
from driver import caught, errors, model, run, same, true

HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": WEATHER["name"], "description": WEATHER["description"], "parameters": WEATHER["schema"]}}]
CALLS = ["Paris", "Rome"]


def client(key=KEY, suffix="/v1", retries=0):
    return openai.OpenAI(base_url=URL + suffix, api_key=key, max_retries=retries, timeout=60)


def create(behaviour, messages=HI, retries=0, **more):
    return client(retries=retries).chat.completions.create(model=model(behaviour), messages=messages, **more)


def text(chunks):
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def streamed(behaviour, **more):
    with client().chat.completions.stream(model=model(behaviour), messages=HI, **more) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion().choices[0]


def check_calls(choice, cities):
    same(choice.finish_reason, "tool_calls")
    calls = choice.message.tool_calls
    same([(c.type, c.function.name, json.loads(c.function.arguments)) for c in calls], [("function", "get_weather", {"city": city}) for city in cities])
    same(len({c.id for c in calls}), len(cities))


def chat():
    raw = client().chat.completions.with_raw_response.create(model=model("chat"), messages=HI)
    answer = raw.parse()
    same(answer.choices[0].message.content, HELLO)
    same(answer.choices[0].finish_reason, "stop")
    same(answer.model, model("chat"))
    true(answer.usage.prompt_tokens > 0, "no prompt tokens")
    same(answer.usage.completion_tokens, 5)
    true(raw.headers["x-request-id"], "no request id")


def stream():
    chunks = list(create("chat", stream=True, stream_options={"include_usage": True}))
    same(text(chunks), HELLO)
    same([c.usage.completion_tokens for c in chunks if c.usage], [5])
    same([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop")
    plain = list(create("chat", stream=True))
    true(all(c.choices and c.usage is None for c in plain), "K-28: an extra chunk is shown")


def base_url():
    answer = client(suffix="").chat.completions.create(model=model("chat"), messages=HI)
    same(answer.choices[0].message.content, HELLO)


def environment():
    """Two variables are all that a program needs."""
    os.environ |= {"OPENAI_BASE_URL": URL + "/v1", "OPENAI_API_KEY": KEY}
    same(openai.OpenAI().chat.completions.create(model=model("chat"), messages=HI).choices[0].message.content, HELLO)


def models():
    true(model("chat") in [m.id for m in client().models.list()], "the model is not listed")
    same(client().models.retrieve(model("chat")).id, model("chat"))
    true(isinstance(caught(lambda: create("unheard-of")), openai.NotFoundError), "an unknown model is not NotFoundError")


def tools():
    choice = create("tools", tools=TOOLS).choices[0]
    same(choice.message.content, "Let me see.")
    check_calls(choice, CALLS)


def tools_stream():
    choice = streamed("tools", tools=TOOLS)
    same(choice.message.content, "Let me see.")
    check_calls(choice, CALLS)


def loop():
    call = create("loop", tools=TOOLS).choices[0].message
    results = [{"role": "tool", "tool_call_id": c.id, "content": "sunny"} for c in call.tool_calls]
    same(len(results), 1)
    history = [*HI, call.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True), *results]
    same(create("loop", messages=history, tools=TOOLS).choices[0].message.content, SUNNY)
    same(text(create("loop", messages=history, tools=TOOLS, stream=True)), SUNNY)


def thinks():
    message = create("thinks").choices[0].message
    same((message.reasoning_content, message.content), (THOUGHT, HELLO))
    chunks = list(create("thinks", stream=True))
    same("".join(getattr(c.choices[0].delta, "reasoning_content", None) or "" for c in chunks if c.choices), THOUGHT)
    same(text(chunks), HELLO)


def unicode():
    messages = [{"role": "user", "content": UNICODE}]
    same(create("unicode", messages=messages).choices[0].message.content, UNICODE)
    same(text(create("unicode", messages=messages, stream=True)), UNICODE)


def unicode_tools():
    check_calls(create("unicode-tools", tools=TOOLS).choices[0], [UNICODE])
    check_calls(streamed("unicode-tools", tools=TOOLS), [UNICODE])


def files():
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    document = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}, image, document]}]
    same(create("files", messages=messages).choices[0].message.content, HELLO)


def large():
    messages = [{"role": "user", "content": PROMPT}]
    whole = create("large", messages=messages).choices[0].message.content
    same(len(whole), ANSWER)
    same(text(create("large", messages=messages, stream=True)), whole)


def retry():
    same(create("retry", retries=1).choices[0].message.content, HELLO)


def cancel():
    with create("slow", stream=True) as chunks:
        for c in chunks:
            if c.choices and c.choices[0].delta.content:
                return


def heartbeat(behaviour):
    same(text(create(behaviour, stream=True)), QUIET)


def dies(behaviour):
    got = []
    error = caught(lambda: [got.append(c) for c in create(behaviour, stream=True)])
    true(not isinstance(error, openai.BadRequestError), "K-47: a mistake of the caller's")
    same(text(got), CUT)
    return {"exception": type(error).__name__, "detail": str(error)}


def refuse(key, model, stream):
    client(key).chat.completions.create(model=model, messages=HI, stream=stream)


CASES = {
    "chat": chat, "stream": stream, "base-url": base_url, "environment": environment, "models": models, "tools": tools, "tools-stream": tools_stream, "loop": loop,
    "thinks": thinks, "unicode": unicode, "unicode-tools": unicode_tools, "files": files, "large": large, "retry": retry, "cancel": cancel,
    "heartbeat": lambda: heartbeat("quiet"), "heartbeat2": lambda: heartbeat("quiet2"),
    "dies": lambda: dies("dies"), "dies2": lambda: dies("dies2"),
}
errors(CASES, refuse, openai.APIStatusError, lambda body: body["code"])
run(openai.__version__, CASES)
