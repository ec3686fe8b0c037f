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

// Line is a line of a trace, as JSON: a definition of a base body (Define), or a request.
//
// A request's body is the base body that it uses, with the messages of its conversation: those of earlier requests, and its own. So a conversation of a hundred
// turns contains each message once.
type Line struct {
	Define string         `json:"define"` // name of the base body
	Body   map[string]any `json:"body"`   // of a definition: the body without messages

	At           time.Time         `json:"at"`           // of a request: when it was sent
	Path         string            `json:"path"`         // such as /v1/messages
	Use          string            `json:"use"`          // name of the base body
	Conversation string            `json:"conversation"` // requests with the same name share messages
	Headers      map[string]string `json:"headers"`
	Set          map[string]any    `json:"set"`      // further members of this request's body
	Messages     []any             `json:"messages"` // added to the conversation by this request
	Mark         bool              `json:"mark"`     // the client sets a cache mark at the end of the last message
	Answer       Answer            `json:"answer"`
}

// Answer is the provider's answer in a replay.
type Answer struct {
	Text      string         `json:"text"`
	Tool      string         `json:"tool"` // name of a called tool
	Arguments map[string]any `json:"arguments"`
	Tokens    int64          `json:"tokens"` // 0: estimated from Text
}

// Request is one request of a trace.
type Request struct {
	At      time.Time
	Path    string
	Headers map[string]string
	Body    []byte
	Answer  Answer
}

// maxLine bounds a line of a trace, in bytes.
const maxLine = 64 << 20

// Read parses a trace. Errors name the line.
func Read(r io.Reader) ([]Request, error) {
	bodies, conversations := map[string]map[string]any{}, map[string][]any{}
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
		q, err := l.request(bodies, conversations)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, q)
	}
	return out, lines.Err()
}

// request returns the request of a line.
func (l *Line) request(bodies map[string]map[string]any, conversations map[string][]any) (Request, error) {
	base, ok := bodies[l.Use]
	if !ok {
		return Request{}, fmt.Errorf("use: no body %q is defined before this line", l.Use)
	}
	if l.At.IsZero() || !strings.HasPrefix(l.Path, "/v1/") {
		return Request{}, fmt.Errorf("a request has at, such as 2026-01-05T09:00:00Z, and path, such as /v1/messages")
	}
	messages := slices.Concat(conversations[l.Conversation], l.Messages)
	if l.Conversation != "" {
		conversations[l.Conversation] = messages
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

// marked returns the last message with a cache mark at its end, as set by Anthropic's clients.
func marked(messages []any) []any {
	if len(messages) == 0 {
		return nil
	}
	last, ok := messages[len(messages)-1].(map[string]any)
	if !ok {
		return messages[len(messages)-1:]
	}
	mark := map[string]any{"type": "ephemeral"}
	copied := maps.Clone(last)
	switch content := last["content"].(type) {
	case string:
		copied["content"] = []any{map[string]any{"type": "text", "text": content, "cache_control": mark}}
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
		copied["content"] = blocks
	}
	return []any{copied}
}
