"""The official Python client of MCP. BARDO_PATH is the gateway's path, BARDO_TOOLS what the names of tools begin with there, BARDO_MODE the client's mode:
`legacy` takes a session, `auto` none if the server's revision has none."""

import asyncio
import importlib.metadata
import os

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from driver import KEY, UNICODE, URL, run, same, true

PATH, TOOLS, MODE = (os.environ[name] for name in ("BARDO_PATH", "BARDO_TOOLS", "BARDO_MODE"))
ONE_SERVER = TOOLS == ""  # the path is of one server, which alone has resources


async def lists(c):
    true(c.protocol_version == {"legacy": "2025-11-25", "auto": "2026-07-28"}[MODE], c.protocol_version)
    same(c.instructions, "Be kind." if ONE_SERVER else None)
    same(sorted(tool.name for tool in (await c.list_tools()).tools), [TOOLS + name for name in ("echo", "fail", "picture", "slow", "wait", "weather")])


async def calls(c):
    r = await c.call_tool(TOOLS + "echo", {"text": UNICODE})
    same((r.content[0].text, r.is_error), (UNICODE, False))
    same((await c.call_tool(TOOLS + "weather", {"city": "Paris"})).structured_content, {"city": "Paris", "celsius": 21.5})
    r = await c.call_tool(TOOLS + "picture", {})
    same((r.content[0].data, r.content[0].mime_type, r.content[1].text), ("aGk=", "image/png", "a picture"))


async def parallel(c):
    texts = []

    async def one(i):
        texts.append((await c.call_tool(TOOLS + "echo", {"text": str(i)})).content[0].text)

    async with anyio.create_task_group() as group:
        for i in range(20):
            group.start_soon(one, i)
    same(sorted(texts, key=int), [str(i) for i in range(20)])


async def progress(c):
    got = []

    async def seen(done, total, message):
        got.append((done, total))

    same((await c.call_tool(TOOLS + "slow", {}, progress_callback=seen)).content[0].text, "done")
    same(got, [(1, 3), (2, 3), (3, 3)])


async def errors(c):
    r = await c.call_tool(TOOLS + "fail", {})
    true(r.is_error and "fail" in r.content[0].text, r)
    r = await c.call_tool(TOOLS + "echo", {"other": 1})
    true(r.is_error and "text" in r.content[0].text, r)


async def cancel(c):
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async def seen(*_):
            scope.cancel()

        await c.call_tool(TOOLS + "wait", {}, progress_callback=seen)
    true(scope.cancelled_caught, "the call returned")
    same((await c.call_tool(TOOLS + "echo", {"text": "after"})).content[0].text, "after")


async def prompts(c):
    same([p.name for p in (await c.list_prompts()).prompts], [TOOLS + "greet"])
    same((await c.get_prompt(TOOLS + "greet", {"name": "you"})).messages[0].content.text, "Greet you")


async def resources(c):
    same([str(r.uri) for r in (await c.list_resources()).resources], ["file:///readme"])
    same([r.uri_template for r in (await c.list_resource_templates()).resource_templates], ["note://{number}"])
    same((await c.read_resource("file:///readme")).contents[0].text, "Read me")
    same((await c.read_resource("note://7")).contents[0].text, "Note 7")


def alone(case):
    """Runs a case with a client of its own."""

    async def connected():
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as http:
            async with Client(streamable_http_client(URL + PATH, http_client=http), mode=MODE) as c:
                await case(c)

    return lambda: asyncio.run(connected())


cases = [lists, calls, parallel, progress, errors, cancel, prompts]
if ONE_SERVER:
    cases.append(resources)
run(importlib.metadata.version("mcp"), {case.__name__: alone(case) for case in cases})
