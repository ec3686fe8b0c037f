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

// bytesPerToken is the demo provider's tokenizer: one token per started four bytes.
const bytesPerToken = 4

func tokens(bytes int) int64 { return int64((bytes + bytesPerToken - 1) / bytesPerToken) }

// answer returns the demo provider's answer as events. It is a pure function of the request.
func answer(req *chat.Request, conv *chat.Conversation) []chat.Event {
	a := answerer{limited: req.MaxTokens > 0, stops: conv.Params.Stop}
	a.add(chat.Event{Kind: chat.Start, ID: id(req.Doc.Bytes), Model: req.Model})
	for a.choice = range choices(req) {
		a.addChoice(req, conv)
	}
	a.choice = 0
	a.add(chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{
		Input: tokens(len(req.Doc.Bytes)), Output: a.output + a.reasoning, Reasoning: a.reasoning, Final: true,
	}})
	a.add(chat.Event{Kind: chat.End})
	return a.events
}

// maxChoices is the API's maximum number of choices.
const maxChoices = 128

// choices is the requested number of answers.
func choices(req *chat.Request) int {
	n, ok := req.Doc.Get("n").Int()
	if !ok {
		return 1
	}
	return int(min(max(n, 1), maxChoices))
}

// addChoice adds one choice. All choices are the same.
func (a *answerer) addChoice(req *chat.Request, conv *chat.Conversation) {
	a.index, a.remaining, a.cut, a.sequence = 0, req.MaxTokens, false, ""
	if req.Thinking {
		a.think("The demo provider has no model, so there is nothing to think about: it repeats what it received.")
	}
	reason := chat.StopEnd
	schema, tool := answerSchema(conv)
	switch call, ok := requestedTool(conv); {
	case ok:
		a.call(call)
		reason = chat.StopTool
	case tool != "":
		a.call(chat.ToolCall{ID: "call_" + id(schema), Name: tool, Args: example.Of(schema, example.Options{})})
		reason = chat.StopTool
	case schema != nil:
		a.addText(example.Of(schema, example.Options{}))
	case wantsJSON(req):
		a.addText(object(req, conv))
	default:
		a.addText(sentence(req, conv))
	}
	switch {
	case a.cut:
		reason = chat.StopLength
	case a.sequence != "":
		reason = chat.StopSequence
	}
	a.add(chat.Event{Kind: chat.Stop, Reason: reason, Text: []byte(a.sequence)})
}

func id(body []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(body) // writing to a hash cannot fail
	return "demo-" + strconv.FormatUint(h.Sum64(), 16)
}

// answerer collects the events of an answer, block by block, up to the caller's limit.
type answerer struct {
	events            []chat.Event
	choice, index     int
	remaining         int // tokens left of the limit
	limited, cut      bool
	stops             []string // the request's stop sequences
	sequence          string   // the one that ended the choice; "" for none
	output, reasoning int64
}

func (a *answerer) add(ev chat.Event) {
	ev.Choice, ev.Index = a.choice, a.index
	a.events = append(a.events, ev)
}

func (a *answerer) stop() {
	a.add(chat.Event{Kind: chat.BlockStop})
	a.index++
}

// words emits a text word by word and returns its tokens.
func (a *answerer) words(kind chat.EventKind, text string) (n int64) {
	for w := range strings.SplitAfterSeq(text, " ") {
		t := tokens(len(w))
		if a.limited && int64(a.remaining) < t {
			a.cut = true
			break
		}
		a.remaining -= int(t)
		n += t
		a.add(chat.Event{Kind: kind, Text: []byte(w)})
	}
	return n
}

func (a *answerer) think(text string) {
	a.reasoning += a.words(chat.Thought, text)
	a.add(chat.Event{Kind: chat.Signature, Text: []byte("demo")})
	a.stop()
}

// addText adds a text up to the first stop sequence in it.
func (a *answerer) addText(text string) {
	for _, stop := range a.stops {
		if before, _, found := strings.Cut(text, stop); found && stop != "" {
			text, a.sequence = before, stop
		}
	}
	a.output += a.words(chat.Text, text)
	a.stop()
}

func (a *answerer) call(c chat.ToolCall) {
	a.add(chat.Event{Kind: chat.ToolStart, Tool: chat.ToolCall{ID: c.ID, Name: c.Name}})
	a.add(chat.Event{Kind: chat.ToolArgs, Text: []byte(c.Args)})
	a.output += tokens(len(c.Name) + len(c.Args))
	a.stop()
}

// sentence describes the request in one sentence.
func sentence(req *chat.Request, conv *chat.Conversation) string {
	s := fmt.Sprintf("This is Bardo's demo provider; no model answered. It received model %q, %s and %s.",
		req.Model, counted(len(conv.Messages), "message"), counted(len(conv.Tools), "tool"))
	if result, ok := lastResult(conv); ok {
		return s + " The tool said: " + echo(result)
	}
	return s + " The last user text: " + echo(lastUserText(conv))
}

// wantsJSON reports whether the request asks for any JSON object.
func wantsJSON(req *chat.Request) bool {
	kind, _ := req.Doc.Get("response_format").Get("type").Str()
	return kind == "json_object"
}

// object returns the content of sentence as JSON.
func object(req *chat.Request, conv *chat.Conversation) string {
	out := struct {
		Demo     bool   `json:"demo"`
		Model    string `json:"model"`
		Messages int    `json:"messages"`
		Tools    int    `json:"tools"`
		Result   string `json:"tool_result,omitempty"`
		Text     string `json:"last_user_text"`
	}{true, req.Model, len(conv.Messages), len(conv.Tools), "", echo(lastUserText(conv))}
	if result, ok := lastResult(conv); ok {
		out.Result = echo(result)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "{}" // marshalling cannot fail
	}
	return string(b)
}

// maxEcho is the maximum length of a repeated text in bytes.
const maxEcho = 1000

// echo truncates a text of the request to maxEcho.
func echo(s string) string {
	if len(s) <= maxEcho {
		return s
	}
	start := strings.ToValidUTF8(s[:maxEcho], "")
	return fmt.Sprintf("%s… (%d bytes more)", start, len(s)-len(start))
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

// lastResult returns the tool result that ends the conversation, if there is one.
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

// requestedTool parses "call TOOL {json}" in the last user text. The tool must be declared; the JSON is optional.
func requestedTool(conv *chat.Conversation) (chat.ToolCall, bool) {
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

// arguments returns the JSON object at the start of a text, or the empty object.
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
