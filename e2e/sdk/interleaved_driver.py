"""Conversations with tools in which the model thinks between its calls, by the official SDKs for Python: README.md tells the protocol."""

import json
import os
import sys

URL, KEY = os.environ["BARDO_URL"], os.environ["BARDO_KEY"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
QUESTIONS = ["What is the weather in Paris and Rome?", "And in Oslo and Bergen?"]


def weather(args):
    return "sunny in " + json.loads(args)["city"]


class Anthropic:
    """Sends each message back as it came. With a budget, the flag asks for thoughts between the calls; adaptive models have them anyway."""

    def __init__(self, model, stream, budget):
        import anthropic

        self.client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, timeout=60)
        self.stream, self.messages = stream, []
        self.ask = {"model": model, "max_tokens": 8000, "tools": [{"name": "get_weather", "input_schema": SCHEMA}]}
        if budget:
            self.ask |= {"thinking": {"type": "enabled", "budget_tokens": 2000}, "extra_headers": {"anthropic-beta": "interleaved-thinking-2025-05-14"}}
        else:
            self.ask |= {"thinking": {"type": "adaptive"}}

    def say(self, text):
        self.messages.append({"role": "user", "content": text})

    def answer(self):
        ask = {**self.ask, "messages": self.messages}
        if self.stream:
            with self.client.messages.stream(**ask) as events:
                message = events.get_final_message()
        else:
            message = self.client.messages.create(**ask)
        self.messages.append({"role": "assistant", "content": message.content})
        calls = [b for b in message.content if b.type == "tool_use"]
        if calls:
            results = [{"type": "tool_result", "tool_use_id": c.id, "content": weather(json.dumps(c.input))} for c in calls]
            self.messages.append({"role": "user", "content": results})
        texts = [b.text for b in message.content if b.type == "text"]
        return bool(calls), "".join(texts), [b.thinking for b in message.content if b.type == "thinking"]


class OpenAI:
    """Sends each message back with its reasoning_details, as the SDK put them together."""

    def __init__(self, model, stream, budget):
        import openai

        self.client = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=60)
        self.stream, self.messages = stream, []
        function = {"name": "get_weather", "parameters": SCHEMA}
        self.ask = {"model": model, "reasoning_effort": "high", "tools": [{"type": "function", "function": function}]}

    def say(self, text):
        self.messages.append({"role": "user", "content": text})

    def answer(self):
        ask = {**self.ask, "messages": self.messages}
        if self.stream:
            with self.client.chat.completions.stream(**ask) as events:
                events.until_done()
                message = events.get_final_completion().choices[0].message
        else:
            message = self.client.chat.completions.create(**ask).choices[0].message
        back = {"role": "assistant", "content": message.content}
        extra = message.model_extra or {}
        thoughts = [extra["reasoning_content"]] if extra.get("reasoning_content") else []
        for key in ("reasoning_details", "reasoning_content"):
            if extra.get(key):
                back[key] = extra[key]
        calls = message.tool_calls or []
        if calls:
            back["tool_calls"] = [{"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}} for c in calls]
        self.messages.append(back)
        self.messages += [{"role": "tool", "tool_call_id": c.id, "content": weather(c.function.arguments)} for c in calls]
        return bool(calls), message.content or "", thoughts


class Responses:
    """Sends each item back as it came."""

    def __init__(self, model, stream, budget):
        import openai

        self.client = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=60)
        self.stream, self.items = stream, []
        self.ask = {
            "model": model, "store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high", "summary": "auto"},
            "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}],
        }

    def say(self, text):
        self.items.append({"role": "user", "content": text})

    def answer(self):
        ask = {**self.ask, "input": self.items}
        if self.stream:
            with self.client.responses.stream(**ask) as events:
                answer = events.get_final_response()
        else:
            answer = self.client.responses.create(**ask)
        self.items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
        calls = [i for i in answer.output if i.type == "function_call"]
        self.items += [{"type": "function_call_output", "call_id": c.call_id, "output": weather(c.arguments)} for c in calls]
        thoughts = [s.text for i in answer.output if i.type == "reasoning" for s in i.summary]
        return bool(calls), answer.output_text, thoughts


def play(run):
    chat = {"anthropic": Anthropic, "openai": OpenAI, "responses": Responses}[run["client"]](run["model"], run["stream"], run["budget"])
    said, thoughts = [], []
    for question in QUESTIONS:
        chat.say(question)
        for _ in range(9):
            more, text, thought = chat.answer()
            said.append(text)
            thoughts += thought
            if not more:
                break
    return {"said": said, "thoughts": thoughts}


for run in json.loads(os.environ["BARDO_RUNS"]):
    try:
        line = play(run)
    except Exception as e:
        line = {"failed": f"{type(e).__name__}: {e}"[:2000]}
    print(json.dumps({"name": run["name"], **line}), flush=True)
sys.stdout.flush()
os._exit(0)  # connections that are left open do not keep it
