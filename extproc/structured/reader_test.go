package structured_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
)

// script returns an answer in short: one event per line, as "text 0 hello" or "call 1 name".
func script(t testing.TB, lines string) (events []chat.Event) {
	t.Helper()
	events = append(events, chat.Event{Kind: chat.Start, ID: "m", Raw: []byte("x")})
	for line := range strings.Lines(lines) {
		line = strings.Trim(line, "\t\n")
		if line == "" {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		var choice, block int
		word, _, _ = strings.Cut(word, "#")
		if n := strings.IndexByte(line, '#'); n >= 0 && n < strings.IndexByte(line, ' ') {
			choice = int(line[n+1] - '0')
		}
		number, more, _ := strings.Cut(rest, " ")
		if _, err := fmt.Sscan(number, &block); err != nil && word != "stop" {
			t.Fatalf("%q: %v", line, err)
		}
		ev := chat.Event{Index: block, Choice: choice, Text: []byte(more), Raw: []byte("raw"), Tail: true}
		switch word {
		case "text":
			ev.Kind = chat.Text
		case "thought":
			ev.Kind = chat.Thought
		case "call":
			ev.Kind, ev.Tool, ev.Text = chat.ToolStart, chat.ToolCall{ID: "c" + number, Name: more}, nil
		case "args":
			ev.Kind = chat.ToolArgs
		case "end":
			ev.Kind, ev.Text = chat.BlockStop, nil
		case "extra":
			ev.Kind, ev.ID = chat.Extra, "logprobs"
		case "stop":
			ev.Kind, ev.Index, ev.Reason, ev.Text = chat.Stop, 0, chat.StopReason(rest), nil
		default:
			t.Fatalf("%q", line)
		}
		events = append(events, ev)
	}
	return append(events, chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{Output: 3}, UsageChunk: true}, chat.Event{Kind: chat.End, Raw: []byte("x")})
}

// shown is events in the same words.
func shown(events []chat.Event) string {
	var b strings.Builder
	say := func(ev *chat.Event, word string, rest string) {
		choice := ""
		if ev.Choice > 0 {
			choice = fmt.Sprintf("#%d", ev.Choice)
		}
		fmt.Fprintf(&b, "%s%s %d%s\n", word, choice, ev.Index, rest)
	}
	for i := range events {
		switch ev := &events[i]; ev.Kind { //nolint:exhaustive // the others are always there
		case chat.Text:
			say(ev, "text", " "+string(ev.Text))
		case chat.Thought:
			say(ev, "thought", " "+string(ev.Text))
		case chat.ToolStart:
			say(ev, "call", " "+ev.Tool.Name)
		case chat.ToolArgs:
			say(ev, "args", " "+string(ev.Text))
		case chat.BlockStop:
			say(ev, "end", "")
		case chat.Extra:
			say(ev, "extra", " "+string(ev.Text))
		case chat.Stop:
			fmt.Fprintf(&b, "stop%s %s\n", map[bool]string{true: fmt.Sprintf("#%d", ev.Choice)}[ev.Choice > 0], ev.Reason)
		}
	}
	return b.String()
}

// read passes events through a reader, and returns after which of them the first content was emitted.
func read(t testing.TB, r structured.Stage, events []chat.Event) (out []chat.Event, first int) {
	t.Helper()
	for i := range events {
		for _, ev := range r.Read(&events[i]) {
			if ev.Raw != nil || ev.Tail || ev.UsageChunk {
				t.Errorf("%+v has its provider's bytes", ev)
			}
			if first == 0 && ev.Kind.IsContent() {
				first = i
			}
			out = append(out, ev.Detached())
		}
	}
	return out, first
}

func lines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.Trim(line, "\t\n"); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

type planReaderCase struct {
	about    string
	target   structured.Target
	in, want string
	live     bool // its first piece is forwarded immediately
}

// Targets whose answer is a call of the gateway's tool: the only tool, or beside the client's.
var (
	forced = structured.Target{Tools: true}
	beside = structured.Target{Tools: true, ClientTools: true}
)

var planReaderCases = []planReaderCase{
	{"alone", forced, `
		call 0 respond_own
		args 0 {"a":
		args 0 1}
		end 0
		stop tool`, `
		text 0 {"a":
		text 0 1}
		end 0
		stop end`, true},
	{"behind thoughts and words", forced, `
		thought 0 hm
		end 0
		text 1 Here it is:
		end 1
		call 2 respond_own
		args 2 {"a":1}
		end 2
		text 3 Done.
		end 3
		stop tool`, `
		thought 0 hm
		end 0
		text 1 {"a":1}
		end 1
		stop end`, true},
	{"without arguments", forced, `
		call 0 respond_own
		end 0
		stop tool`, `
		text 0 {}
		end 0
		stop end`, false},
	{"without arguments, and without an end", forced, `
		call 0 respond_own
		stop tool`, `
		text 0 {}
		stop end`, false},
	{"cut off", forced, `
		call 0 respond_own
		args 0 {"a"
		stop length`, `
		text 0 {"a"
		stop length`, true},
	{"twice", forced, `
		call 0 respond_own
		args 0 {"a":1}
		end 0
		call 1 respond_own
		args 1 {"a":2}
		end 1
		stop tool`, `
		text 0 {"a":1}
		end 0
		stop end`, true},
	{"not at all", forced, `
		text 0 {"a":
		text 0 1}
		end 0
		stop end`, `
		text 0 {"a":
		text 0 1}
		end 0
		stop end`, false},
	{"a refusal of another kind", forced, `
		text 0 no
		stop refusal`, `
		text 0 no
		stop refusal`, false},
	{"beside tools that are not called", beside, `
		text 0 So:
		end 0
		call 1 respond_own
		args 1 {"a":1}
		end 1
		stop tool`, `
		text 0 {"a":1}
		end 0
		stop end`, false},
	{"K-22 the caller's own tool", beside, `
		text 0 Let me look.
		end 0
		call 1 weather
		args 1 {}
		end 1
		stop tool`, `
		text 0 Let me look.
		end 0
		call 1 weather
		args 1 {}
		end 1
		stop tool`, false},
	{"K-22 the caller's own tool, and the synthetic one too early", beside, `
		text 0 Let me look.
		end 0
		call 1 respond_own
		args 1 {"a":1}
		end 1
		call 2 weather
		args 2 {}
		end 2
		stop tool`, `
		text 0 Let me look.
		end 0
		call 1 weather
		args 1 {}
		end 1
		stop tool`, false},
	{"several choices", forced, `
		call 0 respond_own
		call#1 1 respond_own
		args 0 {"a":
		args#1 1 {"a":2
		args 0 1}
		args#1 1 }
		stop tool
		stop#1 tool`, `
		text 0 {"a":
		text#1 1 {"a":2
		text 0 1}
		text#1 1 }
		stop end
		stop#1 end`, true},
	{"what only one dialect says", forced, `
		call 0 respond_own
		args 0 {}
		extra 0 x
		end 0
		stop tool`, `
		text 0 {}
		extra 0 x
		end 0
		stop end`, true},
	{"without a stop", forced, `
		text 0 words`, `
		text 0 words`, false},
}

func TestThePlansToolCallBecomesText(t *testing.T) {
	for _, r := range planReaderCases {
		r.check(t)
	}
}

func (r *planReaderCase) check(t *testing.T) {
	t.Helper()
	p := compiled(t, strictSchema).Plan(r.target)
	out, first := read(t, p.NewReader(), script(t, r.in))
	if got := shown(out); got != lines(r.want) {
		t.Errorf("%s:\n%s", r.about, got)
	}
	if p.Streamable != (r.target.ClientTools == false) || r.live && first > strings.Count(lines(r.in), "\n")-1 {
		t.Errorf("%s: live %t, first %d", r.about, p.Streamable, first)
	}
	counts := func(ev chat.Event) bool { return ev.Usage.Output == 3 }
	if n := len(out); out[0].Kind != chat.Start || out[n-1].Kind != chat.End || !slices.ContainsFunc(out, counts) {
		t.Errorf("%s: it begins or ends otherwise", r.about)
	}
}

func TestABuiltinAnswerIsHeldUntilItsEnd(t *testing.T) {
	p := form(t, "FragmentEvaluation").Plan(structured.Target{Tools: true})
	in := script(t, "call 0 respond_FragmentEvaluation\nargs 0 {}\nend 0\nstop tool")
	out, first := read(t, p.NewReader(), in)
	if got := shown(out); got != "text 0 {}\nend 0\nstop end\n" || in[first].Kind != chat.Stop {
		t.Errorf("after event %d: %s", first, got)
	}
}

// TestReasoningIsNotHeld: reasoning before the answer is forwarded immediately; reasoning after text is held with it.
func TestReasoningIsNotHeld(t *testing.T) {
	p := form(t, "FragmentEvaluation").Plan(structured.Target{Tools: true})
	in := script(t, "thought 0 hm\nend 0\ntext 1 So:\nend 1\nthought 2 oh\nend 2\ncall 3 respond_FragmentEvaluation\nargs 3 {}\nend 3\nstop tool")
	out, first := read(t, p.NewReader(), in)
	if got := shown(out); got != "thought 0 hm\nend 0\nthought 1 oh\nend 1\ntext 2 {}\nend 2\nstop end\n" || in[first].Kind != chat.Thought {
		t.Errorf("after event %d: %s", first, got)
	}
}

func TestAnErrorIsForwarded(t *testing.T) {
	p := compiled(t, strictSchema).Plan(structured.Target{Tools: true})
	r := p.NewReader()
	if got := r.Read(&chat.Event{Kind: chat.Error, Err: &chat.ProviderError{Status: 500}}); len(got) != 1 || got[0].Err.Status != 500 {
		t.Errorf("%+v", got)
	}
}

func FuzzWhereACallIsCutChangesNothing(f *testing.F) {
	f.Add(`{"a":[1,2,{"b":"x"}]}`, "So:", uint8(3), true)
	f.Add("", "", uint8(1), false)
	f.Fuzz(func(t *testing.T, args, before string, cut uint8, beside bool) {
		p := compiled(t, strictSchema).Plan(structured.Target{Tools: true, ClientTools: beside})
		say := func(size int) string {
			events := []chat.Event{{Kind: chat.Start}}
			pieces := func(kind chat.EventKind, block int, s string) {
				for len(s) > 0 {
					n := min(size, len(s))
					events = append(events, chat.Event{Kind: kind, Index: block, Text: []byte(s[:n])})
					s = s[n:]
				}
				events = append(events, chat.Event{Kind: chat.BlockStop, Index: block})
			}
			if before != "" {
				pieces(chat.Text, 0, before)
			}
			events = append(events, chat.Event{Kind: chat.ToolStart, Index: 1, Tool: chat.ToolCall{Name: "respond_own"}})
			pieces(chat.ToolArgs, 1, args)
			events = append(events, chat.Event{Kind: chat.Stop, Reason: chat.StopTool}, chat.Event{Kind: chat.End})
			out, _ := read(t, p.NewReader(), events)
			var text strings.Builder
			for i := range out {
				if out[i].Kind == chat.Text {
					text.Write(out[i].Text)
				}
			}
			return text.String()
		}
		want := either(args == "", "{}", args)
		if whole, pieces := say(1<<30), say(1+int(cut)); whole != want || pieces != want {
			t.Fatalf("%q became %q, and in pieces %q", args, whole, pieces)
		}
	})
}
