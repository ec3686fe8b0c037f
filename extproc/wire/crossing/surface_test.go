package crossing_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/wire"
)

// TestD44AHiddenAnswerSaysAllElse: without its thoughts, the rest of an answer is unchanged in every form, and no client finds a thought in
// it.
func TestD44AHiddenAnswerSaysAllElse(t *testing.T) {
	for _, s := range samples(t) {
		for _, to := range forms {
			var visible []chat.Event
			for _, ev := range decode(s.from, s.requestFor(to), s.body) {
				if render.Hide(&ev) {
					visible = append(visible, ev)
				}
			}
			if visible[len(visible)-1].Kind != chat.End {
				continue
			}
			out, _ := encode(to, s.from.dialect, visible)
			decoded := decode(to, s.requestFor(to), out)
			for i := range decoded {
				if render.IsThought(&decoded[i]) {
					t.Errorf("%s as %s has %s: %s", s.name, to, decoded[i].Text, out)
				}
			}
			if got, want := summarize(decoded), summarize(visible); !got.equals(want, to) {
				t.Errorf("%s as %s says\n%v\nwant\n%v\n%s", s.name, to, got, want, out)
			}
		}
	}
}

// TestTheOwnMemberLeavesTheAnswerUnchanged: the member is written once, where the clients of the form look for it, and all other bytes are
// unchanged.
func TestTheOwnMemberLeavesTheAnswerUnchanged(t *testing.T) {
	const own, behind = `{"reasoning":"\u2028\u0085"}`, `,"bardo":`
	for _, s := range samples(t) {
		for _, to := range forms {
			events := decode(s.from, s.requestFor(to), s.body)
			if events[len(events)-1].Kind != chat.End {
				continue
			}
			plain, _ := encode(to, s.from.dialect, events)
			out := encodeBeside(t, to, s.from.dialect, events, []byte(own))
			if n := bytes.Count(out, []byte(`"bardo":`)); n != 1 {
				t.Fatalf("%s as %s has it %d times: %s", s.name, to, n, out)
			}
			if to.stream {
				isLast(t, s.name, to, out)
			} else if !json.Valid(out) {
				t.Errorf("%s as %s is no JSON: %s", s.name, to, out)
			}
			if got, want := summarize(decode(to, s.requestFor(to), out)), summarize(decode(to, s.requestFor(to), plain)); !got.equals(want, to) {
				t.Errorf("%s as %s says\n%v\nwant\n%v", s.name, to, got, want)
			}
			without := bytes.Replace(out, []byte(behind+own), nil, 1)
			if to.dialect == chat.OpenAI && to.stream {
				without = withoutFrame(out, `"bardo":`)
			}
			if !bytes.Equal(without, plain) {
				t.Errorf("%s as %s becomes\n%s\nwant\n%s", s.name, to, without, plain)
			}
		}
	}
}

// encodeBeside is encode with the gateway's own member.
func encodeBeside(t *testing.T, to form, source chat.Dialect, events []chat.Event, own []byte) (out []byte) {
	t.Helper()
	enc := to.client().NewEncoder(wire.Options{
		Same: to.dialect == source, Stream: to.stream, Model: "m", RequestID: "req_1", ShowUsage: true, Created: 1700000000,
	})
	for i := range events {
		if events[i].Kind == chat.End {
			a, ok := enc.(wire.Attacher)
			if !ok {
				t.Fatalf("nothing can stand beside an answer as %s", to)
			}
			out = a.Attach(out, own)
		}
		out = enc.Append(out, &events[i])
	}
	return out
}

// isLast checks that the member is in the last frame, or in the one before the terminator of OpenAI's streams, and that every frame is
// JSON.
func isLast(t *testing.T, name string, to form, out []byte) {
	t.Helper()
	frames := bytes.Split(bytes.TrimSuffix(bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n")), []byte("\n\n")), []byte("\n\n"))
	last := len(frames) - 1
	if to.dialect == chat.OpenAI {
		last--
	}
	for i, f := range frames {
		if has := bytes.Contains(f, []byte(`"bardo":`)); has != (i == last) {
			t.Errorf("%s as %s: frame %d of %d has it %v: %s", name, to, i, len(frames), has, f)
		}
	}
	_, data, _ := bytes.Cut(frames[last], []byte("data:"))
	if !json.Valid(data) {
		t.Errorf("%s as %s: %s is no JSON", name, to, data)
	}
	if at := bytes.Index(data, []byte(`"response":`)); to.dialect == chat.Responses && (at < 0 || at > bytes.Index(data, []byte(`"bardo":`))) {
		t.Errorf("%s as %s: it is not in the response: %s", name, to, data)
	}
}

// withoutFrame removes the frame that contains a word from a stream.
func withoutFrame(out []byte, word string) []byte {
	at := bytes.Index(out, []byte(word))
	start := bytes.LastIndex(out[:at], []byte("\n\n")) + len("\n\n")
	end := at + bytes.Index(out[at:], []byte("\n\n")) + len("\n\n")
	return append(bytes.Clone(out[:start]), out[end:]...)
}
