package crossing_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// inBytes cuts a body after each byte, so that the CR and LF of a line end are separated.
func inBytes(body []byte) [][]byte {
	pieces := make([][]byte, len(body))
	for i := range body {
		pieces[i] = body[i : i+1]
	}
	return pieces
}

// TestK37LineEnds: an answer does not depend on how a server ends lines, nor on whether it ends the last event.
func TestK37LineEnds(t *testing.T) {
	variants := map[string]func(string) string{
		"CRLF":                        func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"bare CR":                     func(s string) string { return strings.ReplaceAll(s, "\n", "\r") },
		"no space after the colon":    func(s string) string { return strings.ReplaceAll(s, "data: ", "data:") },
		"the last event unterminated": func(s string) string { return strings.TrimRight(s, "\n") },
		"no space, CRLF, unterminated": func(s string) string {
			return strings.TrimRight(strings.ReplaceAll(strings.ReplaceAll(s, "data: ", "data:"), "\n", "\r\n"), "\r\n")
		},
	}
	for _, s := range samples(t) {
		if !s.from.stream {
			continue
		}
		want, _ := encode(s.to, s.from.dialect, decode(s.from, s.requestFor(s.to), s.body))
		for name, variant := range variants {
			body := []byte(variant(string(s.body)))
			cuts := [][][]byte{{body}}
			if bytes.IndexByte(body, '\r') >= 0 {
				cuts = append(cuts, inBytes(body))
			}
			for _, pieces := range cuts {
				if got, _ := encode(s.to, s.from.dialect, decode(s.from, s.requestFor(s.to), pieces...)); !bytes.Equal(got, want) {
					t.Errorf("%s with %s, in %d pieces\n%s\nwant\n%s", s.name, name, len(pieces), got, want)
				}
			}
		}
	}
}

// TestK39AnEventWithoutEnd: only the event without end is dropped, whether it is too long or not JSON; it is named, and the stream
// continues.
func TestK39AnEventWithoutEnd(t *testing.T) {
	text := map[chat.Dialect]func(string) string{ //nolint:exhaustive // no provider speaks the others
		chat.OpenAI: func(s string) string {
			return `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null}]}` + "\n\n"
		},
		chat.Anthropic: func(s string) string {
			return `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + s + `"}}` + "\n\n"
		},
	}
	end := map[chat.Dialect]string{ //nolint:exhaustive // as above
		chat.OpenAI:    `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
		chat.Anthropic: `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\ndata: {\"type\":\"message_stop\"}\n\n",
	}
	for _, from := range []form{{chat.OpenAI, true}, {chat.Anthropic, true}} {
		for size, expected := range map[int]string{1 << 20: "unreadable_event", 17 << 20: "oversized_event"} {
			for _, to := range []form{from, {chat.Anthropic, false}} {
				t.Run(fmt.Sprintf("%s for %s, %d bytes", from, to, size), func(t *testing.T) {
					pieces := [][]byte{[]byte(text[from.dialect]("before") + `data: {"choices":"`)}
					for range size >> 16 {
						pieces = append(pieces, bytes.Repeat([]byte{'x'}, 1<<16))
					}
					pieces = append(pieces, []byte("\n\n"+text[from.dialect]("after")+end[from.dialect]))
					r := &chat.Request{Dialect: to.dialect, Stream: to.stream, Choices: 1}
					events := decode(from, r, pieces...)
					if got := summarize(events).choices[0].text; got != "beforeafter" || events[len(events)-1].Kind != chat.End {
						t.Errorf("the answer is %q", got)
					}
					_, names := encode(to, from.dialect, events)
					if passes := to == from && expected == "unreadable_event"; passes != (len(names) == 0) || !passes && names[0] != expected {
						t.Errorf("degraded %v, want %s", names, expected)
					}
				})
			}
		}
	}
}

// TestErrorsAreOfTheirClass: for each status of a provider, the type in the body is the one that the client's own provider uses for that
// class, in a JSON answer and inside a stream.
func TestErrorsAreOfTheirClass(t *testing.T) {
	tests := []struct {
		status            int
		openai, anthropic string
	}{
		{400, "invalid_request_error", "invalid_request_error"},
		{401, "authentication_error", "authentication_error"},
		{402, "insufficient_quota", "billing_error"},
		{403, "permission_error", "permission_error"},
		{404, "not_found_error", "not_found_error"},
		{405, "invalid_request_error", "invalid_request_error"},
		{409, "conflict_error", "invalid_request_error"},
		{413, "invalid_request_error", "request_too_large"},
		{415, "invalid_request_error", "invalid_request_error"},
		{422, "invalid_request_error", "invalid_request_error"},
		{429, "rate_limit_error", "rate_limit_error"},
		{500, "api_error", "api_error"},
		{502, "api_error", "api_error"},
		{503, "overloaded_error", "overloaded_error"},
		{504, "timeout_error", "timeout_error"},
		{529, "overloaded_error", "overloaded_error"},
	}
	for _, tt := range tests {
		f := &fault.Fault{Kind: fault.InvalidRequest, Public: "no", Code: "c", Param: "p", Status: tt.status}
		for d, want := range map[wire.Dialect]string{openai.Dialect{}: tt.openai, anthropic.Dialect{}: tt.anthropic} {
			body := d.Error(f, "req_1")
			checkError(t, d, tt.status, want, body)
			frame := d.NewEncoder(wire.Options{Stream: true, RequestID: "req_1"}).Error(nil, f)
			data, ok := bytes.CutPrefix(frame, []byte("data: "))
			if d.Name() == chat.Anthropic {
				data, ok = bytes.CutPrefix(frame, []byte("event: error\ndata: "))
			}
			if !ok || !bytes.Equal(bytes.TrimSuffix(data, []byte("\n\n")), body) {
				t.Errorf("%s %d: the frame is %q", d.Name(), tt.status, frame)
			}
		}
	}
}

func checkError(t *testing.T, d wire.Dialect, status int, want string, body []byte) {
	t.Helper()
	v, err := jsonx.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	e := v.Get("error")
	if !e.Get("type").Equal(want) || !e.Get("message").Equal("no") || !e.Get("code").Equal("c") || !v.Get("request_id").Equal("req_1") {
		t.Errorf("%s %s: %s, want type %s", d.Name(), http.StatusText(status), body, want)
	}
	if d.Name() == chat.Anthropic != v.Get("type").Equal("error") {
		t.Errorf("%s %d: %s", d.Name(), status, body)
	}
}
