"""The official Anthropic SDK against the gateway. The models are scripted by the Go test that runs this."""

import os
import unittest

import anthropic

KEY = os.environ["BARDO_KEY"]
HI = [{"role": "user", "content": "hi"}]
TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def client(key=KEY, suffix=""):
    return anthropic.Anthropic(base_url=os.environ["BARDO_URL"] + suffix, api_key=key, max_retries=0, timeout=20)


def ask(model, **more):
    return {"model": model, "max_tokens": 100, "messages": HI, **more}


class Anthropic(unittest.TestCase):
    models = ("claude", "gpt")  # one behind a provider of each dialect

    def test_message(self):
        for model in self.models:
            for suffix in ("", "/v1"):
                with self.subTest(model, suffix=suffix):
                    answer = client(suffix=suffix).messages.create(**ask(f"{model}-chat"))
                    self.assertEqual([b.text for b in answer.content], ["Hello from the fake provider."])
                    self.assertEqual((answer.stop_reason, answer.model), ("end_turn", f"{model}-chat"))
                    self.assertGreater(answer.usage.input_tokens, 0)
                    self.assertEqual(answer.usage.output_tokens, 5)
                    self.assertTrue(answer._request_id)

    def test_stream(self):
        for model in self.models:
            with self.subTest(model), client().messages.stream(**ask(f"{model}-chat")) as stream:
                self.assertEqual("".join(stream.text_stream), "Hello from the fake provider.")
                answer = stream.get_final_message()
                self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("end_turn", 5))

    def test_tools(self):
        for model in self.models:
            with self.subTest(model):
                with client().messages.stream(**ask(f"{model}-tools", tools=[TOOL])) as stream:
                    answer = stream.get_final_message()
                calls = [b for b in answer.content if b.type == "tool_use"]
                self.assertEqual(answer.stop_reason, "tool_use")
                self.assertEqual([(b.name, b.input) for b in calls],
                                 [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})])
                results = [{"type": "tool_result", "tool_use_id": b.id, "content": "sunny"} for b in calls]
                turn = [{"type": "tool_use", "id": b.id, "name": b.name, "input": b.input} for b in calls]
                messages = [*HI, {"role": "assistant", "content": turn}, {"role": "user", "content": results}]
                after = client().messages.create(**{**ask(f"{model}-chat", tools=[TOOL]), "messages": messages})
                self.assertEqual(after.content[0].text, "Hello from the fake provider.")

    def test_thinking_survives_the_next_turn(self):
        thinking = {"type": "enabled", "budget_tokens": 1024}
        first = client().messages.create(**{**ask("claude-thinks", thinking=thinking), "max_tokens": 4096})
        self.assertEqual([b.type for b in first.content], ["thinking", "text"])
        self.assertTrue(first.content[0].signature)
        messages = [*HI, {"role": "assistant", "content": [b.model_dump() for b in first.content if b.type == "thinking"] + [
            {"type": "text", "text": first.content[1].text}]}, *HI]
        after = client().messages.create(**{**ask("claude-thinks", thinking=thinking), "max_tokens": 4096, "messages": messages})
        self.assertEqual(after.stop_reason, "end_turn")

    def test_count_tokens(self):
        for model in self.models:
            with self.subTest(model):
                self.assertGreater(client().messages.count_tokens(model=f"{model}-chat", messages=HI).input_tokens, 0)

    def test_errors(self):
        for name, error in {
            "400": anthropic.BadRequestError,
            "429": anthropic.RateLimitError,
            "500": anthropic.InternalServerError,
            "503": anthropic.InternalServerError,
        }.items():
            for stream in (False, True):
                with self.subTest(name, stream=stream), self.assertRaises(error) as caught:
                    client().messages.create(**ask(f"claude-{name}", stream=stream))
                self.assertEqual(caught.exception.body["type"], "error")
                if name == "429":
                    self.assertEqual(caught.exception.response.headers["retry-after"], "2")
        with self.assertRaises(anthropic.AuthenticationError):
            client("bardo_sk_wrong").messages.create(**ask("claude-chat"))
        with self.assertRaises(anthropic.NotFoundError):
            client().messages.create(**ask("claude-unheard-of"))

    def test_a_stream_that_dies_raises(self):
        for model in self.models:
            with self.subTest(model), self.assertRaises(anthropic.APIStatusError) as caught:
                for _ in client().messages.create(**ask(f"{model}-dies", stream=True)):
                    pass
            self.assertNotIsInstance(caught.exception, anthropic.BadRequestError)

    def test_cancel(self):
        with client().messages.create(**ask("claude-hangs", stream=True)) as stream:
            next(iter(stream))


if __name__ == "__main__":
    unittest.main()
