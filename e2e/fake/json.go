package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/internal/rawjson"
)

// quote writes a JSON string as providers do, without escaping HTML.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimRight(b.String(), "\n")
}

// object is a JSON object of a request.
type object = rawjson.Object

func modelOf(body []byte) string {
	var m struct{ Model string }
	_ = json.Unmarshal(body, &m) // an unreadable body names no model
	return m.Model
}

// bringsResult says whether the last message of a conversation is a tool's result, in either dialect.
func bringsResult(body []byte) bool {
	o, _ := rawjson.Parse(body) // an unreadable body has no messages
	ms := slices.Concat(o.List("messages"), o.List("contents"), o.List("input"))
	if len(ms) == 0 {
		return false
	}
	last := ms[len(ms)-1]
	return last.Str("role") == "tool" || strings.HasSuffix(last.Str("type"), "_call_output") ||
		slices.ContainsFunc(last.List("content"), func(part object) bool { return part.Str("type") == "tool_result" }) ||
		slices.ContainsFunc(last.List("parts"), func(part object) bool { return check.Camel(part).Has("functionResponse") })
}

// extra is the text of unknown members to put at an object's end.
func extra(b *Behaviour) string {
	if b.Extra == "" {
		return ""
	}
	return "," + b.Extra
}

// opaque is a made-up identifier of n characters, the same for the same seed.
func opaque(seed string, n int) string {
	const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"
	h := uint64(14695981039346656037)
	for i := range len(seed) {
		h = (h ^ uint64(seed[i])) * 1099511628211
	}
	out := make([]byte, n)
	for i := range out {
		h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
		out[i] = alphabet[(h>>33)%uint64(len(alphabet))]
	}
	return string(out)
}

// callID is the id of the i-th tool call of answer n.
func (c *ToolCall) callID(prefix string, n int64, i int) string {
	if c.ID != "" {
		return c.ID
	}
	return prefix + opaque(fmt.Sprint(prefix, n, i), 24)
}

// count is the usage of an answer: what the behaviour says, else a count of its pieces.
func (b *Behaviour) count(q *asked) Usage {
	if b.Usage != nil {
		u := *b.Usage
		u.given = true
		return u
	}
	u := Usage{Input: q.inputTokens}
	if q.prompt != nil {
		u = *q.prompt
	}
	u.Output = len(b.pieces())
	for _, thought := range slices.Concat(b.Thoughts, b.Between) {
		u.Reasoning += len(thought.pieces())
	}
	for i := range b.ToolCalls {
		u.Output += 1 + len(b.ToolCalls[i].Args)/4
	}
	u.Output = max(1, u.Output+u.Reasoning)
	return u
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
