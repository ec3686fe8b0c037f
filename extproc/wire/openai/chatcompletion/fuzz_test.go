package chatcompletion_test

import (
	"encoding/json"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
)

var streams = []string{
	sse(delta(`"role":"assistant","content":""`), delta(`"content":"H\u00e9\ud83d\ude00"`), finish("stop"), usageChunk, "[DONE]"),
	sse(delta(`"reasoning_content":"hm"`), delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]`), finish("tool_calls"), "[DONE]"),
	": ping\r\n\r\ndata:" + delta(`"content":"a"`) + "\r\rdata: {\"error\":{\"code\":429}}\n\n",
	"event: error\ndata: {}\n\n",
	sse(delta(`"reasoning":"h","reasoning_details":[{"type":"reasoning.text","text":"h","format":"anthropic-claude-v1","index":0}]`),
		delta(`"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0},{"type":"reasoning.encrypted","data":"x"}]`), finish("stop"), "[DONE]"),
	sse(chunk(`"delta":{"content":"a","annotations":[{"type":"url_citation"}]},"logprobs":{"content":[{"token":"a"}]},"finish_reason":null`), finish("stop"), usageChunk, "[DONE]"),
}

// FuzzWhereAStreamIsCutChangesNothing checks K-38: the same events, and for a client of the same dialect the same bytes.
func FuzzWhereAStreamIsCutChangesNothing(f *testing.F) {
	for _, s := range streams {
		f.Add(s, uint16(7), uint16(40), true)
	}
	f.Add(`{"id":"c","choices":[{"message":{"content":"a\n"}}]}`, uint16(3), uint16(9), false)
	f.Add("0\n\n1", uint16(0), uint16(2), true) // a frame complete in the last piece, and one that is not
	f.Fuzz(func(t *testing.T, body string, a, b uint16, stream bool) {
		req := &chat.Request{Dialect: chat.OpenAI, Stream: stream, Choices: 1}
		cuts := []int{int(a) % (len(body) + 1), int(b) % (len(body) + 1)}
		if cuts[0] > cuts[1] {
			cuts[0], cuts[1] = cuts[1], cuts[0]
		}
		if cuts[1] == len(body) { // a piece that ends the body is its last
			cuts = cuts[:0]
		}
		want, wantRaw := read(chatcompletion.NewDecoder(req, 200, nil), body)
		got, gotRaw := read(chatcompletion.NewDecoder(req, 200, nil), body, cuts...)
		if strings.Join(got, "\n") != strings.Join(want, "\n") || gotRaw != wantRaw {
			t.Fatalf("%q cut at %v\ngot  %v\nwant %v", body, cuts, got, want)
		}
		last := want[len(want)-1]
		if last != "end" && !strings.HasPrefix(last, "error ") {
			t.Fatalf("%q ends with %s", body, last)
		}
	})
}

func TestK38EveryCutOfAStream(t *testing.T) {
	for _, body := range streams {
		want, wantRaw := read(chatcompletion.NewDecoder(streamed(), 200, eventStream), body)
		for cut := range len(body) {
			got, gotRaw := read(chatcompletion.NewDecoder(streamed(), 200, eventStream), body, cut)
			if strings.Join(got, "\n") != strings.Join(want, "\n") || gotRaw != wantRaw {
				t.Fatalf("%q cut at %d\ngot  %v\nwant %v", body, cut, got, want)
			}
		}
	}
}

// FuzzTheSameDialectPassesUnchanged: what the client receives is a prefix of what the provider sent, byte by byte up to its end or error;
// only a last event without its blank line gets one. Hiding usage removes frames, and adds nothing.
func FuzzTheSameDialectPassesUnchanged(f *testing.F) {
	for _, s := range streams {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		shown := through(wire.Options{Same: true, Stream: true, ShowUsage: true}, body)
		_, raw := read(chatcompletion.NewDecoder(streamed(), 200, nil), body)
		if !strings.HasPrefix(shown, raw) || !strings.HasPrefix(body+"\n\n", raw) {
			t.Fatalf("%q\nbecame %q", body, shown)
		}
		if hidden := through(wire.Options{Same: true, Stream: true}, body); len(hidden) > len(shown) {
			t.Fatalf("hiding added bytes: %q", hidden)
		}
	})
}

// FuzzATranslatedStreamIsWellFormed: whatever a provider sends, a client gets frames of valid JSON.
func FuzzATranslatedStreamIsWellFormed(f *testing.F) {
	for _, s := range streams {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, o := range []wire.Options{{Stream: true, ShowUsage: true}, {}} {
			out := through(o, body)
			if !o.Stream {
				if out != "" && !json.Valid([]byte(out)) {
					t.Fatalf("%q gave %s", body, out)
				}
				continue
			}
			for frame := range strings.SplitSeq(strings.TrimSuffix(out, "\n\n"), "\n\n") {
				data, ok := strings.CutPrefix(frame, "data: ")
				if out != "" && (!ok || (data != "[DONE]" && !json.Valid([]byte(data)))) {
					t.Fatalf("%q gave the frame %q", body, frame)
				}
			}
		}
	})
}
