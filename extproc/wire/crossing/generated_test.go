package crossing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/sse"
)

// writer generates answers.
type writer struct {
	*rand.Rand
	events []chat.Event
	choice int
	block  int
}

var words = []string{"a", "Hé", "\"q\"", "\\", "\n\n", "data: [DONE]", "😀", "<b>", "\u2028", " ", "event: x\r"}

func (w *writer) add(ev chat.Event) {
	ev.Choice = w.choice
	w.events = append(w.events, ev)
}

// text adds one or more pieces of one kind.
func (w *writer) text(kind chat.EventKind, id string) {
	for range 1 + w.IntN(3) {
		w.add(chat.Event{Kind: kind, ID: id, Index: w.block, Text: []byte(words[w.IntN(len(words))])})
	}
}

// answer generates the events of an answer, as the decoder of a dialect emits them: with blocks of every kind in any order. Anthropic has
// one choice and no refusals; OpenAI's thinking precedes the rest, and its refusals follow it.
func (w *writer) answer(d chat.Dialect) []chat.Event {
	w.add(chat.Event{Kind: chat.Start, ID: "id_1", Model: "up"})
	choices := 1
	if d == chat.OpenAI {
		choices += w.IntN(2)
	}
	for w.choice = range choices {
		w.content(d)
	}
	w.choice = 0
	w.add(chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{
		Input: w.Int64N(1000), Cached: w.Int64N(3), CacheWrite: w.Int64N(3), CacheWrite1h: w.Int64N(2) * w.Int64N(9), Output: 1 + w.Int64N(1000), Final: true,
	}})
	w.add(chat.Event{Kind: chat.End})
	return w.events
}

func (w *writer) content(d chat.Dialect) {
	calls := 0
	for range w.IntN(3) {
		w.thinking()
	}
	for range w.IntN(4) {
		switch kind := w.IntN(3); {
		case kind == 0 && d == chat.Anthropic:
			w.thinking()
		case kind == 1:
			w.call()
			calls++
		default:
			w.text(chat.Text, "")
			w.stop()
		}
	}
	if d == chat.OpenAI && w.IntN(4) == 0 {
		w.text(chat.Refusal, "")
		w.stop()
	}
	reasons := []chat.StopReason{chat.StopEnd, chat.StopLength, chat.StopRefusal}
	if calls > 0 {
		reasons = []chat.StopReason{chat.StopTool, chat.StopLength}
	}
	w.add(chat.Event{Kind: chat.Stop, Reason: reasons[w.IntN(len(reasons))]})
}

func (w *writer) stop() {
	w.add(chat.Event{Kind: chat.BlockStop, Index: w.block})
	w.block++
}

func (w *writer) thinking() {
	if w.IntN(4) == 0 {
		w.add(chat.Event{Kind: chat.Redacted, ID: chat.ClaudeThinking, Index: w.block, Text: []byte("b3BhcXVl")})
		w.stop()
		return
	}
	w.text(chat.Thought, chat.ClaudeThinking)
	w.add(chat.Event{Kind: chat.Signature, ID: chat.ClaudeThinking, Index: w.block, Text: fmt.Appendf(nil, "sig%d", w.block)})
	w.stop()
}

func (w *writer) call() {
	w.add(chat.Event{Kind: chat.ToolStart, Index: w.block, Tool: chat.ToolCall{ID: fmt.Sprintf("call_%d", w.block), Name: "f"}})
	switch w.IntN(3) {
	case 0: // no arguments
	case 1:
		w.add(chat.Event{Kind: chat.ToolArgs, Index: w.block, Text: []byte(`{"x":"é\n"}`)})
	default:
		for _, piece := range []string{`{"x"`, `:[1,`, `2.50]}`} {
			w.add(chat.Event{Kind: chat.ToolArgs, Index: w.block, Text: []byte(piece)})
		}
	}
	w.stop()
}

// FuzzWrittenRequestsAreReadable: an answer that is encoded and decoded is the same, except for what the form normalises.
func FuzzWrittenRequestsAreReadable(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, from := range []chat.Dialect{chat.OpenAI, chat.Anthropic} {
			w := writer{Rand: rand.New(rand.NewPCG(seed, 1))}
			events := w.answer(from)
			for _, to := range forms {
				// Same would require what these events lack: OpenAI's reasoning_details.
				out, _ := encode(to, "", events)
				r := &chat.Request{Dialect: to.dialect, Stream: to.stream, Choices: w.choice + 1}
				if got, want := summarize(decode(to, r, out)), summarize(events); !got.equals(want, to) {
					t.Fatalf("%s's answer %d as %s says\n%v\nwant\n%v\n%s", from, seed, to, got, want, out)
				}
			}
		}
	})
}

// FuzzAnyAnswer checks K-38 for both decoders and all their events, on any bytes: the result does not depend on the cuts, the last event is
// End or Error, and the encoded answer is valid JSON in whole frames.
func FuzzAnyAnswer(f *testing.F) {
	for i, s := range samples(f) {
		f.Add(s.body, s.from.dialect == chat.OpenAI, s.from.stream, uint16(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, fromOpenAI, stream bool, at uint16) {
		from := form{chat.Anthropic, stream}
		if fromOpenAI {
			from.dialect = chat.OpenAI
		}
		cut := int(at) % (len(body) + 1)
		for _, to := range forms {
			r := &chat.Request{Dialect: to.dialect, Stream: to.stream, Choices: 1}
			events := decode(from, r, body)
			if n := len(events); n == 0 || events[n-1].Kind != chat.End && events[n-1].Kind != chat.Error && !events[n-1].Tail {
				t.Fatalf("%q has no end", body)
			}
			want, names := encode(to, from.dialect, events)
			got, namesOfHalves := encode(to, from.dialect, decode(from, r, body[:cut], body[cut:]))
			checkFrames(t, to, from.dialect, events)
			if !bytes.Equal(got, want) || fmt.Sprint(names) != fmt.Sprint(namesOfHalves) {
				t.Fatalf("%q for %s, cut at %d\n%s\nwant\n%s", body, to, cut, got, want)
			}
		}
	})
}

// checkFrames checks the encoding of events without the provider's own bytes.
func checkFrames(t *testing.T, to form, source chat.Dialect, events []chat.Event) {
	t.Helper()
	events = slices.Clone(events)
	for i := range events {
		events[i].Raw, events[i].Tail = nil, false
	}
	out, _ := encode(to, source, events)
	if !to.stream {
		if len(out) > 0 && !json.Valid(out) {
			t.Fatalf("%s is no JSON: %s", to, out)
		}
		return
	}
	var s sse.Scanner
	for _, f := range s.Next(out) {
		if string(f.Data) != "[DONE]" && !json.Valid(f.Data) {
			t.Fatalf("%s has the frame %q", to, f.Raw)
		}
	}
	if rest := s.End(); len(rest) > 0 {
		t.Fatalf("%s has half a frame: %q", to, rest[0].Raw)
	}
}
