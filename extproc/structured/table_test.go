package structured_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
)

// ways are the modes, as candidates have them.
var ways = []struct {
	name   string
	mode   structured.Mode
	target structured.Target
}{
	{"enforced by anything", structured.Enforced, structured.Target{Enforces: true, Tools: true, Rules: structured.RulesAny}},
	{"enforced by OpenAI", structured.Enforced, structured.Target{Enforces: true, Tools: true, Rules: structured.RulesOpenAI}},
	{"enforced by Anthropic", structured.Enforced, structured.Target{Enforces: true, Tools: true, Rules: structured.RulesAnthropic}},
	{"a tool", structured.Tool, structured.Target{Tools: true}},
	{"prompted", structured.Prompted, structured.Target{}},
}

// readAnswer delivers an answer as the plan's mode would, as a tool call or as text, and returns what the reader makes of it.
func readAnswer(p *structured.Plan, before, answer, after string, stop chat.StopReason) (text string, reason chat.StopReason) {
	r := p.NewReader()
	if r == nil {
		return before + answer + after, stop
	}
	var events []chat.Event
	say := func(ev chat.Event) {
		for _, e := range r.Read(&ev) {
			events = append(events, e.Detached())
		}
	}
	say(chat.Event{Kind: chat.Start})
	at := 0
	if before != "" {
		say(chat.Event{Kind: chat.Text, Text: []byte(before)})
		say(chat.Event{Kind: chat.BlockStop})
		at++
	}
	say(chat.Event{Kind: chat.ToolStart, Index: at, Tool: chat.ToolCall{ID: "c", Name: p.Shape.Tool.Name}})
	for len(answer) > 0 {
		n := min(7, len(answer))
		say(chat.Event{Kind: chat.ToolArgs, Index: at, Text: []byte(answer[:n])})
		answer = answer[n:]
	}
	say(chat.Event{Kind: chat.BlockStop, Index: at})
	if stop == chat.StopEnd {
		stop = chat.StopTool
	}
	say(chat.Event{Kind: chat.Stop, Reason: stop})
	say(chat.Event{Kind: chat.End})
	for i := range events {
		switch events[i].Kind { //nolint:exhaustive // the others are no part of the answer
		case chat.Text:
			text += string(events[i].Text)
		case chat.Stop:
			reason = events[i].Reason
		}
	}
	return text, reason
}

func TestEveryBuiltinSchemaInEveryMode(t *testing.T) {
	if len(samples) != len(structuredNames()) {
		t.Fatalf("%d of %d forms have a sample", len(samples), len(structuredNames()))
	}
	for _, s := range samples {
		for _, w := range ways {
			f := form(t, s.form)
			p := f.Plan(w.target)
			if p.Mode != w.mode || p.Shape == nil || p.Streamable {
				t.Errorf("%s, %s: %s, live %t", s.form, w.name, p.Mode, p.Streamable)
			}
			t.Run(s.form+"/"+w.name, func(t *testing.T) { everyCase(t, &s, f, p) })
		}
	}
}

func structuredNames() (names []string) {
	for i := range samples {
		if structured.Published(samples[i].form) != nil {
			names = append(names, samples[i].form)
		}
	}
	return names
}

// everyCase checks the result for each kind of answer.
func everyCase(t *testing.T, s *sample, f *structured.Schema, p *structured.Plan) {
	t.Helper()
	tool, strict := p.Mode == structured.Tool, f.Strict()
	changed := func(c [2]string) string {
		if out := strings.Replace(s.valid, c[0], c[1], 1); out != s.valid {
			return out
		}
		t.Fatalf("%q is not in the sample", c[0])
		return ""
	}
	half := s.valid[:len(s.valid)*2/3]
	trailing := s.valid[:len(s.valid)-1] + ",}"
	missing := changed(s.missing)
	rows := []struct {
		name                  string
		before, answer, after string
		stop                  chat.StopReason
		json                  string // "": none
		issue                 string // "": valid
		repaired              bool
	}{
		{name: "valid", answer: s.valid, stop: chat.StopEnd, json: s.valid},
		{name: "wrong range", answer: changed(s.outside), stop: chat.StopEnd, json: changed(s.outside), issue: s.issue},
		{name: "missing field", answer: missing, stop: chat.StopEnd, json: missing, issue: s.gone + ": is missing"},
		{name: "another field", answer: `{"mood":1,` + s.valid[1:], stop: chat.StopEnd, json: `{"mood":1,` + s.valid[1:], issue: either(s.form != "DeathTestament", "mood: is not allowed here", "")},
		{name: "truncated", answer: half, stop: chat.StopLength, issue: "the answer was cut off before its end"},
		{name: "whole before the limit", answer: s.valid, stop: chat.StopLength, json: s.valid, issue: either(strict, "the answer was cut off before its end", "")},
		{name: "white space around", answer: "\n " + s.valid + "\n", stop: chat.StopEnd, json: s.valid},
		{name: "fenced", answer: "```json\n" + s.valid + "\n```", stop: chat.StopEnd, json: s.valid},
		{name: "two objects", answer: s.valid, after: "\n" + missing, stop: chat.StopEnd, json: either(strict && !tool, "", s.valid), issue: either(strict && !tool, "the answer is not JSON alone", "")},
		{name: "extra prose", before: "Here {it} is: ", answer: s.valid, after: " That's {all}.", stop: chat.StopEnd, json: either(strict && !tool, "", s.valid), issue: either(strict && !tool, "the answer is not JSON alone", "")},
		{name: "a comma too many", answer: trailing, stop: chat.StopEnd, json: either(strict, "", s.valid), issue: either(strict, "the answer holds no JSON that can be read", ""), repaired: !strict},
		{name: "words alone", answer: "I would rather not.", stop: chat.StopEnd, issue: "the answer holds no JSON that can be read"},
		{name: "nothing", stop: chat.StopEnd, json: either(tool, "{}", ""), issue: either(tool, s.gone+": is missing", "the answer holds no JSON that can be read")},
		{name: "a refusal", answer: s.valid, stop: chat.StopRefusal, issue: "the model refused to answer"},
	}
	if s.unknown[0] != "" {
		rows = append(rows, rows[1])
		r := &rows[len(rows)-1]
		r.name, r.answer, r.json, r.issue = "wrong enum", changed(s.unknown), changed(s.unknown), s.unknown[1]+" is not one of "
	}
	for _, r := range rows {
		if tool && r.name == "nothing" && strings.Contains(s.gone, ".") {
			r.issue = "captures: is missing"
		}
		text, stop := readAnswer(p, r.before, r.answer, either(tool, "", r.after), r.stop)
		if stop != r.stop {
			t.Errorf("%s: it stops with %s", r.name, stop)
		}
		v := p.Check([]byte(text), stop)
		if string(v.JSON) != r.json || v.Repaired != r.repaired || v.Valid() != (r.issue == "" && r.json != "") {
			t.Errorf("%s: %q became %q, repaired %t, %q", r.name, text, v.JSON, v.Repaired, v.Issues)
		}
		says := func(s string) bool { return strings.Contains(s, r.issue) }
		if r.issue != "" && !slices.ContainsFunc(v.Issues, says) {
			t.Errorf("%s: it says %q, and not %q", r.name, v.Issues, r.issue)
		}
	}
}

func either[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}
