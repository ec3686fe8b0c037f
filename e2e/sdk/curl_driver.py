"""curl, in the format that BARDO_CLIENT says: as in the examples of the documentation, with the bodies written out."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from driver import ANSWER, CUT, HELLO, KEY, PROMPT, QUIET, STATUSES, SUNNY, THOUGHT, UNICODE, URL, WEATHER
from driver import model, run, same, true
from driver import key as key_for

OPENAI = os.environ["BARDO_CLIENT"] == "curl-openai"
HI = [{"role": "user", "content": "hi"}]
CURL = shutil.which("curl")
if not CURL:
    sys.exit("curl is not on the PATH: install it with the system's package manager")
FAILED, PARTIAL, RESET = 22, 18, 56  # exit codes: a status of 400 and more with --fail-with-body, an incomplete body, a broken connection


def command(behaviour, messages=HI, key=KEY, prefix="/v1", options=(), **more):
    body = {"model": model(behaviour), "messages": messages, **more}
    if OPENAI:
        path, headers = "/chat/completions", [f"Authorization: Bearer {key}"]
    else:
        path, headers = "/messages", [f"x-api-key: {key}", "anthropic-version: 2023-06-01"]
        body = {"max_tokens": 100, **body}
    argv = [CURL, "-sS", "--max-time", "60", *options, URL + prefix + path, "-H", "Content-Type: application/json", "--data-binary", "@-"]
    for h in headers:
        argv += ["-H", h]
    return argv, json.dumps(body).encode()


def raw(behaviour, options=(), **more):
    """Exit code, status and body."""
    with tempfile.NamedTemporaryFile() as out:
        argv, body = command(behaviour, options=["--fail-with-body", "-o", out.name, "-w", "%{http_code}", *options], **more)
        done = subprocess.run(argv, input=body, capture_output=True)
        with open(out.name, encoding="utf-8") as f:
            return done.returncode, int(done.stdout or 0), f.read()


def whole(behaviour, **more):
    code, status, body = raw(behaviour, **more)
    same((code, status), (0, 200))
    return json.loads(body)


def events(body):
    lines = [line.removeprefix("data: ") for line in body.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def read(behaviour, **more):
    code, status, body = raw(behaviour, options=["-N"], stream=True, **more)
    same((code, status), (0, 200))
    true(("data: [DONE]" if OPENAI else "message_stop") in body, "the stream has no end")
    return body


def text(answer):
    if OPENAI:
        return answer["choices"][0]["message"]["content"]
    return "".join(b["text"] for b in answer["content"] if b["type"] == "text")


def deltas(body):
    if OPENAI:
        return [c["delta"] for e in events(body) if "choices" in e for c in e["choices"]]
    return [e["delta"] for e in events(body) if e["type"] == "content_block_delta"]


def streamed(body):
    return "".join(d.get("content" if OPENAI else "text") or "" for d in deltas(body))


def calls(answer):
    if OPENAI:
        return [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in answer["choices"][0]["message"]["tool_calls"]]
    return [(b["id"], b["name"], b["input"]) for b in answer["content"] if b["type"] == "tool_use"]


def streamed_calls(body):
    found, args = [], []
    for e in events(body):
        if OPENAI:
            for c in [c for choice in e["choices"] for c in choice["delta"].get("tool_calls", [])]:
                if "id" in c:
                    found.append((c["id"], c["function"]["name"]))
                    args.append("")
                args[c["index"]] += c["function"].get("arguments", "")
        elif e["type"] == "content_block_start" and e["content_block"]["type"] == "tool_use":
            found.append((e["content_block"]["id"], e["content_block"]["name"]))
            args.append("")
        elif e["type"] == "content_block_delta" and e["delta"]["type"] == "input_json_delta":
            args[-1] += e["delta"]["partial_json"]
    return [(i, name, json.loads(a)) for (i, name), a in zip(found, args)]


def check_calls(got, cities):
    same([c[1:] for c in got], [("get_weather", {"city": city}) for city in cities])
    same(len({c[0] for c in got}), len(cities))


def tools():
    if OPENAI:
        return [{"type": "function", "function": {"name": WEATHER["name"], "parameters": WEATHER["schema"]}}]
    return [{"name": WEATHER["name"], "input_schema": WEATHER["schema"]}]


def chat():
    answer = whole("chat")
    same((text(answer), answer["model"]), (HELLO, model("chat")))
    same(answer["usage"]["completion_tokens" if OPENAI else "output_tokens"], 5)


def see(said, got):
    same(said, "Let me see.")
    check_calls(got, ["Paris", "Rome"])


def tools_whole():
    answer = whole("tools", tools=tools())
    see(text(answer), calls(answer))


def tools_stream():
    body = read("tools", tools=tools())
    see(streamed(body), streamed_calls(body))


def loop():
    answer = whole("loop", tools=tools())
    check_calls(calls(answer), ["Paris"])
    call = calls(answer)[0][0]
    if OPENAI:
        turns = [answer["choices"][0]["message"], {"role": "tool", "tool_call_id": call, "content": "sunny"}]
    else:
        turns = [{"role": "assistant", "content": answer["content"]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "sunny"}]}]
    same(text(whole("loop", messages=HI + turns, tools=tools())), SUNNY)
    same(streamed(read("loop", messages=HI + turns, tools=tools())), SUNNY)


def thinks():
    more = {} if OPENAI else {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
    answer, body = whole("thinks", **more), read("thinks", **more)
    if OPENAI:
        thought = answer["choices"][0]["message"]["reasoning_content"]
    else:
        thought = answer["content"][0]["thinking"]
    same((thought, text(answer)), (THOUGHT, HELLO))
    same("".join(d.get("reasoning_content" if OPENAI else "thinking") or "" for d in deltas(body)), THOUGHT)
    same(streamed(body), HELLO)


def both(behaviour, want, **more):
    same(text(whole(behaviour, **more)), want)
    same(streamed(read(behaviour, **more)), want)


def unicode_tools():
    check_calls(calls(whole("unicode-tools", tools=tools())), [UNICODE])
    check_calls(streamed_calls(read("unicode-tools", tools=tools())), [UNICODE])


def large():
    messages = [{"role": "user", "content": PROMPT}]
    said = text(whole("large", messages=messages))
    same(len(said), ANSWER)
    same(streamed(read("large", messages=messages)), said)


def cancel():
    argv, body = command("slow", options=["-N"], stream=True)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as curl:
        curl.stdin.write(body)
        curl.stdin.close()
        true(any(b"tok0" in line for line in curl.stdout), "no token came")
        curl.terminate()


def heartbeat(behaviour):
    body = read(behaviour)
    same(streamed(body), QUIET)
    beats = re.findall(r"^: heartbeat\n", body, re.MULTILINE)
    true(len(beats) >= 2, f"{len(beats)} heartbeats")
    true(not re.search(r"^: heartbeat\n\n", body, re.MULTILINE), "K-40: an empty line follows a heartbeat")


def dies(behaviour):
    code, status, body = raw(behaviour, options=["-N"], stream=True)
    same(streamed(body) if OPENAI else "".join(d["text"] for d in deltas(body)), CUT)
    told = '"error"' in body
    true(code in (PARTIAL, RESET) or told, f"exit {code}, and no error event")
    return {"exception": "error event" if told else "broken connection", "status": status}


def refused(status):
    def case():
        lines = []
        for stream in (False, True):
            code, got, body = raw(str(status), key=key_for(status), stream=stream)
            same(code, FAILED)
            error = json.loads(body)["error"]
            true(error["message"] and error["type"], "an error without words")
            lines.append({"exception": f"exit {code}", "status": got})
        same(lines[0], lines[1])
        return lines[0]
    return case


CASES = {
    "chat": chat,
    "stream": lambda: same(streamed(read("chat")), HELLO),
    "base-url": lambda: same(text(whole("chat", prefix="")), HELLO),
    "base-url-twice": lambda: same(text(whole("chat", prefix="/v1/v1")), HELLO),
    "tools": tools_whole, "tools-stream": tools_stream, "loop": loop, "thinks": thinks,
    "unicode": lambda: both("unicode", UNICODE, messages=[{"role": "user", "content": UNICODE}]),
    "unicode-tools": unicode_tools, "large": large,
    "retry": lambda: same(text(whole("retry", options=["--retry", "1"])), HELLO),
    "cancel": cancel, "heartbeat": lambda: heartbeat("quiet"), "heartbeat2": lambda: heartbeat("quiet2"),
    "dies": lambda: dies("dies"), "dies2": lambda: dies("dies2"),
    **{f"error-{status}": refused(status) for status in STATUSES},
}
run("the system's", CASES)
