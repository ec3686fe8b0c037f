package reasoning_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// answer is a provider's answer and how it is decoded.
type answer struct {
	format  chat.Dialect
	stream  bool
	options reasoning.Options // without Tags, no Reader is used
	body    []byte
}

// usual returns the options for a model whose dialect is unknown.
func usual() reasoning.Options {
	return reasoning.Options{Tags: reasoning.Of(kind.Reasoning{}, &policy.Resolution{}, chat.OpenAI).Tags}
}

func (a *answer) decoder(r *chat.Request) provider.Decoder {
	h := header.List{{Name: "content-type", Value: "application/json"}}
	if a.stream {
		h[0].Value = "text/event-stream"
	}
	switch a.format { //nolint:exhaustive // no provider answers in the others
	case chat.Anthropic:
		return message.NewDecoder(r, 200, h)
	case chat.Responses:
		return responses.NewDecoder(r, 200, h)
	case chat.Gemini:
		return gemini.NewDecoder(r, 200, h)
	}
	return chatcompletion.NewDecoder(r, 200, h)
}

func dialect(d chat.Dialect) wire.Dialect {
	switch d { //nolint:exhaustive // as above
	case chat.Anthropic:
		return anthropic.Dialect{}
	case chat.Responses:
		return responses.Dialect{}
	case chat.Gemini:
		return gemini.Dialect{}
	}
	return openai.Dialect{}
}

// clients are the client dialects in which answers are written.
var clients = []chat.Dialect{chat.OpenAI, chat.Anthropic, chat.Responses}

// shown returns what a client of a dialect receives of an answer that arrives in pieces ending at the cuts, and the events that it was
// written from, one per line.
func (a *answer) shown(client chat.Dialect, cuts ...int) (out []byte, events string) {
	r := &chat.Request{Dialect: client, Stream: a.stream, Choices: max(1, a.options.Choices)}
	dec := a.decoder(r)
	enc := dialect(client).NewEncoder(wire.Options{Same: client == a.format, Stream: a.stream, RequestID: "req_1", ShowUsage: true, Created: 1700000000})
	var reader *reasoning.Reader
	if len(a.options.Tags) > 0 {
		o := a.options
		o.Frames = client == chat.OpenAI
		reader = reasoning.NewReader(o)
	}
	var lines strings.Builder
	at := 0
	for _, cut := range append(cuts, len(a.body)) {
		piece := bytes.Clone(a.body[at:cut])
		for _, ev := range dec.Decode(piece, cut == len(a.body)) {
			list := []chat.Event{ev}
			if reader != nil {
				list = reader.Read(&ev)
			}
			for i := range list {
				lines.WriteString(line(&list[i]))
				if list[i].Kind == chat.Error {
					return out, lines.String()
				}
				out = enc.Append(out, &list[i])
			}
		}
		clear(piece)
		at = cut
	}
	return out, lines.String()
}

// read returns the events of an answer, without its provider's bytes.
func (a *answer) read(cuts ...int) string {
	_, events := a.shown(chat.Gemini, cuts...) // no answer of these tests is in this format
	return events
}

// line formats an event for comparison.
func line(ev *chat.Event) string {
	at := fmt.Sprintf("%d", ev.Index)
	if ev.Choice > 0 {
		at = fmt.Sprintf("%d/%d", ev.Choice, ev.Index)
	}
	switch ev.Kind {
	case chat.Text:
		return fmt.Sprintf("text %s %q\n", at, ev.Text)
	case chat.Thought:
		return fmt.Sprintf("thought %s %q\n", at, ev.Text)
	case chat.Signature:
		return fmt.Sprintf("signature %s %s\n", at, ev.Text)
	case chat.Redacted:
		return fmt.Sprintf("redacted %s %s\n", at, ev.Text)
	case chat.ToolStart:
		return fmt.Sprintf("tool %s %s\n", at, ev.Tool.Name)
	case chat.ToolArgs:
		return fmt.Sprintf("args %s %s\n", at, ev.Text)
	case chat.BlockStop:
		return "close " + at + "\n"
	case chat.Stop:
		return fmt.Sprintf("stop %s\n", ev.Reason)
	case chat.Error:
		return fmt.Sprintf("error %s\n", ev.Err.Type)
	case chat.UsageInfo:
		u := &ev.Usage
		return fmt.Sprintf("usage %d in, %d out, %d reasoning (%v)\n", u.TotalInput(), u.Output, u.Reasoning, u.ReasoningEstimated)
	case chat.Refusal:
		return fmt.Sprintf("refusal %s %q\n", at, ev.Text)
	case chat.Start, chat.End, chat.Other, chat.Extra:
	}
	return ""
}

// sse returns a stream of data frames.
func sse(data ...string) []byte {
	var b bytes.Buffer
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.Bytes()
}

// chunk returns a chunk with one choice.
func chunk(n int, choice string) string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":%d,%s}]}`, n, choice)
}

func delta(d string) string { return chunk(0, `"delta":{`+d+`},"finish_reason":null`) }

func content(text string) string { return delta(fmt.Sprintf(`"content":%q`, text)) }

func finish(reason string) string { return chunk(0, `"delta":{},"finish_reason":"`+reason+`"`) }

// answerOf returns a Chat Completions stream of some chunks, decoded with the usual options.
func answerOf(chunks ...string) answer {
	return answer{format: chat.OpenAI, stream: true, options: usual(), body: sse(append(append([]string{delta(`"role":"assistant","content":""`)}, chunks...), finish("stop"), "[DONE]")...)}
}

func mustRead(t *testing.T, a answer, want string) {
	t.Helper()
	if got := a.read(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}
