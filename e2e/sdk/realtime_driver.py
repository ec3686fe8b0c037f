"""OpenAI's SDK for Python holds a realtime session through the gateway: written turns, a spoken one, a refused event, and a refused handshake."""

import base64
import os
import sys

from openai import OpenAI
from websockets.exceptions import InvalidStatus

base = os.environ["BARDO_URL"] + "/v1"


def same(got, want):
    if got != want:
        sys.exit(f"got {got!r}, want {want!r}")


def until(session, kind):
    heard = ""
    for event in session:
        if event.type == "response.output_audio_transcript.delta":
            heard += event.delta
        if event.type == kind:
            return event, heard
    sys.exit(f"no {kind}")


with OpenAI(base_url=base, api_key=os.environ["BARDO_KEY"]).realtime.connect(model="gpt-realtime") as session:
    same(until(session, "session.created")[0].session.type, "realtime")
    session.session.update(session={"type": "realtime", "instructions": "Be short.", "output_modalities": ["audio"]})
    until(session, "session.updated")
    session.conversation.item.create(item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hello!"}]})
    session.response.create()
    done, heard = until(session, "response.done")
    same((heard, done.response.status), ("Hello from the fake provider.", "completed"))
    used = done.response.usage
    same(used.input_tokens > 0 and used.output_token_details.audio_tokens > 0, True)
    for pcm in (b"\x01\x02" * 12000, bytes(24000)):
        session.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())
    done, heard = until(session, "response.done")
    same((heard, done.response.usage.input_token_details.audio_tokens > 0), ("Hello from the fake provider.", True))
    session.session.update(event_id="mine", session={"type": "realtime", "audio": {"input": {"transcription": {"model": "whisper-1"}}}})
    error = until(session, "error")[0].error
    same((error.event_id, error.code, error.type), ("mine", "invalid_request", "invalid_request_error"))

try:
    with OpenAI(base_url=base, api_key="sk-wrong").realtime.connect(model="gpt-realtime"):
        sys.exit("a wrong key opened a session")
except InvalidStatus as e:
    same(e.response.status_code, 401)
print("ok")
