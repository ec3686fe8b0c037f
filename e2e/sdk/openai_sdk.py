"""The official OpenAI SDK against the gateway. The models are scripted by the Go test that runs this."""

import os
import unittest

import openai

BASE, KEY = os.environ["BARDO_URL"] + "/v1", os.environ["BARDO_KEY"]
HI = [{"role": "user", "content": "hi"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def client(key=KEY):
    return openai.OpenAI(base_url=BASE, api_key=key, max_retries=0, timeout=20)


class OpenAI(unittest.TestCase):
    models = ("gpt", "claude")  # one behind a provider of each dialect

    def test_chat(self):
        for model in self.models:
            with self.subTest(model):
                raw = client().chat.completions.with_raw_response.create(model=f"{model}-chat", messages=HI)
                answer = raw.parse()
                self.assertEqual(answer.choices[0].message.content, "Hello from the fake provider.")
                self.assertEqual(answer.choices[0].finish_reason, "stop")
                self.assertEqual(answer.model, f"{model}-chat")
                self.assertGreater(answer.usage.prompt_tokens, 0)
                self.assertEqual(answer.usage.completion_tokens, 5)
                self.assertTrue(raw.headers["x-request-id"])

    def test_stream(self):
        for model in self.models:
            with self.subTest(model):
                options = {"include_usage": True}
                chunks = list(client().chat.completions.create(model=f"{model}-chat", messages=HI, stream=True, stream_options=options))
                text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
                self.assertEqual(text, "Hello from the fake provider.")
                self.assertEqual([c.usage.completion_tokens for c in chunks if c.usage], [5])
                self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop")

    def test_stream_without_usage(self):
        for model in self.models:
            with self.subTest(model):
                chunks = list(client().chat.completions.create(model=f"{model}-chat", messages=HI, stream=True))
                self.assertTrue(all(c.choices and c.usage is None for c in chunks), "K-28: an extra chunk is shown")

    def test_tools(self):
        for model in self.models:
            with self.subTest(model):
                c = client()
                with c.chat.completions.stream(model=f"{model}-tools", messages=HI, tools=[TOOL]) as stream:
                    for _ in stream:
                        pass
                    answer = stream.get_final_completion().choices[0]
                self.assertEqual(answer.finish_reason, "tool_calls")
                calls = answer.message.tool_calls
                self.assertEqual([(t.function.name, t.function.arguments) for t in calls],
                                 [("get_weather", '{"city":"Paris"}'), ("get_weather", '{"city":"Rome"}')])
                results = [{"role": "tool", "tool_call_id": t.id, "content": "sunny"} for t in calls]
                turn = {"role": "assistant", "tool_calls": [t.model_dump(include={"id", "type", "function"}) for t in calls]}
                for t in turn["tool_calls"]:
                    t["function"].pop("parsed_arguments", None)
                after = c.chat.completions.create(model=f"{model}-chat", messages=[*HI, turn, *results], tools=[TOOL])
                self.assertEqual(after.choices[0].message.content, "Hello from the fake provider.")

    def test_errors(self):
        for name, error in {
            "400": openai.BadRequestError,
            "429": openai.RateLimitError,
            "500": openai.InternalServerError,
            "503": openai.InternalServerError,
        }.items():
            for stream in (False, True):
                with self.subTest(name, stream=stream), self.assertRaises(error) as caught:
                    client().chat.completions.create(model=f"gpt-{name}", messages=HI, stream=stream)
                self.assertTrue(caught.exception.body["code"], caught.exception.body)
                if name == "429":
                    self.assertEqual(caught.exception.response.headers["retry-after"], "2")
        with self.assertRaises(openai.AuthenticationError):
            client("bardo_sk_wrong").chat.completions.create(model="gpt-chat", messages=HI)
        with self.assertRaises(openai.NotFoundError):
            client().chat.completions.create(model="gpt-unheard-of", messages=HI)

    def test_a_stream_that_dies_raises(self):
        for model in self.models:
            with self.subTest(model), self.assertRaises(openai.APIError) as caught:
                for _ in client().chat.completions.create(model=f"{model}-dies", messages=HI, stream=True):
                    pass
            self.assertNotIsInstance(caught.exception, openai.BadRequestError)

    def test_cancel(self):
        with client().chat.completions.create(model="gpt-hangs", messages=HI, stream=True) as stream:
            next(iter(stream))

    def test_models(self):
        ids = [m.id for m in client().models.list()]
        self.assertIn("gpt-chat", ids)
        self.assertEqual(client().models.retrieve("gpt-chat").id, "gpt-chat")


if __name__ == "__main__":
    unittest.main()
