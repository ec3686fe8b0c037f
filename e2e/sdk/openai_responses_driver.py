"""The official OpenAI SDK for Python, by its Responses calls."""

import json
import os

import openai
import pydantic

from driver import ANSWER, CUT, HELLO, KEY, PDF, PNG, PROMPT, QUIET, SUNNY, THOUGHT, UNICODE, URL, WEATHER
from driver import caught, errors, model, run, same, true

HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "name": WEATHER["name"], "description": WEATHER["description"], "parameters": WEATHER["schema"], "strict": False}]
CALLS = ["Paris", "Rome"]


def client(key=KEY, suffix="/v1", retries=0):
    return openai.OpenAI(base_url=URL + suffix, api_key=key, max_retries=retries, timeout=60)


def create(behaviour, input="hi", retries=0, **more):
    return client(retries=retries).responses.create(model=model(behaviour), input=input, **more)


def text(events, of="response.output_text.delta"):
    return "".join(e.delta for e in events if e.type == of)


def streamed(behaviour, **more):
    """The response that the SDK puts together of a stream."""
    with client().responses.stream(model=model(behaviour), input="hi", **more) as stream:
        for _ in stream:
            pass
        return stream.get_final_response()


def check_calls(response, cities):
    same(response.status, "completed")
    calls = [o for o in response.output if o.type == "function_call"]
    same([(c.name, json.loads(c.arguments)) for c in calls], [("get_weather", {"city": city}) for city in cities])
    same(len({c.call_id for c in calls}), len(cities))


def chat():
    raw = client().responses.with_raw_response.create(model=model("chat"), input="hi")
    answer = raw.parse()
    same(answer.output_text, HELLO)
    same((answer.status, answer.model), ("completed", model("chat")))
    true(answer.usage.input_tokens > 0, "no input tokens")
    same(answer.usage.output_tokens, 5)
    true(raw.headers["x-request-id"], "no request id")


def stream():
    events = list(create("chat", stream=True))
    same(text(events), HELLO)
    same([e.sequence_number for e in events], list(range(len(events))))
    same((events[0].type, events[-1].type), ("response.created", "response.completed"))
    same((events[-1].response.output_text, events[-1].response.usage.output_tokens), (HELLO, 5))
    same({e.item_id for e in events if e.type == "response.output_text.delta"}, {events[-1].response.output[0].id})


def base_url():
    same(client(suffix="").responses.create(model=model("chat"), input=HI, instructions="Be brief.").output_text, HELLO)


def environment():
    """Two variables are all that a program needs."""
    os.environ |= {"OPENAI_BASE_URL": URL + "/v1", "OPENAI_API_KEY": KEY}
    same(openai.OpenAI().responses.create(model=model("chat"), input="hi").output_text, HELLO)


def tools():
    response = create("tools", tools=TOOLS)
    same(response.output_text, "Let me see.")
    check_calls(response, CALLS)


def tools_stream():
    response = streamed("tools", tools=TOOLS)
    same(response.output_text, "Let me see.")
    check_calls(response, CALLS)


def loop():
    """As the SDK's guide has it: the output goes back as it came, with the results behind it."""
    asked = create("loop", HI, tools=TOOLS).output
    results = [{"type": "function_call_output", "call_id": o.call_id, "output": "sunny"} for o in asked if o.type == "function_call"]
    same(len(results), 1)
    history = [*HI, *asked, *results]
    same(create("loop", history, tools=TOOLS).output_text, SUNNY)
    same(text(create("loop", history, tools=TOOLS, stream=True)), SUNNY)


class City(pydantic.BaseModel):
    city: str


def structured():
    same(client().responses.parse(model=model("json"), input="hi", text_format=City).output_parsed, City(city="Paris"))
    same(streamed("json", text_format=City).output_parsed, City(city="Paris"))


def thinks():
    more = {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"], "store": False}
    response = create("thinks", **more)
    same([[s.text for s in o.summary] for o in response.output if o.type == "reasoning"], [[THOUGHT]])
    same(response.output_text, HELLO)
    events = list(create("thinks", stream=True, **more))
    same((text(events, "response.reasoning_summary_text.delta"), text(events)), (THOUGHT, HELLO))
    thought = [o for o in events[-1].response.output if o.type == "reasoning"]
    history = [*HI, *events[-1].response.output, *HI]
    same((create("thinks", history, **more).output_text, len(thought)), (HELLO, 1))


def kept():
    """What only a provider keeps is refused by name."""
    error = caught(lambda: client().responses.retrieve("resp_1"))
    same((type(error), error.code), (openai.BadRequestError, "requires_direct_key"))


def input_tokens():
    true(client().responses.input_tokens.count(model=model("chat"), input="How many tokens is this?").input_tokens > 0, "no tokens")


def unicode():
    same(create("unicode", UNICODE).output_text, UNICODE)
    same(text(create("unicode", UNICODE, stream=True)), UNICODE)


def unicode_tools():
    check_calls(create("unicode-tools", tools=TOOLS), [UNICODE])
    check_calls(streamed("unicode-tools", tools=TOOLS), [UNICODE])


def files():
    image = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}
    document = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
    same(create("files", [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, image, document]}]).output_text, HELLO)


def large():
    whole = create("large", PROMPT).output_text
    same(len(whole), ANSWER)
    same(text(create("large", PROMPT, stream=True)), whole)


def retry():
    same(create("retry", retries=1).output_text, HELLO)


def cancel():
    with create("slow", stream=True) as events:
        for e in events:
            if e.type == "response.output_text.delta":
                return


def heartbeat(behaviour):
    same(text(create(behaviour, stream=True)), QUIET)


def dies(behaviour):
    got = []
    error = caught(lambda: [got.append(e) for e in create(behaviour, stream=True)])
    true(not isinstance(error, openai.BadRequestError), "K-47: a mistake of the caller's")
    same(text(got), CUT)
    return {"exception": type(error).__name__, "detail": str(error)}


def refuse(key, model, stream):
    client(key).responses.create(model=model, input="hi", stream=stream)


CASES = {
    "chat": chat, "stream": stream, "base-url": base_url, "environment": environment, "tools": tools, "tools-stream": tools_stream, "loop": loop,
    "structured": structured, "thinks": thinks, "kept": kept, "input-tokens": input_tokens, "unicode": unicode, "unicode-tools": unicode_tools,
    "files": files, "large": large, "retry": retry, "cancel": cancel,
    "heartbeat": lambda: heartbeat("quiet"), "heartbeat2": lambda: heartbeat("quiet2"),
    "dies": lambda: dies("dies"), "dies2": lambda: dies("dies2"),
}
errors(CASES, refuse, openai.APIStatusError, lambda body: body["code"])
run(openai.__version__, CASES)
