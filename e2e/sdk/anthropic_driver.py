"""The official Anthropic SDK for Python."""

import os

import anthropic

from driver import ANSWER, CUT, HELLO, KEY, PDF, PNG, PROMPT, QUIET, SUNNY, THOUGHT, UNICODE, URL, WEATHER
from driver import caught, errors, model, run, same, true

HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"name": WEATHER["name"], "description": WEATHER["description"], "input_schema": WEATHER["schema"]}]
CALLS = ["Paris", "Rome"]


def client(key=KEY, suffix="", retries=0):
    return anthropic.Anthropic(base_url=URL + suffix, api_key=key, max_retries=retries, timeout=60)


def ask(behaviour, messages=HI, **more):
    return {"model": model(behaviour), "max_tokens": 100, "messages": messages, **more}


def create(behaviour, retries=0, **more):
    return client(retries=retries).messages.create(**ask(behaviour, **more))


def streamed(behaviour, **more):
    with client().messages.stream(**ask(behaviour, **more)) as stream:
        return stream.get_final_message()


def text(answer):
    return "".join(b.text for b in answer.content if b.type == "text")


def check_calls(answer, cities):
    same(answer.stop_reason, "tool_use")
    calls = [b for b in answer.content if b.type == "tool_use"]
    same([(c.name, c.input) for c in calls], [("get_weather", {"city": city}) for city in cities])
    same(len({c.id for c in calls}), len(cities))


def check_hello(answer):
    same([b.text for b in answer.content], [HELLO])
    same((answer.stop_reason, answer.model), ("end_turn", model("chat")))
    true(answer.usage.input_tokens > 0, "no input tokens")
    same(answer.usage.output_tokens, 5)


def chat():
    answer = create("chat")
    check_hello(answer)
    true(answer._request_id, "no request id")


def stream():
    with client().messages.stream(**ask("chat")) as events:
        same("".join(events.text_stream), HELLO)
        check_hello(events.get_final_message())


def base_url():
    same(text(client(suffix="/v1").messages.create(**ask("chat"))), HELLO)


def environment():
    """Two variables are all that a program needs."""
    os.environ |= {"ANTHROPIC_BASE_URL": URL, "ANTHROPIC_API_KEY": KEY}
    same(text(anthropic.Anthropic().messages.create(**ask("chat"))), HELLO)


def count_tokens():
    true(client().messages.count_tokens(model=model("chat"), messages=HI).input_tokens > 0, "no tokens")


def unheard_of():
    true(isinstance(caught(lambda: create("unheard-of")), anthropic.NotFoundError), "an unknown model is not NotFoundError")


def tools():
    answer = create("tools", tools=TOOLS)
    same(text(answer), "Let me see.")
    check_calls(answer, CALLS)


def tools_stream():
    answer = streamed("tools", tools=TOOLS)
    same(text(answer), "Let me see.")
    check_calls(answer, CALLS)


def loop():
    call = create("loop", tools=TOOLS)
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": "sunny"} for b in call.content if b.type == "tool_use"]
    same(len(results), 1)
    history = [*HI, {"role": "assistant", "content": call.content}, {"role": "user", "content": results}]
    same(text(create("loop", messages=history, tools=TOOLS)), SUNNY)
    same(text(streamed("loop", messages=history, tools=TOOLS)), SUNNY)


def thinks():
    more = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
    first = create("thinks", **more)
    for answer in (first, streamed("thinks", **more)):
        same([b.type for b in answer.content], ["thinking", "text"])
        same((answer.content[0].thinking, text(answer)), (THOUGHT, HELLO))
    again = create("thinks", messages=[*HI, {"role": "assistant", "content": first.content}, *HI], **more)
    same(again.stop_reason, "end_turn")


def unicode():
    messages = [{"role": "user", "content": UNICODE}]
    same(text(create("unicode", messages=messages)), UNICODE)
    same(text(streamed("unicode", messages=messages)), UNICODE)


def unicode_tools():
    check_calls(create("unicode-tools", tools=TOOLS), [UNICODE])
    check_calls(streamed("unicode-tools", tools=TOOLS), [UNICODE])


def files():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
    messages = [{"role": "user", "content": [image, document, {"type": "text", "text": "hi"}]}]
    same(text(create("files", messages=messages)), HELLO)


def large():
    messages = [{"role": "user", "content": PROMPT}]
    whole = text(create("large", messages=messages))
    same(len(whole), ANSWER)
    same(text(streamed("large", messages=messages)), whole)


def retry():
    same(text(create("retry", retries=1)), HELLO)


def cancel():
    with create("slow", stream=True) as events:
        for e in events:
            if e.type == "content_block_delta":
                return


def heartbeat(behaviour):
    same(text(streamed(behaviour)), QUIET)


def dies(behaviour):
    got = []
    error = caught(lambda: [got.append(e) for e in create(behaviour, stream=True)])
    true(not isinstance(error, anthropic.BadRequestError), "K-47: a mistake of the caller's")
    same("".join(e.delta.text for e in got if e.type == "content_block_delta"), CUT)
    return {"exception": type(error).__name__, "detail": str(error)}


def refuse(key, model, stream):
    client(key).messages.create(model=model, max_tokens=100, messages=HI, stream=stream)


CASES = {
    "chat": chat, "stream": stream, "base-url": base_url, "environment": environment, "count-tokens": count_tokens, "unheard-of": unheard_of, "tools": tools,
    "tools-stream": tools_stream, "loop": loop, "thinks": thinks, "unicode": unicode, "unicode-tools": unicode_tools, "files": files, "large": large,
    "retry": retry, "cancel": cancel, "heartbeat": lambda: heartbeat("quiet"), "heartbeat2": lambda: heartbeat("quiet2"),
    "dies": lambda: dies("dies"), "dies2": lambda: dies("dies2"),
}
errors(CASES, refuse, anthropic.APIStatusError, lambda body: body["type"] == "error" and body["error"]["code"])
run(anthropic.__version__, CASES)
