package demo

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/example"
	"bardo.money/gateway/internal/jsonx"
)

// bytesPerToken is the demo provider's tokenizer: it counts one token for every four bytes, begun ones included.
const bytesPerToken = 4

func tokens(bytes int) int64 { return int64((bytes + bytesPerToken - 1) / bytesPerToken) }

// answer is what the demo provider says to a request, as events. It depends on the request alone.
func answer(req *chat.Request, conv *chat.Conversation) []chat.Event {
	a := answerer{left: req.MaxTokens, limited: req.MaxTokens > 0}
	a.add(chat.Event{Kind: chat.Start, ID: id(req.Doc.Bytes), Model: req.Model})
	if req.Thinking {
		a.think("The demo provider has no model, so there is nothing to think about: it repeats what it received.")
	}
	reason := chat.StopEnd
	if call, ok := asksForTool(conv); ok {
		a.call(call)
		reason = chat.StopTool
	} else if schema, tool := form(conv); tool != "" {
		a.call(chat.ToolCall{ID: "call_" + id(schema), Name: tool, Args: example.Of(schema, example.Options{})})
		reason = chat.StopTool
	} else if schema != nil {
		a.say(example.Of(schema, example.Options{}))
	} else {
		a.say(sentence(req, conv))
	}
	if a.cut {
		reason = chat.StopLength
	}
	a.add(chat.Event{Kind: chat.Stop, Reason: reason})
	a.add(chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{
		Input: tokens(len(req.Doc.Bytes)), Output: a.output + a.reasoning, Reasoning: a.reasoning, Final: true,
	}})
	a.add(chat.Event{Kind: chat.End})
	return a.events
}

func id(body []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(body) // a hash takes everything
	return "demo-" + strconv.FormatUint(h.Sum64(), 16)
}

// answerer collects the events of an answer, block by block, up to the caller's limit.
type answerer struct {
	events            []chat.Event
	index             int
	left              int // tokens that the limit still allows
	limited, cut      bool
	output, reasoning int64
}

func (a *answerer) add(ev chat.Event) {
	ev.Index = a.index
	a.events = append(a.events, ev)
}

func (a *answerer) stop() {
	a.add(chat.Event{Kind: chat.BlockStop})
	a.index++
}

// words adds a text word by word and returns its tokens.
func (a *answerer) words(kind chat.EventKind, text string) (n int64) {
	for w := range strings.SplitAfterSeq(text, " ") {
		t := tokens(len(w))
		if a.limited && int64(a.left) < t {
			a.cut = true
			break
		}
		a.left -= int(t)
		n += t
		a.add(chat.Event{Kind: kind, Text: []byte(w)})
	}
	return n
}

func (a *answerer) think(text string) {
	a.reasoning = a.words(chat.Thought, text)
	a.add(chat.Event{Kind: chat.Signature, Text: []byte("demo")})
	a.stop()
}

func (a *answerer) say(text string) {
	a.output += a.words(chat.Text, text)
	a.stop()
}

func (a *answerer) call(c chat.ToolCall) {
	a.add(chat.Event{Kind: chat.ToolStart, Tool: chat.ToolCall{ID: c.ID, Name: c.Name}})
	a.add(chat.Event{Kind: chat.ToolArgs, Text: []byte(c.Args)})
	a.output += tokens(len(c.Name) + len(c.Args))
	a.stop()
}

// sentence says what was received.
func sentence(req *chat.Request, conv *chat.Conversation) string {
	s := fmt.Sprintf("This is Bardo's demo provider; no model answered. It received model %q, %s and %s.",
		req.Model, counted(len(conv.Messages), "message"), counted(len(conv.Tools), "tool"))
	if result, ok := lastResult(conv); ok {
		return s + " The tool said: " + result
	}
	return s + " The last user text: " + lastUserText(conv)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func text(parts []chat.Part) string {
	var s []string
	for i := range parts {
		if parts[i].Kind == chat.PartText {
			s = append(s, parts[i].Text)
		}
	}
	return strings.Join(s, "\n")
}

func lastUserText(conv *chat.Conversation) string {
	for _, m := range slices.Backward(conv.Messages) {
		if t := text(m.Parts); t != "" && m.Role == chat.RoleUser {
			return t
		}
	}
	return "(none)"
}

// lastResult is the result of a tool, if that is what the conversation ends with.
func lastResult(conv *chat.Conversation) (string, bool) {
	if len(conv.Messages) == 0 {
		return "", false
	}
	for _, p := range slices.Backward(conv.Messages[len(conv.Messages)-1].Parts) {
		if p.Kind == chat.PartToolResult {
			return text(p.Parts), true
		}
	}
	return "", false
}

// asksForTool reads "call TOOL {json}" from the last user text. The tool must be declared, and the JSON may be left out.
func asksForTool(conv *chat.Conversation) (chat.ToolCall, bool) {
	if _, answered := lastResult(conv); answered || conv.ToolChoice.Mode == chat.ToolNone {
		return chat.ToolCall{}, false
	}
	_, rest, ok := strings.Cut(lastUserText(conv), "call ")
	if !ok {
		return chat.ToolCall{}, false
	}
	for i := range conv.Tools {
		name := conv.Tools[i].Name
		after, ok := strings.CutPrefix(rest, name)
		if ok && name != "" && (after == "" || strings.ContainsAny(after[:1], " \n{")) {
			args := arguments(after)
			return chat.ToolCall{ID: "call_" + id([]byte(rest)), Name: name, Args: args}, true
		}
	}
	return chat.ToolCall{}, false
}

// arguments is the JSON object that text starts with, or the empty one.
func arguments(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		return "{}"
	}
	var raw json.RawMessage
	if json.NewDecoder(strings.NewReader(text)).Decode(&raw) != nil || jsonx.Valid(raw) != nil {
		return "{}"
	}
	return string(raw)
}
