package crossing_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
)

// sample is the answer of one pair.
type sample struct {
	name     string
	from, to form
	body     []byte
	choices  int // number of requested choices
}

// samples are the answers of all pairs.
func samples(t testing.TB) []sample {
	t.Helper()
	var all []sample
	for _, c := range crossings {
		names, err := filepath.Glob(filepath.Join("testdata", "answer", c.dir, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p := pair{archive}
			all = append(all, sample{c.dir + "/" + filepath.Base(name), c.from, c.to, answerOf(p), request(t, p, c.to).Choices})
		}
	}
	return all
}

// requestFor returns a client's request for an answer in this form.
func (s *sample) requestFor(want form) *chat.Request {
	return &chat.Request{Dialect: want.dialect, Stream: want.stream, Choices: max(1, s.choices)}
}

// targets returns the form in which the provider's own bytes pass, and one in which everything is translated.
func (s *sample) targets() []form { return []form{s.from, s.to} }

// cuts yields the positions at which an answer is cut: after every byte of a stream (outside a soak, at some five hundred positions of a
// long one, because the cost is quadratic), and at a few positions of a JSON body, which is collected until it is whole.
func (s *sample) cuts(yield func(int) bool) {
	step := 1
	switch {
	case !s.from.stream:
		step = 17
	case os.Getenv("BARDO_SOAK") == "":
		step = max(1, len(s.body)/500)
	}
	for cut := 0; cut < len(s.body) && yield(cut); cut += step {
	}
}

func TestK38WhereAnAnswerIsCutChangesNothing(t *testing.T) {
	for _, s := range samples(t) {
		for _, to := range s.targets() {
			want, _ := encode(to, s.from.dialect, decode(s.from, s.requestFor(to), s.body))
			for cut := range s.cuts {
				got, _ := encode(to, s.from.dialect, decode(s.from, s.requestFor(to), s.body[:cut], s.body[cut:]))
				if !bytes.Equal(got, want) {
					t.Fatalf("%s for %s, cut at %d\n%s\nwant\n%s", s.name, to, cut, got, want)
				}
			}
		}
	}
}

// TestATruncatedAnswerNeverLooksComplete cuts every answer after every byte. A truncated answer either has all content of the whole
// (OpenAI's stop reason ends the content; some servers omit the usage and the terminator that follow), or it fails. Of a stream that fails,
// the client has a prefix of the whole answer, and no terminator.
func TestATruncatedAnswerNeverLooksComplete(t *testing.T) {
	for _, s := range samples(t) {
		for _, to := range s.targets() {
			events := decode(s.from, s.requestFor(to), s.body)
			whole, _ := encode(to, s.from.dialect, events)
			for cut := range s.cuts {
				partial := decode(s.from, s.requestFor(to), s.body[:cut])
				if len(partial) == 0 {
					t.Fatalf("%s for %s, cut at %d, does not end", s.name, to, cut)
				}
				out, _ := encode(to, s.from.dialect, partial)
				if partial[len(partial)-1].Kind != chat.Error {
					if got, want := summarize(partial), summarize(events); !got.equals(want, to) {
						t.Fatalf("%s for %s, cut at %d, looks complete\n%v\nwant\n%v", s.name, to, cut, got, want)
					}
					continue
				}
				if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n\n")) { // an error event could not follow
					t.Fatalf("%s for %s, cut at %d, ends inside a frame\n%s", s.name, to, cut, out)
				}
				if to.stream && !bytes.HasPrefix(whole, out) {
					t.Fatalf("%s for %s, cut at %d, is no beginning of the whole\n%s\nwant\n%s", s.name, to, cut, out, whole)
				}
				if !to.stream && len(out) > 0 || bytes.Contains(out, []byte("[DONE]")) || bytes.Contains(out, []byte("message_stop")) ||
					bytes.Contains(out, []byte("event: response.completed")) || bytes.Contains(out, []byte("event: response.incomplete")) {
					t.Fatalf("%s for %s, cut at %d, has a terminator\n%s", s.name, to, cut, out)
				}
				if to.dialect == chat.Gemini && s.choices <= 1 && bytes.Contains(out, []byte(`"finishReason"`)) { // it has no other terminator
					t.Fatalf("%s for %s, cut at %d, has a reason to stop\n%s", s.name, to, cut, out)
				}
			}
		}
	}
}

// TestAStoredAnswerIsWrittenInEveryForm: without the provider's own bytes, the events of an answer are written in each of the four forms as
// far as the form can express them; in its own dialect, nothing is degraded.
func TestAStoredAnswerIsWrittenInEveryForm(t *testing.T) {
	for _, s := range samples(t) {
		events := decode(s.from, s.requestFor(forms[0]), s.body)
		if events[len(events)-1].Kind != chat.End {
			continue
		}
		for i := range events {
			events[i].Raw, events[i].Tail = nil, false
		}
		for _, to := range forms {
			out, names := encode(to, s.from.dialect, events)
			if degraded := slices.DeleteFunc(slices.Clone(names), isNotStored); to.dialect == s.from.dialect && len(degraded) > 0 {
				t.Errorf("%s as %s loses %v", s.name, to, degraded)
			}
			decoded := decode(to, s.requestFor(to), out)
			if got, want := summarize(decoded), summarize(events); !got.equals(want, to) {
				t.Errorf("%s as %s says\n%v\nwant\n%v\n%s", s.name, to, got, want, out)
			}
			if to.dialect != s.from.dialect {
				continue
			}
			if got, want := extras(decoded), extras(events); got != want {
				t.Errorf("%s as %s keeps\n%s\nwant\n%s\n%s", s.name, to, got, want, out)
			}
		}
	}
}

// isNotStored reports whether a name is of a member that a decoder could not read or has no field for.
func isNotStored(name string) bool {
	return name == "unreadable_event" || name == "unknown_member" || name == "caller"
}
