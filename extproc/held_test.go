package extproc

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
)

// spell formats events for people.
func spell(events []chat.Event) string {
	var b strings.Builder
	for i := range events {
		ev := &events[i]
		switch ev.Kind {
		case chat.Start:
			b.WriteString("start ")
		case chat.Text:
			fmt.Fprintf(&b, "%d.%d:%s ", ev.Choice, ev.Index, ev.Text)
		case chat.Thought:
			fmt.Fprintf(&b, "%d.%d:(%s) ", ev.Choice, ev.Index, ev.Text)
		case chat.BlockStop:
			fmt.Fprintf(&b, "%d.%d| ", ev.Choice, ev.Index)
		case chat.Stop:
			fmt.Fprintf(&b, "stop=%s ", ev.Reason)
		case chat.UsageInfo:
			fmt.Fprintf(&b, "used=%d/%d%s ", ev.Usage.Input, ev.Usage.Output, ev.Text)
		case chat.End:
			b.WriteString("end")
		default:
			fmt.Fprintf(&b, "?%d ", ev.Kind)
		}
		if ev.Raw != nil || ev.Tail {
			b.WriteString("RAW ")
		}
	}
	return b.String()
}

func words(choice, index int, text string) chat.Event {
	return chat.Event{Kind: chat.Text, Choice: choice, Index: index, Text: []byte(text), Raw: []byte("data: x\n\n")}
}

func stopOf(choice int, r chat.StopReason) chat.Event {
	return chat.Event{Kind: chat.Stop, Choice: choice, Reason: r, Tail: true}
}

func blockStop(choice, index int) chat.Event {
	return chat.Event{Kind: chat.BlockStop, Choice: choice, Index: index}
}

var rewriteCases = []struct {
	about string
	held  []chat.Event
	json  []string
	want  string
}{
	{
		"one text",
		[]chat.Event{{Kind: chat.Start}, words(0, 0, "well: "), words(0, 0, "{}"), blockStop(0, 0), stopOf(0, chat.StopEnd), {Kind: chat.End}},
		[]string{"{}"},
		"start 0.0:{} 0.0| stop=end end",
	},
	{
		"several blocks, and thoughts",
		[]chat.Event{
			{Kind: chat.Start},
			{Kind: chat.Other, Raw: []byte("ping")},
			{Kind: chat.Thought, Index: 0, Text: []byte("hm")},
			blockStop(0, 0),
			words(0, 1, "a"), blockStop(0, 1), words(0, 2, "b"), blockStop(0, 2), stopOf(0, chat.StopTool),
			{Kind: chat.End},
		},
		[]string{"[]"},
		"start 0.0:(hm) 0.0| 0.1:[] 0.1| stop=end end",
	},
	{
		"no text",
		[]chat.Event{{Kind: chat.Start}, {Kind: chat.Thought, Index: 0, Text: []byte("hm")}, blockStop(0, 0), stopOf(0, chat.StopEnd), {Kind: chat.End}},
		[]string{"{}"},
		"start 0.0:(hm) 0.0| 0.1:{} 0.1| stop=end end",
	},
	{
		"several choices",
		[]chat.Event{{Kind: chat.Start}, words(1, 0, "b"), words(0, 0, "a"), words(1, 0, "b"), stopOf(0, chat.StopEnd), stopOf(1, chat.StopLength), {Kind: chat.End}},
		[]string{"{}", ""},
		"start 1.0:bb 0.0:{} stop=end stop=length end",
	},
	{
		"choices of which one has no text",
		[]chat.Event{{Kind: chat.Start}, stopOf(1, chat.StopEnd), words(0, 0, "a"), blockStop(0, 0), words(2, 1, "c"), blockStop(2, 1), stopOf(0, chat.StopEnd), stopOf(2, chat.StopEnd), {Kind: chat.End}},
		[]string{"{}", "[]", "{}"},
		"start 1.2:[] 1.2| stop=end 0.0:{} 0.0| 2.1:{} 2.1| stop=end stop=end end",
	},
}

func TestARewrittenAnswerSaysWhatWasReadOutOfIt(t *testing.T) {
	for _, row := range rewriteCases {
		t.Run(row.about, func(t *testing.T) {
			f := review.Transcript{}
			j := review.Validation{Choices: make([]structured.Validation, len(row.json))}
			for i := range row.held {
				f.Add(&row.held[i])
			}
			for i, s := range row.json {
				if s != "" {
					j.Choices[i].JSON = []byte(s)
				}
			}
			if got := spell(j.Rewrite(row.held, f.Texts)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// TestARewrittenAnswerIsReadByEveryClient: a replacement is a valid answer in each format, whole and streamed.
func TestARewrittenAnswerIsReadByEveryClient(t *testing.T) {
	held := []chat.Event{
		{Kind: chat.Start, ID: "x", Model: "m"},
		{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 3}},
		words(0, 0, "no"),
		{Kind: chat.BlockStop},
		{Kind: chat.Stop, Reason: chat.StopLength},
		{Kind: chat.UsageInfo, Usage: chat.Usage{Output: 2, Final: true}},
		{Kind: chat.End},
	}
	events := review.ReplaceText(held, []byte(`{"verdict":"discard"}`))
	if got, want := spell(events), `start used=3/0 0.0:{"verdict":"discard"} 0.0| stop=end used=0/2 end`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, d := range []wire.Dialect{openai.Dialect{}, anthropic.Dialect{}, responses.Dialect{}, gemini.Dialect{}} {
		for _, stream := range []bool{false, true} {
			enc := d.NewEncoder(wire.Options{Stream: stream, Model: "m", RequestID: "r", Request: &chat.Request{Dialect: d.Name()}})
			var out []byte
			for i := range events {
				out = enc.Append(out, &events[i])
			}
			if s := string(out); !strings.Contains(s, `{\"verdict\":\"discard\"}`) || strings.Contains(s, "length") || strings.Contains(s, "MAX_TOKENS") {
				t.Errorf("%s, stream=%v: %s", d.Name(), stream, s)
			}
		}
	}
}

// Two answers by the schema FragmentEvaluation.
const goodChoice, badChoice = `{"novelty":0.1,"relevance":0.1,"coherence":0.1,"verdict":"stage"}`, `{"verdict":"stage"}`

type choicesCase struct {
	about               string
	schema              string
	choices             []string // "call" calls a tool of the client's
	open, valid, passes bool
	wrong               int
	word                string
	shown               string
}

var choicesCases = []choicesCase{
	{
		about: "all good", choices: []string{goodChoice, goodChoice}, valid: true, passes: true,
		word: "prompted; valid=true; retries=0", shown: "0.0:" + goodChoice + " stop=end 1.1:" + goodChoice + " stop=end ",
	},
	{
		about: "one of two", choices: []string{badChoice, "Well: " + goodChoice}, passes: true,
		word: "prompted; valid=false; retries=0; choices=1/2", shown: "0.0:" + badChoice + " stop=end 1.1:" + goodChoice + " stop=end ",
	},
	{about: "none", choices: []string{badChoice, "x"}, word: "prompted; valid=false; retries=0; choices=0/2"},
	{
		about: "beside a call", choices: []string{"call", "Well: " + goodChoice}, valid: true, passes: true,
		word: "prompted; valid=true; retries=0", shown: "?6 stop=tool 1.1:" + goodChoice + " stop=end ",
	},
	{
		about: "a wrong one beside a call", choices: []string{"call", badChoice}, passes: true, wrong: 1,
		word: "prompted; valid=false; retries=0; choices=1/2", shown: "?6 stop=tool 1.1:" + badChoice + " stop=end ",
	},
	{about: "calls alone", choices: []string{"call", "call"}, open: true, valid: true, passes: true, word: "prompted", shown: "?6 stop=tool ?6 stop=tool "},
	{about: "one of two, strictly", schema: "RiskRationale", choices: []string{`{"risk_score":0.5,"factors":[],"recommendation":"abort"}`, badChoice}, wrong: 1, word: "prompted; valid=false; retries=0; choices=1/2"},
}

// TestSeveralChoicesAreJudgedEach: one that follows the schema is enough, unless the schema is strict.
func TestSeveralChoicesAreJudgedEach(t *testing.T) {
	for _, row := range choicesCases {
		t.Run(row.about, func(t *testing.T) {
			x, a := row.answer()
			row.check(t, x, a)
		})
	}
}

// answer returns a held answer with the row's choices.
func (row *choicesCase) answer() (*exchange, *reading.Answer) {
	form := structured.Published(cmp.Or(row.schema, "FragmentEvaluation"))
	rt := &runtime.Config{}
	rt.Structured.Validate = true
	x := &exchange{View: request.View{Config: rt}}
	x.initReport(&Gateway{})
	x.review = review.Review{View: &x.View, Schema: form}
	a := &reading.Answer{Report: &x.report, Form: &review.Transcript{Plan: form.Plan(structured.Target{})}}
	for i, s := range row.choices {
		ev, reason := words(i, i, s), chat.StopEnd
		if s == "call" {
			ev, reason = chat.Event{Kind: chat.ToolStart, Tool: chat.ToolCall{ID: "c", Name: "look"}, Choice: i, Index: i}, chat.StopTool
		}
		a.Held = append(a.Held, ev, chat.Event{Kind: chat.Stop, Choice: i, Reason: reason})
	}
	for i := range a.Held {
		a.Held[i].Raw = nil
		a.Form.Add(&a.Held[i])
	}
	return x, a
}

func (row *choicesCase) check(t *testing.T, x *exchange, a *reading.Answer) {
	t.Helper()
	j := x.review.Validate(a.Form)
	x.review.SetResult(a.Form.Plan, j)
	if j.Open != row.open || j.Valid != row.valid || x.review.Accepts(j) != row.passes || j.Wrong != row.wrong {
		t.Errorf("it comes to %+v, it passes: %v", j, x.review.Accepts(j))
	}
	if !j.Valid && len(j.Choices[j.Wrong].Issues) == 0 {
		t.Error("nobody says what is wrong")
	}
	if word := x.review.Result.String(); word != row.word {
		t.Errorf("X-Bardo-Schema: %s, want %s", word, row.word)
	}
	if row.passes {
		if got := spell(x.visibleEvents(a, j)); got != row.shown {
			t.Errorf("the client sees %s, want %s", got, row.shown)
		}
	}
}

// TestEveryChoiceHasTheDefault: a client that requests three answers gets three.
func TestEveryChoiceHasTheDefault(t *testing.T) {
	held := []chat.Event{
		{Kind: chat.Start},
		words(1, 0, "b"),
		words(0, 1, "a"),
		words(2, 2, "c"),
		{Kind: chat.Stop, Choice: 1, Reason: chat.StopEnd},
		{Kind: chat.Stop, Reason: chat.StopEnd},
		{Kind: chat.End},
	}
	if got, want := spell(review.ReplaceText(held, []byte("{}"))), "start 1.1:{} 1.1| stop=end 0.0:{} 0.0| stop=end 2.2:{} 2.2| stop=end end"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheClientReadsTheUsageOfAllCalls(t *testing.T) {
	events := []chat.Event{
		{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 5, Output: 1}, Text: []byte(`{"own":1}`)},
		{Kind: chat.UsageInfo, Usage: chat.Usage{Output: 7, Final: true}, Text: []byte(`{"own":2}`)},
	}
	review.SetTotalUsage(events, meter.Sum(chat.Usage{Input: 5, Output: 7, Reasoning: 2}, chat.Usage{Input: 10, Cached: 4, Output: 3, Estimated: true}))
	if got, want := spell(events), "used=15/1 used=15/10 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if u := events[1].Usage; u.Cached != 4 || u.Reasoning != 2 || !u.Estimated || !u.Final {
		t.Errorf("the last report is %+v", u)
	}
}

func TestWhatAnErrorTellsOfAnAnswerIsBounded(t *testing.T) {
	j := review.Validation{Choices: []structured.Validation{{Issues: []string{`a "b"`}}}, Raw: []byte(strings.Repeat("é", review.MaxRaw))}
	got := j.Details("S", 1)
	if len(got) > review.MaxRaw+200 || !strings.HasPrefix(got, `{"schema":"S","retries":1,"issues":["a \"b\""],"raw":"éé`) || !strings.HasSuffix(got, `é","truncated":true}`) {
		t.Errorf("%d bytes: %.80s … %s", len(got), got, got[len(got)-40:])
	}
}
