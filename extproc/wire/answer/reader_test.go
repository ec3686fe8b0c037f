package answer_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/internal/header"
)

func reader(stream bool, status int, media string) answer.Reader {
	f := answer.Format{Dialect: chat.OpenAI, MaxEvent: 64, Terminator: "[DONE]"}
	h := header.List{{Name: "content-type", Value: media}}
	return answer.NewReader(f, &chat.Request{Dialect: chat.OpenAI, Stream: stream}, status, h)
}

func TestContentTypeOrRequestDecideWhetherTheBodyIsAStream(t *testing.T) {
	for _, tt := range []struct {
		streamed       bool
		status         int
		media          string
		stream, passes bool
	}{
		{true, 200, "text/event-stream", true, true},
		{true, 200, " Text/Event-Stream ; charset=utf-8", true, true},
		{true, 200, "", true, true},
		{true, 200, "application/json", false, false},
		{false, 200, "application/json; charset=utf-8", false, true},
		{false, 200, "text/plain", false, true},
		{false, 200, "text/event-stream", true, false},
		{true, 500, "text/event-stream", false, false},
	} {
		if r := reader(tt.streamed, tt.status, tt.media); r.Stream != tt.stream || r.Passes != tt.passes {
			t.Errorf("%+v: stream %v, passes %v", tt, r.Stream, r.Passes)
		}
	}
}

func TestTheLastFrameCountsIfItIsWhole(t *testing.T) {
	const first = "data: {}\n\n"
	for _, tt := range []struct {
		name, rest string
		want       []string
	}{
		{"nothing", "", []string{first}},
		{"an object", `data: {"a":1}`, []string{first, "data: {\"a\":1}\n\n"}},
		{"an object and one line end", "data: {\"a\":1}\n", []string{first, "data: {\"a\":1}\n\n"}},
		{"the terminator", "data: [DONE]", []string{first, "data: [DONE]\n\n"}},
		{"K-37 a bare CR", "data: [DONE]\r", []string{first, "data: [DONE]\r\n\n"}},
		{"half an object", `data: {"a":`, []string{first}},
		{"what may be half a number", "data: 1", []string{first}},
		{"a comment", ": hi", []string{first}},
		{"too long", "data: " + strings.Repeat("x", 64), []string{first}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reader(true, 200, "text/event-stream")
			var got []string
			for f := range r.Take([]byte(first+tt.rest), true) {
				got = append(got, string(f.Raw))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNothingIsReadAfterTheEnd(t *testing.T) {
	r := reader(true, 200, "text/event-stream")
	for range r.Take([]byte("data: {}\n\ndata: {}\n\ndata: {}"), true) {
		r.End()
	}
	if len(r.Events) != 1 || r.Events[0].Kind != chat.End {
		t.Errorf("got %+v", r.Events)
	}
	for f := range r.Take([]byte("data: {}\n\n"), true) {
		t.Errorf("got %q", f.Raw)
	}
	if len(r.Events) != 0 {
		t.Errorf("events of the piece before: %+v", r.Events)
	}
}

func TestJSONIsCollectedWithinLimits(t *testing.T) {
	huge := `"` + strings.Repeat("x", 64<<20) + `"`
	for _, tt := range []struct {
		name   string
		status int
		pieces []string
		want   string // the error's type, or its message if it has none
		length int
	}{
		{"two pieces", 200, []string{`{"a"`, `:1}`}, "", 7},
		{"as long as it may be", 200, []string{huge[:64<<20-1], `"`}, "", 64 << 20},
		{"longer", 200, []string{huge}, "too_large", 64 << 20},
		{"longer by a second piece", 200, []string{huge[:1<<20], huge}, "too_large", 64 << 20},
		{"cut", 200, []string{`{"a"`}, "invalid_response", 4},
		{"an error", 429, []string{"slow ", "down"}, "slow down", 9},
		{"a long error", 500, []string{huge[1 : 1<<20]}, strings.Repeat("x", 8), 64 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reader(false, tt.status, "application/json")
			for i, p := range tt.pieces {
				for f := range r.Take([]byte(p), i == len(tt.pieces)-1) {
					t.Errorf("a frame: %q", f.Raw)
				}
			}
			got := ""
			if _, err := r.JSON(); err != nil {
				got = err.Type + err.Message
			}
			if !strings.HasPrefix(got, tt.want) || (tt.want == "") != (got == "") || len(r.Body) != tt.length {
				t.Errorf("got %.40q after %d bytes, want %q after %d", got, len(r.Body), tt.want, tt.length)
			}
		})
	}
}

func TestOneEventCarriesTheBytes(t *testing.T) {
	raw, model := []byte("bytes"), chat.Span{Start: 1, End: 2}
	text, failed := chat.Event{Kind: chat.Text}, chat.Event{Kind: chat.Error}
	for _, tt := range []struct {
		name   string
		events []chat.Event
		kinds  []chat.EventKind
	}{
		{"none", nil, []chat.EventKind{chat.Other}},
		{"two", []chat.Event{text, text}, []chat.EventKind{chat.Text, chat.Text}},
		{"an error", []chat.Event{text, failed}, []chat.EventKind{chat.Error}},
	} {
		for _, passes := range []bool{true, false} {
			r := reader(true, 200, "")
			r.Passes = passes
			r.Emit(chat.Event{Kind: chat.Start})
			for _, ev := range tt.events {
				r.Emit(ev)
			}
			r.AttachFrame(1, raw, model)
			var kinds []chat.EventKind
			for i, ev := range r.Events[1:] {
				kinds = append(kinds, ev.Kind)
				if carries := passes && i == 0; (ev.Raw != nil) != carries || (ev.ModelSpan == model) != carries || ev.Tail != (passes && i > 0) {
					t.Errorf("%s, passes %v: event %d is %+v", tt.name, passes, i, ev)
				}
			}
			if !slices.Equal(kinds, tt.kinds) || r.Events[0].Raw != nil || r.Events[0].Tail {
				t.Errorf("%s, passes %v: %+v", tt.name, passes, r.Events)
			}
		}
	}
}
