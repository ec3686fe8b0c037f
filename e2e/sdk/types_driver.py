"""Checks answers, and the events of streams, against the types of the vendors' SDKs, strictly: no member of another type, none missing."""

import json
import os
import sys

from anthropic.types import Message, RawMessageStreamEvent
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

WHOLE = {"openai": ChatCompletion, "responses": Response, "anthropic": Message, "gemini": GenerateContentResponse}
PIECE = {"openai": ChatCompletionChunk, "responses": ResponseStreamEvent, "anthropic": RawMessageStreamEvent, "gemini": GenerateContentResponse}
types = {True: {k: TypeAdapter(t) for k, t in PIECE.items()}, False: {k: TypeAdapter(t) for k, t in WHOLE.items()}}


def pieces(body):
    """The JSON values of a stream. An error has no type in the SDKs, which raise it."""
    for frame in body.replace("\r\n", "\n").split("\n\n"):
        name, data = "", ""
        for line in frame.split("\n"):
            field, _, value = line.partition(":")
            name = value.strip() if field == "event" else name
            data += value.strip() if field == "data" else ""
        if not data or data == "[DONE]" or name == "ping":
            continue
        value = json.loads(data)
        if name and value.get("type") != name:
            raise ValueError(f"event {name} has the type {value.get('type')}")
        if not (name == "error" and "error" in value or not name and "error" in value):
            yield data


def of_its_type(types, value):
    """What is wrong with a value. Of an event only what its own type says is of interest."""
    try:
        types.validate_json(value, strict=True)
    except ValidationError as e:
        own = json.loads(value).get("type")
        wrong = [x for x in e.errors() if own is None or not any(y["loc"][:1] == x["loc"][:1] and y["loc"][-1] == "type" and y["input"] == own for y in e.errors())]
        return "; ".join(f"{'.'.join(map(str, x['loc']))}: {x['msg']} ({str(x['input'])[:80]})" for x in (wrong or e.errors())[:4])


count, wrong = 0, []
for line in open(os.environ["ANSWERS"]):
    a = json.loads(line)
    try:
        for value in pieces(a["Body"]) if a["Stream"] else [a["Body"]]:
            count += 1
            if why := of_its_type(types[a["Stream"]][a["Client"]], value):
                raise ValueError(why)
    except ValueError as e:
        wrong.append(f"{a['Client']} over {a['Provider']}, {a['Case']}, stream={a['Stream']}: {e}")
if wrong:
    sys.exit("\n".join(wrong[:20]))
print("ok", count)
