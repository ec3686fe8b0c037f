"""The official SDKs for Python, by their calls about what a vendor keeps: files, batches and responses."""

import os

import anthropic
import openai

URL, KEY = os.environ["BARDO_URL"], os.environ["BARDO_KEY"]
LINE = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{}}\n'


def same(got, want):
    assert got == want, f"{got!r}, want {want!r}"


def of_openai():
    c = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
    file = c.files.create(file=("input.jsonl", LINE), purpose="batch")
    same(c.files.content(file.id).read(), LINE)
    batch = c.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    batch = c.batches.retrieve(batch.id)
    same(batch.status, "completed")
    assert b"custom_id" in c.files.content(batch.output_file_id).read()
    same([b.id for b in c.batches.list()], [batch.id])
    same(c.batches.cancel(batch.id).status, "cancelling")
    same(c.files.delete(file.id).deleted, True)
    try:
        c.files.retrieve(file.id)
        raise AssertionError("the deleted file is there")
    except openai.NotFoundError:
        pass
    made = c.responses.create(model="direct/openai/gpt-4.1", input="hi")
    same(c.responses.retrieve(made.id).id, made.id)
    c.responses.delete(made.id)


def of_anthropic():
    c = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
    params = {"model": "claude-sonnet-4-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    batch = c.messages.batches.create(requests=[{"custom_id": "a", "params": params}])
    same(c.messages.batches.retrieve(batch.id).processing_status, "ended")
    same([r.custom_id for r in c.messages.batches.results(batch.id)], ["a"])
    same([b.id for b in c.messages.batches.list()], [batch.id])
    same(c.messages.batches.cancel(batch.id).processing_status, "canceling")
    file = c.beta.files.upload(file=("note.txt", b"text", "text/plain"))
    same(c.beta.files.download(file.id).read(), b"text")
    c.beta.files.delete(file.id)


of_openai()
of_anthropic()
