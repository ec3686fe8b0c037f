package crossing_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// thinker is an answer with reasoning in a provider's documented format.
type thinker struct {
	from    form
	options reasoning.Options
	body    []byte
}

// thinkers returns the golden answers of package reasoning.
func thinkers(t *testing.T) map[string]thinker {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "reasoning", "testdata", "golden", "*.txtar"))
	if err != nil || len(names) == 0 {
		t.Fatal("there are no golden answers", err)
	}
	all := make(map[string]thinker, len(names))
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p := pair{archive}
		by := map[string]string{}
		for l := range strings.Lines(p.file("by")) {
			key, value, _ := strings.Cut(strings.TrimSpace(l), " ")
			by[key] = value
		}
		from := form{chat.Dialect(by["spoken"]), p.file("in.sse") != ""}
		to := policy.Resolution{Upstream: by["model"], Family: by["family"]}
		o := reasoning.Options{Tags: reasoning.Of(kind.Reasoning{Dialect: by["kind"]}, &to, from.dialect).Tags, Implicit: by["implicit"] != ""}
		all[filepath.Base(name)] = thinker{from, o, answerOf(p)}
	}
	return all
}

// read returns what a client receives of an answer that arrives in pieces, and the events that it was written from.
func (th *thinker) read(client chat.Dialect, pieces ...[]byte) (out, events []byte) {
	to := form{client, th.from.stream}
	enc := to.client().NewEncoder(wire.Options{
		Same: client == th.from.dialect, Stream: to.stream, RequestID: "req_1", ShowUsage: true, Created: 1700000000,
	})
	take := func(ev *chat.Event) {
		events = append(append(events, byte(ev.Kind), ' '), ev.ID...)
		events = append(append(strconv.AppendInt(events, int64(ev.Index), 10), ' '), ev.Tool.ID...)
		events = append(append(append(events, ev.Reason...), ev.Text...), '\n')
		if ev.Kind == chat.UsageInfo {
			events = fmt.Append(events, ev.Usage)
		}
		if ev.Kind != chat.Error {
			out = enc.Append(out, ev)
		}
	}
	read := decode(th.from, &chat.Request{Dialect: client, Stream: to.stream, Choices: 1}, pieces...)
	if len(th.options.Tags) == 0 {
		for i := range read {
			take(&read[i])
		}
		return out, events
	}
	o := th.options
	o.Frames = client == chat.OpenAI
	r := reasoning.NewReader(o)
	for i := range read {
		list := r.Read(&read[i])
		for j := range list {
			take(&list[j])
		}
	}
	return out, events
}

// TestD40WhereAnAnswerThatThinksIsCutChangesNothing: every provider's format, cut at every byte, for three kinds of clients.
func TestD40WhereAnAnswerThatThinksIsCutChangesNothing(t *testing.T) {
	for name, th := range thinkers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, client := range []chat.Dialect{chat.OpenAI, chat.Anthropic, chat.Responses} {
				want, events := th.read(client, th.body)
				for cut := range th.body {
					got, same := th.read(client, th.body[:cut], th.body[cut:])
					if !bytes.Equal(got, want) || !bytes.Equal(same, events) {
						t.Fatalf("for %s, cut at %d, it says\n%s\n%s\nwant\n%s\n%s", client, cut, same, got, events, want)
					}
				}
			}
		})
	}
}
