"""The SDKs of OpenAI and Google for Python, by what else than words they ask for: embeddings, completions of a prompt, JSON, sound,
images, speech, moderation."""

import base64
import importlib.metadata
import io
import json
import os
import wave

import openai
from google import genai
from google.genai import types

from driver import HELLO, KEY, URL, run, same, true

WAV, MP3 = base64.b64encode(b"RIFF....WAVEfmt ").decode(), base64.b64encode(b"ID3.....").decode()
FORMATS = ["openai", "anthropic", "gemini"]
OPENAI = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=60)
GOOGLE = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=URL, timeout=60_000))


def embeddings():
    """The SDK asks for base64 where nobody says a form, and gives numbers."""
    one = OPENAI.embeddings.create(model="vectors", input="one")
    plain = OPENAI.embeddings.create(model="vectors", input="one", encoding_format="float")
    same(len(one.data[0].embedding), 1536)
    true(all(abs(a - b) < 1e-6 for a, b in zip(one.data[0].embedding, plain.data[0].embedding)), "base64 and numbers differ")
    same((one.model, one.usage.prompt_tokens, one.usage.total_tokens), ("vectors", 1, 1))
    several = OPENAI.embeddings.create(model="vectors", input=["a", "b", "c"], dimensions=4)
    same([(d.index, len(d.embedding)) for d in several.data], [(0, 4), (1, 4), (2, 4)])
    same(OPENAI.embeddings.create(model="vectors", input=[[1, 2, 3], [4]], dimensions=2).usage.prompt_tokens, 4)
    try:
        OPENAI.embeddings.create(model="json-openai", input="one", dimensions=-1, extra_body={"input": []})
        raise AssertionError("an empty input is taken")
    except openai.BadRequestError as e:
        same((e.code, e.param), ("invalid_request", "input"))


def prompts():
    whole = OPENAI.completions.create(model="prompts", prompt="hi", suffix="!", echo=True, logprobs=1)
    same((whole.choices[0].text, whole.choices[0].finish_reason), ("hi" + HELLO, "stop"))
    true(whole.choices[0].logprobs.token_logprobs, "no logprobs")
    true(whole.usage.completion_tokens > 0, "no usage")
    same([c.text for c in OPENAI.completions.create(model="prompts", prompt=["a", "b"], n=2).choices], [HELLO] * 4)
    same(len(OPENAI.completions.create(model="prompts", prompt=[[1, 2], [3]]).choices), 2)
    chunks = list(OPENAI.completions.create(model="prompts", prompt="hi", stream=True, stream_options={"include_usage": True}))
    same("".join(c.choices[0].text for c in chunks if c.choices), HELLO)
    same([c.usage.completion_tokens for c in chunks if c.usage], [5])
    for at in ("json-anthropic", "json-gemini"):
        same(OPENAI.completions.create(model=at, prompt="hi", max_tokens=50).choices[0].text, HELLO)
        same("".join(c.choices[0].text for c in OPENAI.completions.create(model=at, prompt="hi", stream=True) if c.choices), HELLO)
        try:
            OPENAI.completions.create(model=at, prompt="hi", suffix="!")
            raise AssertionError("a suffix is dropped")
        except openai.BadRequestError as e:
            same(e.param, "suffix")


def json_of_openai():
    ask = {"messages": [{"role": "user", "content": "Answer in JSON."}], "response_format": {"type": "json_object"}}
    for at in FORMATS:
        whole = OPENAI.chat.completions.create(model="json-" + at, **ask).choices[0].message.content
        chunks = OPENAI.chat.completions.create(model="json-" + at, stream=True, **ask)
        for text in (whole, "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)):
            true(isinstance(json.loads(text), dict), f"{text!r} is no object")


def json_of_google():
    config = types.GenerateContentConfig(response_mime_type="application/json")
    for at in FORMATS:
        ask = {"model": "json-" + at, "contents": "Answer in JSON.", "config": config}
        whole = GOOGLE.models.generate_content(**ask).text
        for text in (whole, "".join(c.text or "" for c in GOOGLE.models.generate_content_stream(**ask))):
            true(isinstance(json.loads(text), dict), f"{text!r} is no object")


def sound_of_openai():
    for form, data in (("wav", WAV), ("mp3", MP3)):
        part = {"type": "input_audio", "input_audio": {"data": data, "format": form}}
        messages = [{"role": "user", "content": [{"type": "text", "text": "What is said?"}, part]}]
        for at in ("openai", "gemini"):
            same(OPENAI.chat.completions.create(model="sound-" + at, messages=messages).choices[0].message.content, HELLO)
        try:
            OPENAI.chat.completions.create(model="sound-anthropic", messages=messages)
            raise AssertionError("sound is dropped")
        except openai.BadRequestError as e:
            true("messages[0].content[1]" in str(e), f"the part is not named: {e}")


def sound_of_google():
    for kind, data in (("audio/wav", WAV), ("audio/mp3", MP3)):
        contents = [types.Part(text="What is said?"), types.Part.from_bytes(data=base64.b64decode(data), mime_type=kind)]
        for at in ("openai", "gemini"):
            same(GOOGLE.models.generate_content(model="sound-" + at, contents=contents).text, HELLO)
        try:
            GOOGLE.models.generate_content(model="sound-anthropic", contents=contents)
            raise AssertionError("sound is dropped")
        except genai.errors.ClientError as e:
            same(e.code, 400)


def recording(seconds=1):
    """A second of silence, as a WAV file."""
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(1), w.setsampwidth(2), w.setframerate(16_000)
        w.writeframes(bytes(32_000 * seconds))
    return ("a.wav", out.getvalue(), "audio/wav")


def media():
    picture = ("a.png", b"\x89PNG\r\n\x1a\n", "image/png")
    same(len(OPENAI.images.generate(model="painter", prompt="a cat", n=2).data), 2)
    same(len(OPENAI.images.edit(model="painter", prompt="more cat", image=picture).data), 1)
    same(len(OPENAI.images.edit(model="painter", prompt="more cat", image=[picture, picture]).data), 1)
    same(len(OPENAI.images.create_variation(model="painter", image=picture).data), 1)
    raw = OPENAI.images.with_raw_response.generate(model="painter", prompt="a cat")
    same(raw.headers["x-bardo-cost"], "0.012000")
    with OPENAI.audio.speech.with_streaming_response.create(model="speaker", voice="alloy", input="Hello.", response_format="wav") as spoken:
        true(b"".join(spoken.iter_bytes()).startswith(b"RIFF"), "no WAV file")
    same(OPENAI.audio.transcriptions.create(model="writer", file=recording()).text, "Hello.")
    same(OPENAI.audio.transcriptions.create(model="writer", file=recording(), response_format="text").strip(), "Hello.")
    words = {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]}
    same(OPENAI.audio.transcriptions.create(model="writer", file=recording(), **words).duration, 1.25)
    same([e.type for e in OPENAI.audio.transcriptions.create(model="writer", file=recording(), stream=True)], ["transcript.text.delta", "transcript.text.done"])
    same(OPENAI.audio.translations.create(model="writer", file=recording()).text, "Hello.")
    true(OPENAI.moderations.create(model="judge", input=["x", "y"]).results[0].flagged, "nothing is flagged")
    try:
        OPENAI.audio.speech.create(model="painter", voice="alloy", input="x")
        raise AssertionError("a model of images speaks")
    except openai.BadRequestError as e:
        same(e.param, "model")


if os.environ["BARDO_CLIENT"] == "openai-python":
    run(openai.__version__, {"embeddings": embeddings, "prompts": prompts, "json": json_of_openai, "sound": sound_of_openai, "media": media})
run(importlib.metadata.version("google-genai"), {"json": json_of_google, "sound": sound_of_google})
