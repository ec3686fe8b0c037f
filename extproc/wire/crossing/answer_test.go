package crossing_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
)

// form is the form of an answer: its dialect, and whether it is a stream or one JSON body.
type form struct {
	dialect chat.Dialect
	stream  bool
}

var forms = []form{
	{chat.OpenAI, false},
	{chat.OpenAI, true},
	{chat.Anthropic, false},
	{chat.Anthropic, true},
	{chat.Responses, false},
	{chat.Responses, true},
	{chat.Gemini, false},
	{chat.Gemini, true},
}

func (f form) String() string {
	if f.stream {
		return string(f.dialect) + " stream"
	}
	return string(f.dialect) + " JSON"
}

// client returns the dialect on the client's side.
func (f form) client() wire.Dialect {
	switch f.dialect { //nolint:exhaustive // the others have no clients, or a single form
	case chat.Anthropic:
		return anthropic.Dialect{}
	case chat.Responses:
		return responses.Dialect{}
	case chat.Gemini:
		return gemini.Dialect{}
	}
	return openai.Dialect{}
}

// file returns the name of an answer in this form, after "in" or "out".
func (f form) file() string {
	if f.stream {
		return ".sse"
	}
	return ".json"
}

func (f form) header() header.List {
	if f.stream {
		return header.List{{Name: "content-type", Value: "text/event-stream"}}
	}
	return header.List{{Name: "content-type", Value: "application/json"}}
}

// crossings are the folders of answers, and what they test.
var crossings = []struct {
	dir      string
	from, to form
}{
	{"openai-to-anthropic-json", form{chat.OpenAI, false}, form{chat.Anthropic, false}},
	{"openai-to-anthropic-stream", form{chat.OpenAI, true}, form{chat.Anthropic, true}},
	{"anthropic-to-openai-json", form{chat.Anthropic, false}, form{chat.OpenAI, false}},
	{"anthropic-to-openai-stream", form{chat.Anthropic, true}, form{chat.OpenAI, true}},
	{"openai-json-to-stream", form{chat.OpenAI, false}, form{chat.OpenAI, true}},
	{"openai-stream-to-json", form{chat.OpenAI, true}, form{chat.OpenAI, false}},
	{"anthropic-json-to-stream", form{chat.Anthropic, false}, form{chat.Anthropic, true}},
	{"anthropic-stream-to-json", form{chat.Anthropic, true}, form{chat.Anthropic, false}},
	{"openai-to-responses-json", form{chat.OpenAI, false}, form{chat.Responses, false}},
	{"openai-to-responses-stream", form{chat.OpenAI, true}, form{chat.Responses, true}},
	{"anthropic-to-responses-json", form{chat.Anthropic, false}, form{chat.Responses, false}},
	{"anthropic-to-responses-stream", form{chat.Anthropic, true}, form{chat.Responses, true}},
	{"gemini-to-responses-json", form{chat.Gemini, false}, form{chat.Responses, false}},
	{"gemini-to-responses-stream", form{chat.Gemini, true}, form{chat.Responses, true}},
	{"gemini-to-openai-json", form{chat.Gemini, false}, form{chat.OpenAI, false}},
	{"gemini-to-openai-stream", form{chat.Gemini, true}, form{chat.OpenAI, true}},
	{"gemini-to-anthropic-json", form{chat.Gemini, false}, form{chat.Anthropic, false}},
	{"gemini-to-anthropic-stream", form{chat.Gemini, true}, form{chat.Anthropic, true}},
	{"openai-to-gemini-json", form{chat.OpenAI, false}, form{chat.Gemini, false}},
	{"openai-to-gemini-stream", form{chat.OpenAI, true}, form{chat.Gemini, true}},
	{"anthropic-to-gemini-json", form{chat.Anthropic, false}, form{chat.Gemini, false}},
	{"anthropic-to-gemini-stream", form{chat.Anthropic, true}, form{chat.Gemini, true}},
	{"responses-to-openai-json", form{chat.Responses, false}, form{chat.OpenAI, false}},
	{"responses-to-openai-stream", form{chat.Responses, true}, form{chat.OpenAI, true}},
	{"responses-to-anthropic-json", form{chat.Responses, false}, form{chat.Anthropic, false}},
	{"responses-to-anthropic-stream", form{chat.Responses, true}, form{chat.Anthropic, true}},
	{"responses-to-gemini-json", form{chat.Responses, false}, form{chat.Gemini, false}},
	{"responses-to-gemini-stream", form{chat.Responses, true}, form{chat.Gemini, true}},
	{"gemini-json-to-stream", form{chat.Gemini, false}, form{chat.Gemini, true}},
	{"gemini-stream-to-json", form{chat.Gemini, true}, form{chat.Gemini, false}},
	{"responses-json-to-stream", form{chat.Responses, false}, form{chat.Responses, true}},
	{"responses-stream-to-json", form{chat.Responses, true}, form{chat.Responses, false}},
}

// TestAnswers compares encoders and decoders with the pairs: what a client of each form receives of a provider's answer, what the form
// cannot express, and the error of a failed answer.
func TestAnswers(t *testing.T) {
	for _, c := range crossings {
		t.Run(c.dir, func(t *testing.T) {
			runPairs(t, filepath.Join("testdata", "answer", c.dir), func(t *testing.T, p pair) []txtar.File {
				t.Helper()
				r := request(t, p, c.to)
				events := decode(c.from, r, answerOf(p))
				out, names := encodeFor(r, c.to, c.from.dialect, events)
				files := []txtar.File{{Name: "out" + c.to.file(), Data: out}}
				if err := events[len(events)-1].Err; err != nil {
					files = append(files, txtar.File{Name: "error", Data: fmt.Appendf(nil, "%d %s %s\n%s", err.Status, err.Type, err.Code, err.Message)})
				}
				return append(files, txtar.File{Name: "lost", Data: []byte(strings.Join(names, "\n"))})
			})
		})
	}
}

// answerOf returns a pair's answer as the provider sent it. Archives have no blank line at a file's end; streams have one.
func answerOf(p pair) []byte {
	if sse := p.file("in.sse"); sse != "" {
		return []byte(strings.TrimRight(sse, "\n") + "\n\n")
	}
	return []byte(strings.TrimSpace(p.file("in.json") + p.file("in.txt")))
}

// request returns the client's request: the pair's, or a minimal one for this form.
func request(t testing.TB, p pair, want form) *chat.Request {
	t.Helper()
	body := p.file("request.json")
	if body == "" {
		return &chat.Request{Dialect: want.dialect, Stream: want.stream, Choices: 1}
	}
	r, err := want.client().Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newDecoder returns a decoder of a provider's answer in the form from, for the client's request r.
func newDecoder(from form, r *chat.Request) provider.Decoder {
	switch from.dialect { //nolint:exhaustive // as above
	case chat.Anthropic:
		return message.NewDecoder(r, 200, from.header())
	case chat.Responses:
		return responses.NewDecoder(r, 200, from.header())
	case chat.Gemini:
		return gemini.NewDecoder(r, 200, from.header())
	}
	return chatcompletion.NewDecoder(r, 200, from.header())
}

// decode decodes an answer that arrives in pieces. The events are copied, because a decoder's events are valid until its next call.
func decode(from form, r *chat.Request, pieces ...[]byte) []chat.Event {
	d := newDecoder(from, r)
	var events []chat.Event
	for i, piece := range pieces {
		lent := bytes.Clone(piece)
		for _, ev := range d.Decode(lent, i == len(pieces)-1) {
			ev.Text, ev.Raw = bytes.Clone(ev.Text), bytes.Clone(ev.Raw)
			events = append(events, ev)
		}
		clear(lent)
	}
	return events
}

// encode writes events, which were decoded from the dialect source, for a client. It stops after an error.
func encode(to form, source chat.Dialect, events []chat.Event) (out []byte, names []string) {
	return encodeFor(nil, to, source, events)
}

// encodeFor is encode for a client whose request the encoder gets.
func encodeFor(r *chat.Request, to form, source chat.Dialect, events []chat.Event) (out []byte, names []string) {
	enc := to.client().NewEncoder(wire.Options{
		Same: to.dialect == source, Stream: to.stream, Model: "m", RequestID: "req_1", ShowUsage: true, Created: 1700000000,
		Request: r,
	})
	for i := range events {
		if events[i].Kind == chat.Error {
			break
		}
		out = enc.Append(out, &events[i])
	}
	return out, enc.Degraded()
}
