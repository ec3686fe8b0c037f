package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"bardo.money/gateway/e2e/fake"
)

// seenRequest is what a provider was sent, in whichever format.
type seenRequest struct {
	system   string
	tools    []seenTool
	turns    []string // the messages as JSON, without the marks of caches
	texts    []string // all strings of the request, also those inside of JSON in strings
	calls    []string // names of the tools that its history calls
	thinking bool     // is asked for
}

type seenTool struct {
	name   string
	schema any
}

var (
	dialogHolder = regexp.MustCompile(`<[A-Z][A-Z0-9_]*_[0-9A-Z]{8}>`)
	signature    = regexp.MustCompile(`EqQ[BC][A-Za-z0-9+/=]+|"(encrypted_content|id|thoughtSignature)":"[^"]*"`)
	ownedHolder  = regexp.MustCompile(`owner-(\d+) ([^\s"\\<]*<[A-Z][A-Z0-9_]*_[0-9A-Z]{8}>[^\s"\\]*)`)
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func seenIn(r *fake.Request) (s seenRequest, err error) {
	var o object
	if err := json.Unmarshal(r.Body, &o); err != nil {
		return s, fmt.Errorf("%w in %s", err, r.Body)
	}
	stringsOf(o, &s.texts)
	withoutMarks(o)
	var turns []any
	for _, key := range []string{"messages", "input", "contents"} {
		turns = append(turns, inList(o[key])...)
		if text := asText(o[key]); text != "" {
			turns = append(turns, text)
		}
	}
	for _, turn := range turns {
		if m, ok := turn.(object); ok && m["content"] != nil {
			m["content"] = joined(m["content"])
		}
		b, _ := json.Marshal(turn) // it was JSON before
		if role := asText(inside(turn, "role")); role == "system" || role == "developer" {
			s.system += string(b)
			continue
		}
		s.turns = append(s.turns, string(b))
		s.calls = append(s.calls, callsOf(turn)...)
	}
	for _, key := range []string{"system", "instructions", "systemInstruction"} {
		b, _ := json.Marshal(joined(o[key])) // it was JSON before
		s.system += string(b)
	}
	s.tools = offeredIn(o)
	kind := asText(inside(o, "thinking", "type"))
	s.thinking = kind == "enabled" || kind == "adaptive" || inside(o, "reasoning") != nil || inside(o, "generationConfig", "thinkingConfig") != nil
	return s, nil
}

// joined is a content of texts alone as one text: a mark of a prompt cache takes a block of its own, and may cut a text.
func joined(content any) any {
	text := ""
	for _, b := range inList(content) {
		part, ok := inside(b, "text").(string)
		if o, _ := b.(object); !ok || o["type"] != "text" || len(o) != 2 {
			return content
		}
		text += part
	}
	if text == "" {
		return content
	}
	return text
}

func offeredIn(o object) (tools []seenTool) {
	for _, t := range inList(o["tools"]) {
		for _, f := range append([]any{t, inside(t, "function")}, inList(inside(t, "functionDeclarations"))...) {
			if name := asText(inside(f, "name")); name != "" {
				tool := seenTool{name: name}
				for _, key := range []string{"parameters", "input_schema", "parametersJsonSchema"} {
					if s := inside(f, key); s != nil {
						tool.schema = s
					}
				}
				tools = append(tools, tool)
			}
		}
	}
	return tools
}

func callsOf(turn any) (names []string) {
	for _, call := range inList(inside(turn, "tool_calls")) {
		names = append(names, asText(inside(call, "function", "name")))
	}
	if inside(turn, "type") == "function_call" {
		names = append(names, asText(inside(turn, "name")))
	}
	for _, b := range append(inList(inside(turn, "content")), inList(inside(turn, "parts"))...) {
		if inside(b, "type") == "tool_use" {
			names = append(names, asText(inside(b, "name")))
		}
		if f := inside(b, "functionCall"); f != nil {
			names = append(names, asText(inside(f, "name")))
		}
	}
	return names
}

// withoutMarks takes the marks of prompt caches and the flags of parts out of a request.
func withoutMarks(v any) {
	switch v := v.(type) {
	case object:
		delete(v, "cache_control")
		delete(v, "bardo")
		delete(v, "thoughtSignature")
		for _, e := range v {
			withoutMarks(e)
		}
	case []any:
		for _, e := range v {
			withoutMarks(e)
		}
	}
}

// unwrapTexts replaces each list of one text by the text: a mark needs a list.
func unwrapTexts(v any) any {
	switch v := v.(type) {
	case object:
		for k, e := range v {
			v[k] = unwrapTexts(e)
		}
	case []any:
		for i, e := range v {
			v[i] = unwrapTexts(e)
		}
		if len(v) != 1 {
			break
		}
		if o, ok := v[0].(object); ok && len(o) == 2 && o["type"] == "text" {
			return o["text"]
		}
	}
	return v
}

// stringsOf are all strings in a value: names of members, and JSON inside of strings, too.
func stringsOf(v any, all *[]string) {
	switch v := v.(type) {
	case string:
		*all = append(*all, v)
		var in any
		if strings.ContainsAny(v, "{[") && json.Unmarshal([]byte(v), &in) == nil {
			stringsOf(in, all)
		}
	case []any:
		for _, e := range v {
			stringsOf(e, all)
		}
	case object:
		for _, k := range sortedKeys(v) {
			*all = append(*all, k)
			stringsOf(v[k], all)
		}
	}
}

// holders are the placeholders in a request, each with the number of the value that it stands for, in the order of their places.
func (s *seenRequest) holders() (order []string, owner map[string]int) {
	owner = map[string]int{}
	for _, text := range s.texts {
		for _, m := range ownedHolder.FindAllStringSubmatch(text, -1) {
			var n int
			_, _ = fmt.Sscan(m[1], &n) // digits alone
			if _, known := owner[m[2]]; !known {
				order = append(order, m[2])
				owner[m[2]] = n
			}
		}
	}
	return order, owner
}

// weight is how much of a request counts: its strings and names without marks, values and placeholders.
func weight(body []byte, values []string) int {
	var o object
	if json.Unmarshal(body, &o) != nil {
		return 0
	}
	withoutMarks(o)
	unwrapTexts(o)
	var read []any
	for _, key := range []string{"messages", "input", "contents", "system", "instructions", "systemInstruction", "tools"} {
		read = append(read, o[key])
	}
	b, _ := json.Marshal(read) // it was JSON before
	text := dialogHolder.ReplaceAllString(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(b)), "")
	for _, v := range values {
		if _, password, ok := strings.Cut(v, "bob:"); ok {
			v, _, _ = strings.Cut(password, "@")
		}
		text = strings.ReplaceAll(text, v, "")
	}
	return len(text)
}

// numbered has placeholders by their order: gateways with other keys have others.
func numbered(body []byte) string {
	known := map[string]string{}
	text := signature.ReplaceAllString(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(body)), "~")
	text = strings.ReplaceAll(text, `",~},{"text":"`, "") // a signature stands where it was given, in a text, too
	return dialogHolder.ReplaceAllStringFunc(text, func(h string) string {
		if known[h] == "" {
			known[h] = fmt.Sprintf("<%s %d>", h[1:len(h)-10], len(known))
		}
		return known[h]
	})
}
