package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Line is a line of a trace, in JSON: a definition of a body that requests begin with (Define), or a request.
//
// A request's body is the one it uses, with the messages of its conversation: those of earlier requests, and its own. So a conversation of a hundred turns
// needs each message once.
type Line struct {
	Define string         `json:"define"` // name of the body that is defined
	Body   map[string]any `json:"body"`   // of a definition: the body without messages

	At           time.Time         `json:"at"`           // of a request: when it was sent
	Path         string            `json:"path"`         // such as /v1/messages
	Use          string            `json:"use"`          // name of the body
	Conversation string            `json:"conversation"` // name; requests of one share its messages
	Headers      map[string]string `json:"headers"`
	Set          map[string]any    `json:"set"`      // members that this request has besides
	Messages     []any             `json:"messages"` // added to the conversation by this request
	Mark         bool              `json:"mark"`     // the client marks the end of the last message for the provider's cache
	Answer       Answer            `json:"answer"`
}

// Answer is what the provider answers in a replay.
type Answer struct {
	Text      string         `json:"text"`
	Tool      string         `json:"tool"` // name of a tool that is called
	Arguments map[string]any `json:"arguments"`
	Tokens    int64          `json:"tokens"` // of the answer; 0: estimated from its text
}

// Request is one request of a trace.
type Request struct {
	At      time.Time
	Path    string
	Headers map[string]string
	Body    []byte
	Answer  Answer
}

// maxLine is the longest line of a trace.
const maxLine = 64 << 20

// Read reads a trace. The error names the line.
func Read(r io.Reader) ([]Request, error) {
	bodies, talks := map[string]map[string]any{}, map[string][]any{}
	var out []Request
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var l Line
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if l.Define != "" {
			bodies[l.Define] = l.Body
			continue
		}
		q, err := l.request(bodies, talks)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, q)
	}
	return out, lines.Err()
}

// request makes the request of a line.
func (l *Line) request(bodies map[string]map[string]any, talks map[string][]any) (Request, error) {
	base, ok := bodies[l.Use]
	if !ok {
		return Request{}, fmt.Errorf("use: no body %q is defined before this line", l.Use)
	}
	if l.At.IsZero() || !strings.HasPrefix(l.Path, "/v1/") {
		return Request{}, fmt.Errorf("a request has at, such as 2026-01-05T09:00:00Z, and path, such as /v1/messages")
	}
	messages := slices.Concat(talks[l.Conversation], l.Messages)
	if l.Conversation != "" {
		talks[l.Conversation] = messages
	}
	body := map[string]any{}
	maps.Copy(body, base)
	maps.Copy(body, l.Set)
	sent := messages
	if l.Mark {
		sent = append(append([]any(nil), messages[:max(len(messages)-1, 0)]...), marked(messages)...)
	}
	if body["messages"] = sent; l.Path == "/v1/responses" {
		body["input"] = sent
		delete(body, "messages")
	}
	raw, err := json.Marshal(body)
	return Request{At: l.At, Path: l.Path, Headers: l.Headers, Body: raw, Answer: l.Answer}, err
}

// marked is the last message with a cache mark at its end, as Anthropic's clients write it.
func marked(messages []any) []any {
	if len(messages) == 0 {
		return nil
	}
	last, ok := messages[len(messages)-1].(map[string]any)
	if !ok {
		return messages[len(messages)-1:]
	}
	mark := map[string]any{"type": "ephemeral"}
	again := maps.Clone(last)
	switch content := last["content"].(type) {
	case string:
		again["content"] = []any{map[string]any{"type": "text", "text": content, "cache_control": mark}}
	case []any:
		if len(content) == 0 {
			break
		}
		blocks := append([]any(nil), content...)
		if block, ok := blocks[len(blocks)-1].(map[string]any); ok {
			block = maps.Clone(block)
			block["cache_control"] = mark
			blocks[len(blocks)-1] = block
		}
		again["content"] = blocks
	}
	return []any{again}
}
