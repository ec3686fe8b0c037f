package turns

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
)

type object = map[string]any

// client keeps a conversation as programs of its format do: what it heard goes back as it came.
type client struct {
	dialect chat.Dialect
	speaks  wire.Dialect
	stream  bool
	turns   []any // messages, items or contents
	calls   []call
}

// call is one that waits for its result.
type call struct{ id, name string }

var clients = []chat.Dialect{chat.OpenAI, chat.Anthropic, chat.Responses, chat.Gemini}

func newClient(d chat.Dialect, stream bool) *client {
	c := &client{dialect: d, stream: stream}
	switch d { //nolint:exhaustive // no other has clients here
	case chat.OpenAI:
		c.speaks = openai.Dialect{}
	case chat.Anthropic:
		c.speaks = anthropic.Dialect{}
	case chat.Responses:
		c.speaks = responses.Dialect{}
	case chat.Gemini:
		method := "generateContent"
		if stream {
			method = "streamGenerateContent"
		}
		c.speaks = gemini.Dialect{}.ForPath(gemini.Root+"/m:"+method, "alt=sse")
	}
	return c
}

func (c *client) history() string {
	b, _ := json.Marshal(c.turns) // it was JSON before
	return string(b)
}

const (
	picture = "iVBORw0KGgo="
	pngURL  = "data:image/png;base64," + picture
)

// user says something, now and then with a picture.
func (c *client) user(r *rand.Rand, text string) {
	shows := r.IntN(4) == 0
	say := func(kind string, image object) any {
		parts := []any{object{"type": kind, "text": text}}
		if shows {
			parts = append(parts, image)
		}
		return parts
	}
	switch c.dialect { //nolint:exhaustive // no other has clients here
	case chat.OpenAI:
		c.turns = append(c.turns, object{"role": "user", "content": say("text", object{"type": "image_url", "image_url": object{"url": pngURL}})})
	case chat.Anthropic:
		c.turns = append(c.turns, object{"role": "user", "content": say("text", object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": picture}})})
	case chat.Responses:
		c.turns = append(c.turns, object{"role": "user", "content": say("input_text", object{"type": "input_image", "image_url": pngURL})})
	case chat.Gemini:
		parts := []any{object{"text": text}}
		if shows {
			parts = append(parts, object{"inlineData": object{"mimeType": "image/png", "data": picture}})
		}
		c.turns = append(c.turns, object{"role": "user", "parts": parts})
	}
}

// results answers every call that waits, now and then with a picture.
func (c *client) results(r *rand.Rand) {
	var blocks []any
	for _, call := range c.calls {
		shows := r.IntN(4) == 0
		switch c.dialect { //nolint:exhaustive // no other has clients here
		case chat.OpenAI:
			content := []any{object{"type": "text", "text": "seen"}}
			if shows {
				content = append(content, object{"type": "image_url", "image_url": object{"url": pngURL}})
			}
			c.turns = append(c.turns, object{"role": "tool", "tool_call_id": call.id, "content": content})
		case chat.Anthropic:
			content := []any{object{"type": "text", "text": "seen"}}
			if shows {
				content = append(content, object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": picture}})
			}
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": call.id, "content": content})
		case chat.Responses:
			c.turns = append(c.turns, object{"type": "function_call_output", "call_id": call.id, "output": "seen"})
		case chat.Gemini:
			response := object{"name": call.name, "response": object{"output": "seen"}}
			if call.id != "" {
				response["id"] = call.id
			}
			blocks = append(blocks, object{"functionResponse": response})
		}
	}
	c.calls = nil
	switch c.dialect { //nolint:exhaustive // the others have an item for each
	case chat.Anthropic:
		c.turns = append(c.turns, object{"role": "user", "content": blocks})
	case chat.Gemini:
		c.turns = append(c.turns, object{"role": "user", "parts": blocks})
	}
}

// request is the next one, for a provider: its model thinks.
func (c *client) request(t testing.TB, to *upstream) *chat.Request {
	t.Helper()
	schema := object{"type": "object", "properties": object{"at": object{"type": "integer"}}}
	body := object{"model": "m", "stream": c.stream}
	switch c.dialect { //nolint:exhaustive // no other has clients here
	case chat.OpenAI:
		body["messages"], body["reasoning_effort"] = c.turns, "high"
		body["tools"] = []any{object{"type": "function", "function": object{"name": "look", "parameters": schema}}}
		if to.name == "openrouter" {
			delete(body, "reasoning_effort")
			body["reasoning"] = object{"effort": "high"}
		}
	case chat.Anthropic:
		body["messages"], body["max_tokens"] = c.turns, 8000
		body["tools"] = []any{object{"name": "look", "input_schema": schema}}
		body["thinking"] = object{"type": "enabled", "budget_tokens": 2000}
		if to.to.AdaptiveThinking {
			body["thinking"] = object{"type": "adaptive"}
		}
	case chat.Responses:
		body["input"], body["reasoning"], body["store"] = c.turns, object{"effort": "high"}, false
		body["include"] = []string{"reasoning.encrypted_content"}
		body["tools"] = []any{object{"type": "function", "name": "look", "parameters": schema, "strict": false}}
	case chat.Gemini:
		delete(body, "model")
		delete(body, "stream")
		body["contents"] = c.turns
		body["tools"] = []any{object{"functionDeclarations": []any{object{"name": "look", "parametersJsonSchema": schema}}}}
		body["generationConfig"] = object{"thinkingConfig": object{"includeThoughts": true, "thinkingLevel": "high"}}
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := c.speaks.Decode(chat.Generate, header.List{{Name: "anthropic-version", Value: "2023-06-01"}}, "", b)
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return req
}

// read writes an answer in the client's format, and puts it into the conversation as the client reads it.
func (c *client) read(t testing.TB, events []chat.Event, from chat.Dialect) {
	t.Helper()
	e := c.speaks.NewEncoder(wire.Options{Same: from == c.dialect, Stream: c.stream, Model: "m", RequestID: "req_1", Created: 1700000000})
	var out []byte
	for i := range events {
		out = e.Append(out, &events[i])
	}
	docs := []string{string(out)}
	if c.stream {
		docs = nil
		for line := range strings.Lines(string(out)) {
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
				docs = append(docs, data)
			}
		}
	}
	var all []object
	for _, doc := range docs {
		var o object
		if err := json.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		all = append(all, o)
	}
	switch c.dialect { //nolint:exhaustive // no other has clients here
	case chat.OpenAI:
		c.readOpenAI(all)
	case chat.Anthropic:
		c.readAnthropic(all)
	case chat.Responses:
		c.readResponses(all)
	case chat.Gemini:
		c.readGemini(all)
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func at(v any, keys ...string) any {
	for _, key := range keys {
		o, _ := v.(object)
		v = o[key]
	}
	return v
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// readOpenAI joins text and calls, and leaves the pieces of reasoning_details as they came.
func (c *client) readOpenAI(chunks []object) {
	message := object{"role": "assistant", "content": ""}
	var calls []any
	for _, chunk := range chunks {
		for _, choice := range list(chunk["choices"]) {
			said := at(choice, "message")
			if c.stream {
				said = at(choice, "delta")
			}
			for _, key := range []string{"content", "reasoning_content", "reasoning"} {
				if text := str(at(said, key)); text != "" {
					message[key] = str(message[key]) + text
				}
			}
			if details := list(at(said, "reasoning_details")); details != nil {
				message["reasoning_details"] = append(list(message["reasoning_details"]), details...)
			}
			for _, piece := range list(at(said, "tool_calls")) {
				if str(at(piece, "id")) != "" {
					calls = append(calls, object{"id": at(piece, "id"), "type": "function", "function": object{"name": at(piece, "function", "name"), "arguments": ""}})
					c.calls = append(c.calls, call{str(at(piece, "id")), str(at(piece, "function", "name"))})
				}
				f := at(calls[len(calls)-1], "function").(object)
				f["arguments"] = str(f["arguments"]) + str(at(piece, "function", "arguments"))
			}
		}
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	c.turns = append(c.turns, message)
}

func (c *client) readAnthropic(events []object) {
	var blocks []any
	for _, ev := range events {
		if !c.stream {
			blocks = list(ev["content"])
			break
		}
		switch ev["type"] {
		case "content_block_start":
			blocks = append(blocks, ev["content_block"])
		case "content_block_delta":
			b := blocks[len(blocks)-1].(object)
			for _, key := range []string{"text", "thinking", "signature", "partial_json"} {
				if more := str(at(ev, "delta", key)); more != "" {
					b[key] = str(b[key]) + more
				}
			}
		}
	}
	for _, v := range blocks {
		b := v.(object)
		if args := str(b["partial_json"]); args != "" {
			b["input"] = json.RawMessage(args)
		}
		delete(b, "partial_json")
		if b["type"] == "tool_use" {
			c.calls = append(c.calls, call{str(b["id"]), str(b["name"])})
		}
	}
	c.turns = append(c.turns, object{"role": "assistant", "content": blocks})
}

func (c *client) readResponses(events []object) {
	last := any(events[len(events)-1])
	if c.stream {
		last = at(last, "response")
	}
	for _, item := range list(at(last, "output")) {
		c.turns = append(c.turns, item)
		if at(item, "type") == "function_call" {
			c.calls = append(c.calls, call{str(at(item, "call_id")), str(at(item, "name"))})
		}
	}
}

func (c *client) readGemini(chunks []object) {
	var parts []any
	for _, chunk := range chunks {
		for _, candidate := range list(chunk["candidates"]) {
			for _, part := range list(at(candidate, "content", "parts")) {
				if p := part.(object); p["text"] != "" || len(p) > 1 {
					parts = append(parts, part)
				}
				if f := at(part, "functionCall"); f != nil {
					c.calls = append(c.calls, call{str(at(f, "id")), str(at(f, "name"))})
				}
			}
		}
	}
	c.turns = append(c.turns, object{"role": "model", "parts": parts})
}

// outlines are the assistant's messages of a request in Anthropic's format: of each its thinking, its text as one, and its calls, in their
// order.
func outlines(t testing.TB, body []byte) (all [][]string) {
	t.Helper()
	var asked struct{ Messages []object }
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Fatal(err)
	}
	for _, m := range asked.Messages {
		if m["role"] != "assistant" {
			continue
		}
		parts := []string{}
		for _, v := range list(m["content"]) {
			part := outlined(v)
			if n := len(parts); n > 0 && strings.HasPrefix(part, "text ") && strings.HasPrefix(parts[n-1], "text ") {
				parts[n-1] += part[len("text "):]
				continue
			}
			parts = append(parts, part)
		}
		all = append(all, slices.Clip(parts))
	}
	return all
}

func outlined(block any) string {
	switch at(block, "type") {
	case "thinking":
		return "thinking " + str(at(block, "thinking")) + " " + str(at(block, "signature"))
	case "redacted_thinking":
		return "redacted " + str(at(block, "data"))
	case "tool_use":
		args, _ := json.Marshal(at(block, "input")) // it was JSON before
		return "call " + string(args)
	}
	return "text " + fmt.Sprint(at(block, "text"))
}
