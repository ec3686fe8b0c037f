package chatcompletion_test

import (
	"fmt"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
)

// sse returns a stream of data frames.
func sse(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// chunk returns a chunk with one choice.
func chunk(choice string) string {
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,` + choice + `}]}`
}

func delta(d string) string { return chunk(`"delta":{` + d + `},"finish_reason":null`) }

func finish(reason string) string { return chunk(`"delta":{},"finish_reason":"` + reason + `"`) }

const usageChunk = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"up","choices":[],"usage":` +
	`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}}`

// describe formats an event on one line for comparison. It copies, because events alias their decoder.
func describe(ev *chat.Event) string {
	at := fmt.Sprintf("%d", ev.Index)
	if ev.Choice > 0 {
		at = fmt.Sprintf("%d/%d", ev.Choice, ev.Index)
	}
	switch ev.Kind {
	case chat.Start:
		return "start " + ev.ID + " " + ev.Model
	case chat.Text:
		return fmt.Sprintf("text %s %q", at, ev.Text)
	case chat.Thought:
		return fmt.Sprintf("thought %s %q", at, ev.Text)
	case chat.Refusal:
		return fmt.Sprintf("refusal %s %q", at, ev.Text)
	case chat.ToolStart:
		return fmt.Sprintf("tool %s %s %s", at, ev.Tool.ID, ev.Tool.Name)
	case chat.ToolArgs:
		return fmt.Sprintf("args %s %s", at, ev.Text)
	case chat.BlockStop:
		return "close " + at
	case chat.Stop:
		return fmt.Sprintf("stop %s", ev.Reason)
	case chat.UsageInfo:
		u := ev.Usage
		return fmt.Sprintf("usage %d+%d+%d %d/%d final=%v", u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning, u.Final)
	case chat.Error:
		return fmt.Sprintf("error %d %s %s %s", ev.Err.Status, ev.Err.Type, ev.Err.Code, ev.Err.Message)
	case chat.End:
		return "end"
	case chat.Other:
		return "other"
	case chat.Signature:
		return fmt.Sprintf("signature %s %s", at, ev.Text)
	case chat.Redacted:
		return fmt.Sprintf("redacted %s %s", at, ev.Text)
	case chat.Extra:
		suffix := ""
		if ev.Redundant {
			suffix = " (redundant)"
		}
		return fmt.Sprintf("extra %s %s %s%s", at, ev.ID, ev.Text, suffix)
	}
	return fmt.Sprintf("unexpected %d", ev.Kind)
}

// read decodes a body in pieces that end at the cuts, and returns the formatted events, and the frames that a client of the same dialect
// would receive.
func read(d *chatcompletion.Decoder, body string, cuts ...int) (events []string, raw string) {
	at := 0
	for _, cut := range append(cuts, len(body)) {
		piece := []byte(body[at:cut])
		for _, ev := range d.Decode(piece, cut == len(body)) {
			events = append(events, describe(&ev))
			if ev.Kind != chat.Error { // no encoder passes it
				raw += string(ev.Raw)
			}
		}
		for i := range piece { // the events are no longer valid
			piece[i] = '#'
		}
		at = cut
	}
	return events, raw
}

func streamed() *chat.Request   { return &chat.Request{Dialect: chat.OpenAI, Stream: true, Choices: 1} }
func unstreamed() *chat.Request { return &chat.Request{Dialect: chat.OpenAI, Choices: 1} }

var (
	eventStream = header.List{{Name: "content-type", Value: "text/event-stream; charset=utf-8"}}
	jsonBody    = header.List{{Name: "content-type", Value: "application/json"}}
)
