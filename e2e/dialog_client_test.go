package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

type object = map[string]any

// dialogFormat is the API that a client of a random conversation speaks.
type dialogFormat string

const (
	inChat      dialogFormat = "chat"
	inResponses dialogFormat = "responses"
	inMessages  dialogFormat = "messages"
	inGemini    dialogFormat = "gemini"
)

// dialogClient keeps a conversation as programs of its format do: what it read goes back as it came.
type dialogClient struct {
	format dialogFormat
	turns  []any        // messages, items or contents
	open   []parsedCall // those that wait for their results
	joins  bool         // Gemini: texts of a stream that follow each other become one, as some programs do
}

// parsedCall is a call of a tool that a client was asked for.
type parsedCall struct {
	id, name string
	args     any
}

// parsedTurn is what a client read of an answer.
type parsedTurn struct {
	text, thought string
	calls         []parsedCall
	removed       []string // names in calls that rules took out
	refused       bool     // by a rule
	input, output int      // tokens, as the answer counts them; 0: it does not say
	ending        string   // why the model stopped, in the format's word
}

// dialogPart is a part of what a user says.
type dialogPart struct {
	text    string
	picture bool
	flag    string // static, volatile, or none
	mark    bool   // for the provider's prompt cache
}

// dialogResult is what a tool returned.
type dialogResult struct {
	text             string
	picture, failed  bool
	split, withheld  bool // in two parts; or without any content
	asObject, behind bool // Gemini: as members of an object; Anthropic: with a text of the user behind it
}

const (
	onePixel    = "iVBORw0KGgo="
	onePixelURL = "data:image/png;base64," + onePixel
)

func (c *dialogClient) part(p dialogPart) any {
	o := object{"type": "text", "text": p.text}
	switch {
	case c.format == inChat && p.picture:
		o = object{"type": "image_url", "image_url": object{"url": onePixelURL}}
	case c.format == inMessages && p.picture:
		o = object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": onePixel}}
	case c.format == inResponses && p.picture:
		return object{"type": "input_image", "image_url": onePixelURL}
	case c.format == inResponses:
		return object{"type": "input_text", "text": p.text}
	case c.format == inGemini && p.picture:
		return object{"inlineData": object{"mimeType": "image/png", "data": onePixel}}
	case c.format == inGemini:
		return object{"text": p.text}
	}
	if p.flag != "" {
		o["bardo"] = p.flag
	}
	if p.mark {
		o["cache_control"] = object{"type": "ephemeral"}
	}
	return o
}

// parts are a content: a text alone may be a string.
func (c *dialogClient) parts(of []dialogPart) any {
	if len(of) == 1 && !of[0].picture && of[0].flag == "" && !of[0].mark && c.format != inGemini {
		return of[0].text
	}
	all := make([]any, len(of))
	for i := range of {
		all[i] = c.part(of[i])
	}
	return all
}

// user says something.
func (c *dialogClient) user(of []dialogPart) {
	key := "content"
	if c.format == inGemini {
		key = "parts"
	}
	turn := object{"role": "user", key: c.parts(of)}
	if c.format == inResponses {
		turn["type"] = "message"
	}
	c.turns = append(c.turns, turn)
}

// results answers every call that waits, in an order.
func (c *dialogClient) results(of []dialogResult, order []int) {
	var blocks, behind []any
	for _, i := range order {
		if i >= len(c.open) {
			continue
		}
		call, r := c.open[i], of[i]
		switch c.format {
		case inChat:
			c.turns = append(c.turns, object{"role": "tool", "tool_call_id": call.id, "content": c.content(r)})
		case inResponses:
			c.turns = append(c.turns, object{"type": "function_call_output", "call_id": call.id, "output": c.content(r)})
		case inMessages:
			b := object{"type": "tool_result", "tool_use_id": call.id}
			if !r.withheld {
				b["content"] = c.content(r)
			}
			if r.failed {
				b["is_error"] = true
			}
			if blocks = append(blocks, b); r.behind {
				behind = append(behind, object{"type": "text", "text": "That is what it said."})
			}
		case inGemini:
			b := object{"name": call.name, "response": object{"output": r.text}}
			if r.asObject {
				b["response"] = object{"found": []any{object{"text": r.text, "rank": 1}}, "more": false}
			}
			if call.id != "" {
				b["id"] = call.id
			}
			blocks = append(blocks, object{"functionResponse": b})
		}
	}
	c.open = nil
	switch c.format {
	case inMessages:
		c.turns = append(c.turns, object{"role": "user", "content": append(blocks, behind...)})
	case inGemini:
		c.turns = append(c.turns, object{"role": "user", "parts": blocks})
	case inChat, inResponses: // have an item for each
	}
}

// content is that of a result.
func (c *dialogClient) content(r dialogResult) any {
	if r.withheld {
		return ""
	}
	of := []dialogPart{{text: r.text}}
	if half := len(r.text) / 2; r.split && strings.Contains(r.text[half:], "\n") {
		half += strings.Index(r.text[half:], "\n") + 1
		of = []dialogPart{{text: r.text[:half]}, {text: r.text[half:]}}
		if of[1].text == "" {
			of = of[:1]
		}
	}
	if r.picture {
		of = append(of, dialogPart{picture: true})
	}
	return c.parts(of)
}

// read parses an answer, and puts it into the conversation as a client of its format does.
func (c *dialogClient) read(t *testing.T, got gateway.Answer, stream bool) (h parsedTurn) {
	t.Helper()
	var docs []object
	read := func(s string) {
		var o object
		if err := json.Unmarshal([]byte(s), &o); err != nil {
			t.Fatalf("%v in %s", err, got.Body)
		}
		docs = append(docs, o)
	}
	if !stream {
		read(got.Body)
	} else {
		for _, ev := range got.Events(t) {
			if ev.Data != "" && ev.Data != "[DONE]" {
				read(ev.Data)
			}
		}
	}
	switch c.format {
	case inChat:
		h = c.parseChat(docs, stream)
	case inResponses:
		h = c.parseResponses(docs, stream)
	case inMessages:
		h = c.parseMessages(docs, stream)
	case inGemini:
		h = c.parseGemini(docs)
	}
	c.open = h.calls
	for _, doc := range docs {
		h.count(doc)
	}
	return h
}

// count reads why an answer ends, and how many tokens it has, of what a document of any format says.
func (h *parsedTurn) count(doc object) {
	for _, of := range []any{doc, doc["delta"], doc["message"], doc["response"]} {
		for _, choice := range append([]any{of}, append(inList(inside(of, "choices")), inList(inside(of, "candidates"))...)...) {
			for _, key := range []string{"finish_reason", "stop_reason", "finishReason"} {
				h.ending += asText(inside(choice, key))
			}
		}
		if state := asText(inside(of, "status")); state != "" && inside(of, "output") != nil {
			h.ending = state
		}
		for _, u := range []any{inside(of, "usage"), inside(of, "usageMetadata")} {
			for _, key := range []string{"prompt_tokens", "input_tokens", "promptTokenCount"} {
				if n := number(inside(u, key)); n > 0 {
					h.input = n
				}
			}
			for _, key := range []string{"completion_tokens", "output_tokens", "candidatesTokenCount"} {
				if n := number(inside(u, key)); n > 0 {
					h.output = n + max(number(inside(u, "thoughtsTokenCount")), 0)
				}
			}
		}
	}
}

func inList(v any) []any {
	l, _ := v.([]any)
	return l
}

func inside(v any, keys ...string) any {
	for _, key := range keys {
		o, _ := v.(object)
		v = o[key]
	}
	return v
}

func asText(v any) string {
	s, _ := v.(string)
	return s
}

func parsed(args string) (v any) {
	if json.Unmarshal([]byte(args), &v) != nil {
		return "not JSON: " + args
	}
	return v
}

func (c *dialogClient) parseChat(docs []object, stream bool) (h parsedTurn) {
	message := object{"role": "assistant", "content": nil}
	var calls []any
	for _, doc := range docs {
		for _, choice := range inList(doc["choices"]) {
			if !stream {
				message, _ = inside(choice, "message").(object)
				calls = inList(message["tool_calls"])
				break
			}
			for _, key := range []string{"content", "reasoning_content", "reasoning"} {
				if more := asText(inside(choice, "delta", key)); more != "" {
					message[key] = asText(message[key]) + more
				}
			}
			if details := inList(inside(choice, "delta", "reasoning_details")); details != nil {
				message["reasoning_details"] = append(inList(message["reasoning_details"]), details...)
			}
			for _, piece := range inList(inside(choice, "delta", "tool_calls")) {
				if asText(inside(piece, "id")) != "" {
					calls = append(calls, object{"id": inside(piece, "id"), "type": "function", "function": object{"name": inside(piece, "function", "name"), "arguments": ""}})
				}
				f, _ := inside(calls[len(calls)-1], "function").(object)
				f["arguments"] = asText(f["arguments"]) + asText(inside(piece, "function", "arguments"))
			}
		}
	}
	if stream && calls != nil {
		message["tool_calls"] = calls
	}
	for _, call := range calls {
		h.calls = append(h.calls, parsedCall{asText(inside(call, "id")), asText(inside(call, "function", "name")), parsed(asText(inside(call, "function", "arguments")))})
	}
	h.text, h.thought = asText(message["content"]), asText(message["reasoning_content"])+asText(message["reasoning"])
	c.turns = append(c.turns, message)
	return h
}

func (c *dialogClient) parseMessages(docs []object, stream bool) (h parsedTurn) {
	var blocks []any
	for _, doc := range docs {
		switch {
		case !stream:
			blocks = inList(doc["content"])
		case doc["type"] == "content_block_start":
			blocks = append(blocks, doc["content_block"])
		case doc["type"] == "content_block_delta":
			b, _ := blocks[len(blocks)-1].(object)
			for _, key := range []string{"text", "thinking", "signature", "partial_json"} {
				if more := asText(inside(doc, "delta", key)); more != "" {
					b[key] = asText(b[key]) + more
				}
			}
		}
	}
	for _, v := range blocks {
		b, _ := v.(object)
		if args := asText(b["partial_json"]); args != "" {
			b["input"] = parsed(args)
		}
		delete(b, "partial_json")
		h.text += asText(b["text"])
		h.thought += asText(b["thinking"])
		if b["type"] == "tool_use" {
			h.calls = append(h.calls, parsedCall{asText(b["id"]), asText(b["name"]), b["input"]})
		}
	}
	c.turns = append(c.turns, object{"role": "assistant", "content": blocks})
	return h
}

func (c *dialogClient) parseResponses(docs []object, stream bool) (h parsedTurn) {
	last := any(docs[len(docs)-1])
	if stream {
		last = inside(last, "response")
	}
	for _, item := range inList(inside(last, "output")) {
		c.turns = append(c.turns, item)
		switch inside(item, "type") {
		case "function_call":
			h.calls = append(h.calls, parsedCall{asText(inside(item, "call_id")), asText(inside(item, "name")), parsed(asText(inside(item, "arguments")))})
		case "message":
			for _, part := range inList(inside(item, "content")) {
				h.text += asText(inside(part, "text"))
			}
		case "reasoning":
			for _, part := range inList(inside(item, "summary")) {
				h.thought += asText(inside(part, "text"))
			}
		}
	}
	return h
}

func (c *dialogClient) parseGemini(docs []object) (h parsedTurn) {
	var parts []any
	for _, doc := range docs {
		for _, candidate := range inList(doc["candidates"]) {
			for _, v := range inList(inside(candidate, "content", "parts")) {
				p, _ := v.(object)
				if last := len(parts) - 1; c.joins && len(p) == 1 && p["text"] != nil && last >= 0 && len(parts[last].(object)) == 1 && inside(parts[last], "text") != nil {
					parts[last] = object{"text": asText(inside(parts[last], "text")) + asText(p["text"])}
				} else if p["text"] != "" || len(p) > 1 {
					parts = append(parts, p)
				}
				if p["thought"] == true {
					h.thought += asText(p["text"])
				} else {
					h.text += asText(p["text"])
				}
				if f := p["functionCall"]; f != nil {
					args := inside(f, "args")
					if args == nil {
						args = object{}
					}
					h.calls = append(h.calls, parsedCall{asText(inside(f, "id")), asText(inside(f, "name")), args})
				}
			}
		}
	}
	c.turns = append(c.turns, object{"role": "model", "parts": parts})
	return h
}

// orderOfResults is the order in which a client gives results of n calls back: any, where they have ids.
func (c *dialogClient) orderOfResults(r *rand.Rand, n int) []int {
	order := r.Perm(n)
	for _, call := range c.open {
		if call.id == "" {
			for i := range order {
				order[i] = i
			}
		}
	}
	return order
}

// call is a request for the conversation's next turn.
func (c *dialogClient) call(model string, stream bool, body object, header []string) gateway.Call {
	call := gateway.Call{Header: header}
	switch c.format {
	case inChat:
		call.Path, body["messages"] = "/v1/chat/completions", append(inList(body["messages"]), c.turns...)
	case inResponses:
		call.Path, body["input"], body["store"], body["include"] = "/v1/responses", append(inList(body["input"]), c.turns...), false, []any{"reasoning.encrypted_content"}
	case inMessages:
		call.Path, body["messages"] = "/v1/messages", c.turns
		call.Header = append([]string{"anthropic-version: 2023-06-01"}, header...)
	case inGemini:
		call.Path, body["contents"] = geminiPath(model, stream), c.turns
	}
	if c.format != inGemini {
		body["model"], body["stream"] = model, stream
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprint("of what was JSON before: ", err))
	}
	call.Body = string(b)
	return call
}
