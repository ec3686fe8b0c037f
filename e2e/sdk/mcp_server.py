"""An MCP server of the official Python SDK. Prints its port, then serves until it is killed. It prints a line for each call of `wait` that ends."""

import socket

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic import BaseModel

server = MCPServer("python", instructions="Be kind.", version="1.2.3")


class Weather(BaseModel):
    city: str
    celsius: float


@server.tool()
def echo(text: str) -> str:
    """Returns the text."""
    return text


@server.tool()
def weather(city: str) -> Weather:
    """Returns an object."""
    return Weather(city=city, celsius=21.5)


@server.tool()
def picture() -> CallToolResult:
    """Returns an image and a text."""
    return CallToolResult(content=[ImageContent(type="image", data="aGk=", mime_type="image/png"), TextContent(type="text", text="a picture")])


@server.tool()
async def slow(ctx: Context) -> str:
    """Reports progress three times."""
    for i in range(3):
        await ctx.report_progress(i + 1, 3)
    return "done"


@server.tool()
async def wait(ctx: Context) -> str:
    """Returns nothing before it is cancelled."""
    try:
        await ctx.report_progress(1, 1)
        await anyio.sleep_forever()
    finally:
        print("cancelled", flush=True)


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("on purpose")


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}"


@server.resource("file:///readme")
def readme() -> str:
    return "Read me"


@server.resource("note://{number}")
def note(number: str) -> str:
    return f"Note {number}"


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listener])
