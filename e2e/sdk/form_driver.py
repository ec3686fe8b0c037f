"""The official SDKs for Python, by their own helpers for answers in a form: models of every way to be asked, at providers of every format."""

import os
from typing import Literal, Optional

import anthropic
import openai
import pydantic

URL, KEY, MODELS = os.environ["BARDO_URL"], os.environ["BARDO_KEY"], os.environ["BARDO_MODELS"].split()
HI = [{"role": "user", "content": "Ann is 34."}]


class Place(pydantic.BaseModel):
    city: str
    near: Optional["Place"] = None


class Person(pydantic.BaseModel):
    """Who somebody is."""

    name: str
    age: int = pydantic.Field(ge=0, le=150)
    mood: Literal["good", "bad"]
    born: Optional[Place] = None
    tags: list[str] = []


def person(p):
    assert isinstance(p, Person), repr(p)


def of_chat(model):
    c = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
    person(c.chat.completions.parse(model=model, messages=HI, response_format=Person).choices[0].message.parsed)
    with c.chat.completions.stream(model=model, messages=HI, response_format=Person) as stream:
        person(stream.get_final_completion().choices[0].message.parsed)
    raw = c.chat.completions.with_raw_response.create(model=model, messages=HI, extra_headers={"X-Bardo-Subsystem": "risk"})
    assert "valid=true" in raw.headers["x-bardo-schema"], raw.headers
    assert '"hard_shields"' in raw.parse().choices[0].message.content


def of_responses(model):
    c = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
    person(c.responses.parse(model=model, input="Ann is 34.", text_format=Person).output_parsed)
    with c.responses.stream(model=model, input="Ann is 34.", text_format=Person) as stream:
        person(stream.get_final_response().output_parsed)


def of_anthropic(model):
    c = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
    person(c.messages.parse(model=model, max_tokens=1000, messages=HI, output_format=Person).parsed_output)
    with c.messages.stream(model=model, max_tokens=1000, messages=HI, output_format=Person) as stream:
        person(stream.get_final_message().parsed_output)


failed = []
for model in MODELS:
    for call in (of_chat, of_responses, of_anthropic):
        try:
            call(model)
        except Exception as e:
            failed.append(f"{call.__name__} of {model}: {type(e).__name__}: {e}")
assert not failed, "\n".join(failed)
