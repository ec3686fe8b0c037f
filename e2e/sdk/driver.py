"""What the Python drivers share: README.md tells the protocol that they speak with the Go test."""

import base64
import json
import os
import sys

URL, KEY, PREFIX = (os.environ[name] for name in ("BARDO_URL", "BARDO_KEY", "BARDO_PREFIX"))
DIRECT = "BARDO_DIRECT" in os.environ  # the URL is the provider's own
STATUSES = [400, 401, 402, 403, 404, 413, 422, 429, 500, 502, 503, 504, 529]

HELLO, SUNNY, THOUGHT, CUT, QUIET = "Hello from the fake provider.", "It is sunny.", "let me think", "tok0 tok1 tok2 ", "tok0 tok1 tok2 "
UNICODE = json.loads(os.environ["BARDO_UNICODE"])
PROMPT, ANSWER = "large " * 400_000, 1000 * 1024  # what a large request says, and the characters of its answer

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n").decode()

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def model(behaviour):
    return f"{PREFIX}-{behaviour}"


def key(status):
    """The key that is refused with this status, or the good one: then the model's provider refuses."""
    return os.environ.get(f"BARDO_KEY_{status}", KEY)


def same(got, want):
    if got != want:
        raise AssertionError(f"got {str(got)[:500]!r}, want {str(want)[:500]!r}")


def true(what, said):
    if not what:
        raise AssertionError(said)


def caught(call):
    """What a call raises, which it must."""
    try:
        call()
    except Exception as e:
        return e
    raise AssertionError("nothing was raised")


def refused(error, base, code):
    """The line of an error that an answer's status made."""
    true(isinstance(error, base), f"{type(error).__name__} is not of the client's own: {error}")
    body = error.body if hasattr(error, "body") else error.details  # Google's
    status = error.status_code if hasattr(error, "status_code") else error.code
    true(DIRECT or code(body), f"no code in {body}")
    if status == 429:
        same(error.response.headers["retry-after"], "2")
    return {"exception": type(error).__name__, "status": status}


def errors(cases, ask, base, code):
    """Adds a case for every status: a stream is refused as a whole answer is. ask(key, model, stream), code(body)."""
    for status in STATUSES:
        def case(status=status):
            lines = [refused(caught(lambda: ask(key(status), model(status), stream)), base, code) for stream in (False, True)]
            same(lines[1], lines[0])
            return lines[0]
        cases[f"error-{status}"] = case


def run(version, cases):
    """Runs the cases in order. Each is a function that may return more members for its line, and raises what is wrong."""
    print(json.dumps({"client": os.environ["BARDO_CLIENT"], "version": version}), flush=True)
    for name, case in cases.items():
        if DIRECT and name not in ("chat", "stream", "dies") and not name.startswith("error-"):
            continue
        try:
            line = {"ok": True, **(case() or {})}
        except Exception as e:
            line = {"ok": False, "detail": f"{type(e).__name__}: {e}"[:2000]}
        print(json.dumps({"case": name, **line}), flush=True)
    sys.stdout.flush()
    os._exit(0)  # connections that are left open do not keep it
