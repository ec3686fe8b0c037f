"""LangChain's integrations of OpenAI and of Anthropic: BARDO_CLIENT says which."""

import os
from importlib.metadata import version

from langchain_core.messages import HumanMessage, ToolMessage

from driver import ANSWER, CUT, HELLO, KEY, PDF, PNG, PROMPT, QUIET, SUNNY, THOUGHT, UNICODE, URL, WEATHER
from driver import caught, errors, model, run, same, true

PACKAGE = os.environ["BARDO_CLIENT"]
OPENAI = PACKAGE == "langchain-openai"
if OPENAI:
    import openai as sdk
    from langchain_openai import ChatOpenAI as Chat
else:
    import anthropic as sdk
    from langchain_anthropic import ChatAnthropic as Chat
TOOLS = [{"type": "function", "function": {"name": WEATHER["name"], "description": WEATHER["description"], "parameters": WEATHER["schema"]}}]
CALLS = ["Paris", "Rome"]
HI = [HumanMessage("hi")]


def chat_model(name, key=KEY, other=False, **more):
    """With other, the base URL has the habit of the other integration: with /v1 or without."""
    url = URL + ("/v1" if OPENAI != other else "")
    return Chat(base_url=url, api_key=key, model=name, **{"max_tokens": 100, "max_retries": 0, "timeout": 60, **more})


def whole(behaviour, messages=HI, tools=None, **more):
    llm = chat_model(model(behaviour), **more)
    return (llm.bind_tools(tools) if tools else llm).invoke(messages)


def streamed(behaviour, messages=HI, tools=None, got=None, **more):
    llm = chat_model(model(behaviour), **more)
    got = [] if got is None else got
    for chunk in (llm.bind_tools(tools) if tools else llm).stream(messages):
        got.append(chunk)
    return total(got)


def total(chunks):
    answer = chunks[0]
    for chunk in chunks[1:]:
        answer += chunk
    return answer


def both(check, *args, **more):
    check(whole(*args, **more))
    check(streamed(*args, **more))


def check_calls(answer, cities):
    same([(c["name"], c["args"]) for c in answer.tool_calls], [("get_weather", {"city": city}) for city in cities])
    same(len({c["id"] for c in answer.tool_calls}), len(cities))
    same(answer.invalid_tool_calls, [])


def check_hello(answer):
    same(answer.text, HELLO)
    same(answer.response_metadata.get("finish_reason" if OPENAI else "stop_reason"), "stop" if OPENAI else "end_turn")
    true(answer.usage_metadata["input_tokens"] > 0, "no input tokens")
    same(answer.usage_metadata["output_tokens"], 5)


def see(answer):
    same(answer.text, "Let me see.")
    check_calls(answer, CALLS)


def says(want):
    return lambda answer: same(answer.text, want)


def loop():
    call = whole("loop", tools=TOOLS)
    check_calls(call, ["Paris"])
    both(says(SUNNY), "loop", [*HI, call, ToolMessage("sunny", tool_call_id=call.tool_calls[0]["id"])], TOOLS)


def thinks():
    def check(answer):
        same([b["reasoning"] for b in answer.content_blocks if b["type"] == "reasoning"], [THOUGHT])
        same(answer.text, HELLO)

    more = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
    both(check, "thinks", **more)
    first = streamed("thinks", **more)
    same(whole("thinks", [*HI, first, *HI], **more).text, HELLO)


def files():
    """Image and document in LangChain's own form, which its integrations translate."""
    image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    document = {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "a.pdf"}
    same(whole("files", [HumanMessage([{"type": "text", "text": "hi"}, image, document])]).text, HELLO)


def cancel():
    chunks = chat_model(model("slow")).stream(HI)
    for chunk in chunks:
        if chunk.text:
            break
    chunks.close()


def dies(behaviour):
    got = []
    error = caught(lambda: streamed(behaviour, got=got))
    true(not isinstance(error, sdk.BadRequestError), "K-47: a mistake of the caller's")
    same(total(got).text, CUT)
    return {"exception": type(error).__name__, "detail": str(error)}


def refuse(key, name, stream):
    llm = chat_model(name, key)
    list(llm.stream(HI)) if stream else llm.invoke(HI)


CASES = {
    "chat": lambda: check_hello(whole("chat")),
    "stream": lambda: check_hello(streamed("chat", **({"stream_usage": True} if OPENAI else {}))),
    "base-url": lambda: same(whole("chat", other=True).text, HELLO),
    "tools": lambda: see(whole("tools", tools=TOOLS)),
    "tools-stream": lambda: see(streamed("tools", tools=TOOLS)),
    "loop": loop,
    "unicode": lambda: both(says(UNICODE), "unicode", [HumanMessage(UNICODE)]),
    "unicode-tools": lambda: both(lambda answer: check_calls(answer, [UNICODE]), "unicode-tools", tools=TOOLS),
    "files": files,
    "large": lambda: both(lambda answer: same(len(answer.text), ANSWER), "large", [HumanMessage(PROMPT)]),
    "retry": lambda: same(whole("retry", max_retries=1).text, HELLO),
    "cancel": cancel,
    "heartbeat": lambda: same(streamed("quiet").text, QUIET),
    "heartbeat2": lambda: same(streamed("quiet2").text, QUIET),
    "dies": lambda: dies("dies"),
    "dies2": lambda: dies("dies2"),
}
if not OPENAI:
    CASES["thinks"] = thinks
errors(CASES, refuse, sdk.APIStatusError, lambda body: (body if OPENAI else body["error"])["code"])
run(version(PACKAGE), CASES)
