"""Anthropic's SDK for Python reads the gateway's models: everything that the SDK's types have, and nothing of another type."""

import os
import sys

import anthropic
from anthropic.types import ModelInfo

client = anthropic.Anthropic(base_url=os.environ["BARDO_URL"], api_key=os.environ["BARDO_KEY"], max_retries=0)


def same(got, want):
    if got != want:
        sys.exit(f"got {got!r}, want {want!r}")


def model(name):
    """A model that the types of the SDK accept as it came, which its client does not check."""
    return ModelInfo.model_validate(client.models.retrieve(name).to_dict())


m = model("claude-opus-4-6")
same((m.id, m.lifecycle, m.max_input_tokens, m.max_tokens), ("claude-opus-4-6", "active", 1000000, 128000))
c = m.capabilities
same((c.thinking.supported, c.thinking.types.adaptive.supported, c.thinking.types.enabled.supported, c.thinking.types.disabled.supported), (True, True, False, True))
same([x.supported for x in (c.effort, c.effort.low, c.effort.medium, c.effort.high, c.effort.xhigh, c.effort.max)], [True, True, True, True, False, True])
same([x.supported for x in (c.image_input, c.pdf_input, c.citations, c.structured_outputs, c.context_management)], [True] * 5)
same([x.supported for x in (c.server_tools, c.server_tools.web_search, c.server_tools.code_execution, c.code_execution, c.batch)], [True, True, False, False, False])
same("adaptive_thinking" in m.features and m.price["input"], 5.0)

t = model("claude-sonnet-4-5").capabilities.thinking.types
same((t.adaptive.supported, t.enabled.supported), (False, True))
c = model("other").capabilities
same([x.supported for x in (c.thinking, c.effort, c.image_input, c.context_management, c.server_tools)], [False] * 5)
same(c.thinking.types.disabled.supported, True)
m = model("unknown")
same((m.capabilities, m.max_tokens, m.max_input_tokens), (None, None, None))

ids = [m.id for m in client.models.list().data]
same([m.id for m in client.models.list(limit=2)], ids)
page = client.models.list(limit=2)
same(([m.id for m in page.data], page.has_more, page.first_id, page.last_id), (ids[:2], True, ids[0], ids[1]))
page = client.models.list(limit=2, before_id=ids[3])
same(([m.id for m in page.data], page.has_more), (ids[1:3], True))
same([m.id for m in client.models.list(after_id=ids[-1]).data], [])
same([m.id for m in client.models.list(lifecycle=["retired"]).data], [])
same([m.id for m in client.models.list(lifecycle=["active", "retired"]).data], ids)
for wrong in ({"limit": 0}, {"limit": 1001}, {"after_id": "unheard-of"}, {"after_id": ids[0], "before_id": ids[1]}):
    try:
        client.models.list(**wrong)
        sys.exit(f"no error with {wrong}")
    except anthropic.BadRequestError:
        pass
print("ok")
