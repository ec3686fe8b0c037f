"""Google's SDK for Python, google-genai."""

import base64
import os

from google import genai
from google.genai import errors as genai_errors
from google.genai import types

from driver import ANSWER, CUT, HELLO, KEY, PDF, PNG, PROMPT, QUIET, SUNNY, THOUGHT, UNICODE, URL, WEATHER
from driver import caught, errors, model, run, same, true

DECLARATION = types.FunctionDeclaration(name=WEATHER["name"], description=WEATHER["description"], parameters_json_schema=WEATHER["schema"])
TOOLS = {"tools": [types.Tool(function_declarations=[DECLARATION])], "automatic_function_calling": {"disable": True}}
CALLS = ["Paris", "Rome"]


CLIENTS = []  # one that nobody holds closes itself


def client(key=KEY, suffix="", retries=0):
    retry = types.HttpRetryOptions(attempts=retries + 1, initial_delay=1.2, http_status_codes=[429])
    CLIENTS.append(genai.Client(api_key=key, http_options=types.HttpOptions(base_url=URL + suffix, timeout=60_000, retry_options=retry)))
    return CLIENTS[-1]


def whole(behaviour, contents="hi", retries=0, key=KEY, **config):
    return client(key, retries=retries).models.generate_content(model=model(behaviour), contents=contents, config=config or None)


def chunks(behaviour, contents="hi", key=KEY, **config):
    yield from client(key).models.generate_content_stream(model=model(behaviour), contents=contents, config=config or None)


def parts(answer):
    content = answer.candidates[0].content if answer.candidates else None
    return (content.parts if content else None) or []


def text(answers, thought=False):
    return "".join(p.text or "" for a in answers for p in parts(a) if bool(p.thought) == thought)


def streamed(behaviour, contents="hi", **config):
    return list(chunks(behaviour, contents, **config))


def check_calls(answers, cities):
    calls = [p.function_call for a in answers for p in parts(a) if p.function_call]
    same([(c.name, c.args) for c in calls], [("get_weather", {"city": city}) for city in cities])
    same(len({c.id for c in calls}), len(cities))
    same(answers[-1].candidates[0].finish_reason, types.FinishReason.STOP)


def check_hello(answers):
    same(text(answers), HELLO)
    last = answers[-1]
    same(last.candidates[0].finish_reason, types.FinishReason.STOP)
    same(last.model_version, model("chat"))
    true(last.response_id, "no id")
    true(last.usage_metadata.prompt_token_count > 0, "no prompt tokens")
    same(last.usage_metadata.candidates_token_count, 5)


def base_url():
    answer = client(suffix="/v1beta").models.generate_content(model=model("chat"), contents="hi")
    same(text([answer]), HELLO)


def environment():
    """Two variables are all that a program needs."""
    os.environ |= {"GOOGLE_GEMINI_BASE_URL": URL, "GEMINI_API_KEY": KEY}
    c = genai.Client()
    same(text([c.models.generate_content(model=model("chat"), contents="hi")]), HELLO)


def models():
    c = client()
    true("models/" + model("chat") in [m.name for m in c.models.list()], "the model is not listed")
    same(c.models.get(model=model("chat")).name, "models/" + model("chat"))
    true(c.models.count_tokens(model=model("chat"), contents="hi there").total_tokens > 0, "no tokens")
    error = caught(lambda: c.models.generate_content(model="unheard-of", contents="hi"))
    true(isinstance(error, genai_errors.ClientError) and error.code == 404, f"an unknown model raises {error}")


def see(answers):
    same(text(answers), "Let me see.")
    check_calls(answers, CALLS)


def loop():
    first = whole("loop", **TOOLS)
    check_calls([first], ["Paris"])
    call = parts(first)[0].function_call
    result = types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"result": "sunny"}))
    history = [types.Content(role="user", parts=[types.Part(text="hi")]), first.candidates[0].content, types.Content(role="user", parts=[result])]
    same(text([whole("loop", history, **TOOLS)]), SUNNY)
    same(text(streamed("loop", history, **TOOLS)), SUNNY)


def conversation():
    """The SDK's own history, which gives back what the model said, part by part."""
    chat = client().chats.create(model=model("thinks"), config={"thinking_config": {"include_thoughts": True}})
    same(text([chat.send_message("hi")]), HELLO)
    same(text(list(chat.send_message_stream("hi again"))), HELLO)
    same(text([chat.send_message("and again")]), HELLO)


def thinks():
    thinking = {"thinking_config": {"include_thoughts": True}}
    for answers in ([whole("thinks", **thinking)], streamed("thinks", **thinking)):
        same((text(answers, thought=True), text(answers)), (THOUGHT, HELLO))


def unicode():
    same(text([whole("unicode", UNICODE)]), UNICODE)
    same(text(streamed("unicode", UNICODE)), UNICODE)


def unicode_tools():
    check_calls([whole("unicode-tools", **TOOLS)], [UNICODE])
    check_calls(streamed("unicode-tools", **TOOLS), [UNICODE])


def files():
    image = types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")
    document = types.Part.from_bytes(data=base64.b64decode(PDF), mime_type="application/pdf")
    same(text([whole("files", ["hi", image, document])]), HELLO)


def large():
    answer = text([whole("large", PROMPT)])
    same(len(answer), ANSWER)
    same(text(streamed("large", PROMPT)), answer)


def cancel():
    c = client()
    for answer in c.models.generate_content_stream(model=model("slow"), contents="hi"):
        if text([answer]):
            break
    c.close()


def dies(behaviour):
    got = []
    error = caught(lambda: [got.append(a) for a in chunks(behaviour)])
    true(not isinstance(error, genai_errors.ClientError), "K-47: a mistake of the caller's")
    same(text(got), CUT)
    return {"exception": type(error).__name__, "detail": str(error)}


def refuse(key, name, stream):
    c = client(key)
    list(c.models.generate_content_stream(model=name, contents="hi")) if stream else c.models.generate_content(model=name, contents="hi")


CASES = {
    "chat": lambda: check_hello([whole("chat")]), "stream": lambda: check_hello(streamed("chat")), "base-url": base_url, "environment": environment, "models": models,
    "tools": lambda: see([whole("tools", **TOOLS)]), "tools-stream": lambda: see(streamed("tools", **TOOLS)), "loop": loop, "conversation": conversation,
    "thinks": thinks, "unicode": unicode, "unicode-tools": unicode_tools, "files": files, "large": large,
    "retry": lambda: same(text([whole("retry", retries=1)]), HELLO), "cancel": cancel,
    "heartbeat": lambda: same(text(streamed("quiet")), QUIET), "heartbeat2": lambda: same(text(streamed("quiet2")), QUIET),
    "dies": lambda: dies("dies"), "dies2": lambda: dies("dies2"),
}
errors(CASES, refuse, genai_errors.APIError, lambda body: body["error"]["details"][0]["reason"])
run(genai.__version__, CASES)
