package retrieval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// finder is a fake finder, which records its questions.
type finder struct {
	says  []Result
	err   error
	wait  time.Duration
	panic bool
	asked []Question
}

func (f *finder) Find(ctx context.Context, q *Question) ([]Result, error) {
	f.asked = append(f.asked, *q)
	if f.panic {
		panic("a fault")
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(f.wait):
	}
	return f.says, f.err
}

func source(name string, f Finder) Source {
	return Source{Name: name, Finder: f, Timeout: time.Second}
}

func layer(sources ...Source) Layer {
	return Layer{Sources: sources, ProfileNames: []string{pipeline.ProfileStandard}, MaxResults: 5, MaxTokens: 1000}
}

func exchange(tb testing.TB, d wire.Dialect, body string) *pipeline.Exchange {
	tb.Helper()
	r, err := d.Decode(chat.Generate, header.List{}, "", []byte(body))
	if err != nil {
		tb.Fatal(err)
	}
	return &pipeline.Exchange{ID: "req_1", Profile: pipeline.ProfileStandard, Request: r, Principal: policy.Principal{Account: "key_1", Name: "ada"}}
}

// run runs the layer, and returns the resulting body and the note.
func run(tb testing.TB, l Layer, x *pipeline.Exchange) (body, note string) {
	tb.Helper()
	if err := pipeline.New(l).Request(tb.Context(), x); err != nil {
		tb.Fatal(err)
	}
	if len(x.Log) > 0 {
		note = x.Log[0].Note
	}
	return string(x.Request.Doc.Bytes), note
}

var gem = gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", "")

const found = `<search_result source=\"notes/1\" title=\"A \u003cnote\u003e\">\nThe dog is Rex.\n</search_result>`

func TestC17ResultsStandBehindAllThatACacheHolds(t *testing.T) {
	t.Parallel()
	const mark = `"cache_control":{"type":"ephemeral"}`
	quoted := strings.NewReplacer(`\u003c`, "(", `\u003e`, ")").Replace(found)
	text := `{"type":"text","text":"` + quoted + `"}`
	for name, row := range map[string]struct {
		d          wire.Dialect
		body, want string
	}{
		"a text": {
			openai.Dialect{},
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"Which dog?"}]}`,
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[` + text + `,{"type":"text","text":"Which dog?"}]}]}`,
		},
		"parts": {
			openai.Dialect{},
			`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}, {"type":"text","text":"Which dog?"}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},` + text + `,{"type":"text","text":"Which dog?"}]}]}`,
		},
		"the client's mark": {
			anthropic.Dialect{},
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"long","` + mark[1:] + `},{"type":"text","text":"Which dog?"}]}]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"long","` + mark[1:] + `},` + text + `,{"type":"text","text":"Which dog?"}]}]}`,
		},
		"the client's mark at the end": {
			anthropic.Dialect{},
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"Which dog?","` + mark[1:] + `}]}]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"Which dog?","` + mark[1:] + `},` + text + `]}]}`,
		},
		"results of tools": {
			anthropic.Dialect{},
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r","` + mark[1:] + `}]},{"type":"text","text":"Which dog?"}]}]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r","` + mark[1:] + `}]},` + text + `,{"type":"text","text":"Which dog?"}]}]}`,
		},
		"results of tools alone": {
			anthropic.Dialect{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Which dog?"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}]}`, "",
		},
		"a tool's turn": {
			openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":"Which dog?"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]}`, "",
		},
		"a begun answer": {anthropic.Dialect{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Which dog?"},{"role":"assistant","content":"It is"}]}`, ""},
		"an image alone": {openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`, ""},
		"nothing":        {openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":"  "}]}`, ""},
		"an input that is a text": {
			responses.Dialect{},
			`{"model":"m","input":"Which dog?"}`,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"` + quoted + `"},{"type":"input_text","text":"Which dog?"}]}]}`,
		},
		"items of an input": {
			responses.Dialect{},
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"Which dog?"}]}]}`,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"` + quoted + `"},{"type":"input_text","text":"Which dog?"}]}]}`,
		},
		"an item of a tool": {responses.Dialect{}, `{"model":"m","input":[{"role":"user","content":"Which dog?"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"}]}`, ""},
		"parts of Gemini": {
			gem, `{"contents":[{"role":"user","parts":[{"text":"Which dog?"}]}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"` + quoted + `"},{"text":"Which dog?"}]}]}`,
		},
		"a result of a function in Gemini's format": {
			gem, `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a":"b"}}},{"text":"Which dog?"}]}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a":"b"}}},{"text":"` + quoted + `"},{"text":"Which dog?"}]}]}`,
		},
	} {
		x := exchange(t, row.d, row.body)
		f := &finder{says: []Result{{ID: "mem_1", Source: "notes/1", Title: "A <note>", Text: "The dog is Rex."}}}
		got, note := run(t, layer(source("memory", f)), x)
		if row.want == "" {
			if got != row.body || len(f.asked) != 0 || x.Request.Retrieved || x.Request.VolatileEnd || note != "results=0" {
				t.Errorf("%s: %q, asked %+v, got\n%s", name, note, f.asked, got)
			}
			continue
		}
		if got != row.want || !x.Request.Retrieved || !x.Request.VolatileEnd {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, row.want)
		}
		if !strings.Contains(f.asked[0].Text, "Which dog?") || strings.Contains(f.asked[0].Text, "r\n") || note != "results=1;memory=1;added=24;ids=mem_1" {
			t.Errorf("%s: asked %+v, note %q", name, f.asked, note)
		}
		tr, err := x.Transcript()
		if err != nil || !slices.ContainsFunc(tr.Texts, func(at transcript.Text) bool {
			return at.Kind == transcript.Document && strings.Contains(string(at.Value.Raw), "The dog is Rex.")
		}) {
			t.Errorf("%s: other layers see no document: %+v, %v", name, tr.Texts, err)
		}
	}
}

const plain = `{"model":"m","messages":[{"role":"user","content":"Which dog?"}]}`

func results(texts ...string) (out []Result) {
	for i, s := range texts {
		out = append(out, Result{ID: fmt.Sprint("id", i), Source: "s", Title: "t", Text: s})
	}
	return out
}

func TestC17ResultsAreBoundedAndInAStableOrder(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 200)
	for name, row := range map[string]struct {
		a, b         []Result
		most, tokens int
		want         string
	}{
		"alternately":   {results("a1", "a2", "a3"), results("b1"), 3, 1000, "a1 b1 a2"},
		"the same once": {results("x", "a2"), results("x", "b2"), 9, 1000, "x a2 b2"},
		"none":          {nil, nil, 5, 1000, ""},
		"no room":       {results(long), nil, 5, 40, ""},
	} {
		l := layer(source("a", &finder{says: row.a}), source("b", &finder{says: row.b}))
		l.MaxResults, l.MaxTokens = row.most, row.tokens
		var first string
		for range 5 {
			got, note := run(t, l, exchange(t, openai.Dialect{}, plain))
			var texts []string
			for _, piece := range strings.Split(got, `title=\"t\">\n`)[1:] {
				s, _, _ := strings.Cut(piece, `\n</search_result>`)
				texts = append(texts, s)
			}
			if s := strings.Join(texts, " "); s != row.want || first != "" && got != first {
				t.Errorf("%s: %s, want %s (%s)", name, s, row.want, note)
			}
			first = got
		}
	}
	l := layer(source("a", &finder{says: results(long, long+"2", long+"3")}))
	for _, l.MaxTokens = range []int{60, 100, 300, 700, 900} {
		x := exchange(t, openai.Dialect{}, plain)
		got, note := run(t, l, x)
		if added := estimate(len(got) - len(plain)); added > l.MaxTokens+40 || added < l.MaxTokens/2 {
			t.Errorf("at most %d tokens: about %d were added (%s)", l.MaxTokens, added, note)
		}
	}
	x := exchange(t, openai.Dialect{}, plain)
	x.Found, x.Request.MaxTokens = []policy.Resolution{{Context: 100_000}, {Context: 1000}}, 995
	if got, note := run(t, l, x); got != plain || note != "results=0" {
		t.Errorf("beyond the window of a candidate: %s, %s", note, got)
	}
}

func TestC17AQuestionsHints(t *testing.T) {
	t.Parallel()
	f := &finder{}
	x := exchange(t, openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("é", 2000)+`end"}]}`)
	x.Hints = policy.Hints{GolemID: "g7", SessionID: "ses_1", Subsystem: "risk", SecurityClass: policy.SecurityConfidential}
	if _, note := run(t, layer(source("a", f)), x); note != "results=0" {
		t.Error(note)
	}
	q := f.asked[0]
	if n := len(q.Text); n > maxQuestion || n < maxQuestion-4 || !strings.HasSuffix(q.Text, "éend") {
		t.Errorf("%d bytes", n)
	}
	q.Text = ""
	if q != (Question{ID: "req_1", Account: "key_1", Agent: "g7", Session: "ses_1", Subsystem: "risk", Class: policy.SecurityConfidential, MaxResults: 5}) {
		t.Errorf("%+v", q)
	}
}

func TestC17WhoseRequestsGetResults(t *testing.T) {
	t.Parallel()
	session := "ses_" + strings.Repeat("0", 30)
	for name, row := range map[string]struct {
		l    func(l *Layer, s *Source)
		x    func(x *pipeline.Exchange)
		want bool
	}{
		"any":                             {want: true},
		"another profile":                 {x: func(x *pipeline.Exchange) { x.Profile = pipeline.ProfileFast }},
		"a profile that is listed":        {l: func(l *Layer, _ *Source) { l.ProfileNames = []string{"fast"} }, x: func(x *pipeline.Exchange) { x.Profile = "fast" }, want: true},
		"the full profile":                {x: func(x *pipeline.Exchange) { x.Profile = pipeline.ProfileFull }, want: true},
		"the user's own provider key":     {x: func(x *pipeline.Exchange) { x.ProtectOnly = true }},
		"an enclave":                      {x: func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyTEE }},
		"a deferred request":              {x: func(x *pipeline.Exchange) { x.Deferred = true }},
		"a request with the defer header": {x: func(x *pipeline.Exchange) { x.Header = header.List{{Name: "x-bardo-defer", Value: "24h"}} }},
		"a count of tokens":               {x: func(x *pipeline.Exchange) { x.Request.Op = chat.CountTokens }},
		"a subsystem":                     {l: func(l *Layer, _ *Source) { l.Subsystems = rule.Names{"ri*"} }, x: func(x *pipeline.Exchange) { x.Hints.Subsystem = "risk" }, want: true},
		"another subsystem":               {l: func(l *Layer, _ *Source) { l.Subsystems = rule.Names{"ri*"} }, x: func(x *pipeline.Exchange) { x.Hints.Subsystem = "dream" }},
		"a source's subsystem":            {l: func(_ *Layer, s *Source) { s.Subsystems = rule.Names{"risk"} }},
		"a source's keys":                 {l: func(_ *Layer, s *Source) { s.Keys = rule.Names{"ada"} }, want: true},
		"a source's other keys":           {l: func(_ *Layer, s *Source) { s.Keys = rule.Names{"eve"} }},
		"no session":                      {l: func(_ *Layer, s *Source) { s.SessionsOnly = true }, x: func(x *pipeline.Exchange) { x.Hints.SessionID = "mine" }},
		"a session":                       {l: func(_ *Layer, s *Source) { s.SessionsOnly = true }, x: func(x *pipeline.Exchange) { x.Hints.SessionID = session }, want: true},
		"private":                         {x: func(x *pipeline.Exchange) { x.Hints.SecurityClass = policy.SecurityPrivate }},
		"private by its intent":           {x: func(x *pipeline.Exchange) { x.Intent.Security = policy.SecurityPrivate }},
		"private by its tier":             {x: func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyNoLog }},
		"private, to a private source":    {l: func(_ *Layer, s *Source) { s.Private = true }, x: func(x *pipeline.Exchange) { x.Hints.SecurityClass = policy.SecurityPrivate }, want: true},
		"private, to the gateway itself":  {l: func(_ *Layer, s *Source) { s.Local = true }, x: func(x *pipeline.Exchange) { x.Hints.SecurityClass = policy.SecurityPrivate }, want: true},
	} {
		f := &finder{says: results("x")}
		s, x := source("a", f), exchange(t, openai.Dialect{}, plain)
		l := layer()
		if row.l != nil {
			row.l(&l, &s)
		}
		if row.x != nil {
			row.x(x)
		}
		l.Sources = []Source{s}
		got, _ := run(t, l, x)
		if (len(f.asked) > 0) != row.want || (got != plain) != row.want || row.want && !l.Waits(x) {
			t.Errorf("%s: asked %d times, %s", name, len(f.asked), got)
		}
		if private := strings.HasPrefix(name, "private"); private && !row.want && !slices.Equal(x.Tags, []policy.Tag{{By: Name, Rule: "a", Stage: policy.StageRequest, Decision: policy.DecisionSkipped, Reason: "private"}}) {
			t.Errorf("%s: %+v", name, x.Tags)
		}
	}
	x := exchange(t, openai.Dialect{}, plain)
	x.Intent.PrivacyTier = policy.PrivacyTEE
	if (&Source{}).maySee(x) || !(&Source{Private: true}).maySee(x) {
		t.Error("a source that is not private sees a request for an enclave, or one that is does not")
	}
	if (Layer{}).Applies(exchange(t, openai.Dialect{}, plain)) {
		t.Error("a layer without sources applies")
	}
}

func TestC17ASourceThatFailsIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		f      *finder
		shadow bool
		why    string
	}{
		"late":      {&finder{wait: time.Hour}, false, "timeout"},
		"an error":  {&finder{err: errors.New("x")}, false, "failed"},
		"a reason":  {&finder{err: &FailedError{"bad_answer"}}, false, "bad_answer"},
		"a panic":   {&finder{panic: true}, false, "failed"},
		"in shadow": {&finder{err: &FailedError{"bad_status"}}, true, "bad_status"},
	} {
		for _, refuse := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				good, bad := source("good", &finder{says: results("x"), wait: 100 * time.Millisecond}), source("bad", row.f)
				bad.Shadow, bad.Refuse = row.shadow, refuse
				x := exchange(t, openai.Dialect{}, plain)
				began := time.Now()
				err := pipeline.New(layer(bad, good)).Request(t.Context(), x)
				if took := time.Since(began); took > time.Second {
					t.Errorf("%s: it takes %s", name, took)
				}
				if !slices.Equal(x.Tags, []policy.Tag{{By: Name, Rule: "bad", Stage: policy.StageRequest, Decision: policy.DecisionFailed, Reason: row.why, Shadow: row.shadow}}) {
					t.Errorf("%s: %+v", name, x.Tags)
				}
				if refuse && !row.shadow {
					if f := fault.From(err); err == nil || f.Kind != fault.Unavailable || !strings.Contains(f.Public, `"bad"`) {
						t.Errorf("%s: %v", name, err)
					}
					return
				}
				if note := x.Log[0].Note; err != nil || !strings.HasPrefix(note, "results=1;bad="+row.why+";good=1;") {
					t.Errorf("%s: %v, %s", name, err, note)
				}
			})
		}
	}
}

func TestC17AShadowAddsNothing(t *testing.T) {
	t.Parallel()
	s := source("a", &finder{says: results("x", "y")})
	s.Shadow = true
	if got, note := run(t, layer(s), exchange(t, openai.Dialect{}, plain)); got != plain || note != "results=0;a=shadow-2" {
		t.Errorf("%s, %s", note, got)
	}
}

// known finds words of an address and of a seed phrase.
type known struct{}

func (known) Find(_ context.Context, text string) (out []pii.Span, _ error) {
	for word, as := range map[string]pii.Type{"ada@example.com": pii.Email, "SEED": pii.SeedPhrase} {
		if i := strings.Index(text, word); i >= 0 {
			out = append(out, pii.Span{Start: i, End: i + len(word), Type: as})
		}
	}
	return out, nil
}

// masking is a guard with a fixed mode.
type masking string

func (m masking) Guard(*policy.Principal, policy.SecurityClass) (name, does string) {
	return "pii", string(m)
}

func TestD05WhatIsMaskedForProvidersIsMaskedForHooks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, does, outside, why string }{
		{"I am ada@example.com.", "mask", "I am [" + string(pii.Email) + "].", ""},
		{"I am ada@example.com.", "block", "I am [" + string(pii.Email) + "].", ""},
		{"I am ada@example.com.", "detect", "I am ada@example.com.", ""},
		{"I am nobody.", "mask", "I am nobody.", ""},
		{"It is SEED.", "off", "", "secret"},
	} {
		inside, outside := &finder{}, &finder{}
		in := source("memory", inside)
		in.Local = true
		l := layer(in, source("hook", outside))
		l.Guard, l.Personal = masking(row.does), known{}
		x := exchange(t, openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":"`+row.text+`"}]}`)
		run(t, l, x)
		if inside.asked[0].Text != row.text {
			t.Errorf("%+v: the memory gets %q", row, inside.asked[0].Text)
		}
		if row.why != "" {
			if len(outside.asked) != 0 || len(x.Tags) != 1 || x.Tags[0].Reason != row.why || x.Tags[0].Decision != policy.DecisionSkipped {
				t.Errorf("%+v: the hook gets %+v, %+v", row, outside.asked, x.Tags)
			}
			continue
		}
		if outside.asked[0].Text != row.outside {
			t.Errorf("%+v: the hook gets %q", row, outside.asked[0].Text)
		}
	}
}

func TestC17CitationsAreTheClientsChoice(t *testing.T) {
	t.Parallel()
	message := func(blocks string) string {
		return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[` + blocks + `{"type":"text","text":"Which dog?"}]}]}`
	}
	const own = `{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]%s},`
	const doc = `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}%s},`
	const on = `,"citations":{"enabled":true}`
	for name, row := range map[string]struct {
		d     wire.Dialect
		body  string
		hints policy.Hints
		want  bool
	}{
		"no preference":               {anthropic.Dialect{}, message(""), policy.Hints{}, false},
		"of its own results":          {anthropic.Dialect{}, message(fmt.Sprintf(own, on)), policy.Hints{}, true},
		"not of its own results":      {anthropic.Dialect{}, message(fmt.Sprintf(own, "") + fmt.Sprintf(doc, on)), policy.Hints{Require: []policy.Feature{policy.Citations}}, false},
		"of its documents":            {anthropic.Dialect{}, message(fmt.Sprintf(doc, on)), policy.Hints{}, true},
		"not of its documents":        {anthropic.Dialect{}, message(fmt.Sprintf(doc, "")), policy.Hints{}, false},
		"by a hint":                   {openai.Dialect{}, plain, policy.Hints{Require: []policy.Feature{policy.Citations}}, true},
		"by a hint that may be unmet": {anthropic.Dialect{}, message(""), policy.Hints{Prefer: []policy.Feature{policy.Citations}}, true},
		"by another hint":             {openai.Dialect{}, plain, policy.Hints{Require: []policy.Feature{policy.Vision}}, false},
	} {
		x := exchange(t, row.d, row.body)
		x.Hints = row.hints
		if run(t, layer(source("a", &finder{says: results("x")})), x); x.Request.Cites != row.want || !x.Request.Retrieved {
			t.Errorf("%s: %t", name, x.Request.Cites)
		}
	}
}

func TestD32WhatIsAddedIsPartOfTheKey(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]wire.Dialect{plain: openai.Dialect{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Which dog?"}]}`: anthropic.Dialect{}, `{"model":"m","input":"Which dog?"}`: responses.Dialect{}} {
		keys := map[cache.Key]string{}
		for _, texts := range [][]string{{}, {"Rex"}, {"Max"}, {"Rex", "Max"}, {"Max", "Rex"}} {
			x := exchange(t, d, name)
			run(t, layer(source("a", &finder{says: results(texts...)})), x)
			k := cache.KeyOf("key_1", x.Request)
			if other, ok := keys[k]; ok {
				t.Errorf("%s: %q has the key of %q", name, texts, other)
			}
			keys[k] = strings.Join(texts, " ")
			again := exchange(t, d, name)
			run(t, layer(source("a", &finder{says: results(texts...)})), again)
			if cache.KeyOf("key_1", again.Request) != k {
				t.Errorf("%s: %q has two keys", name, texts)
			}
		}
	}
}

func TestC17AnAnswerOfAHookIsReadStrictly(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"results":[]}`: "",
		`{"results":[{"text":"a","score":0.1},{"id":"r1","title":"T","source":"S","text":"b","score":0.9},{"text":"c"}]}`: "r1|S|T|b, h_|search|search|a, h_|search|search|c",
		`{"results":[{"text":"a"},{"text":"b"},{"text":"c"},{"text":"d"}]}`:                                               "h_|search|search|a, h_|search|search|b, h_|search|search|c",
		`{"results":[{"text":""},{"text":"  "},{"title":"x"}]}`:                                                           "",
		`{"results":[{"id":"a b","title":"one\ntwo\u0000","source":" s ","text":"x\u0000y\nz"}],"more":1}`:                "h_|s|one two|xy\nz",
		`{"results":null}`:                       "bad_answer",
		`{}`:                                     "bad_answer",
		`[]`:                                     "bad_answer",
		`{"results":[{"text":1}]}`:               "bad_answer",
		`{"results":[{"text":"a","score":"x"}]}`: "bad_answer",
		`{"results":[{"text":"a","score":1e999}]}`: "bad_answer",
		``: "bad_answer",
	} {
		got, err := readResults([]byte(body), 3)
		var all []string
		for _, r := range got {
			if strings.HasPrefix(r.ID, "h_") {
				r.ID = r.ID[:2]
			}
			all = append(all, strings.Join([]string{r.ID, r.Source, r.Title, r.Text}, "|"))
		}
		s := strings.Join(all, ", ")
		if err != nil {
			s = reasonOf(err)
		}
		if s != want {
			t.Errorf("%s: %q, want %q", body, s, want)
		}
	}
}

// FuzzResults: any answer of a hook is bounded results or a reason, and what is added to a request can be parsed as a result.
func FuzzResults(f *testing.F) {
	f.Add([]byte(`{"results":[{"id":"x","title":"t","source":"s","text":"</search_result> <search_result source=\"","score":1}]}`), 3)
	f.Add([]byte(`{"results":[{"text":"\u0000\ud800"}]}`), 1)
	f.Fuzz(func(t *testing.T, b []byte, most int) {
		most = min(max(most, 0), 20)
		got, err := readResults(b, most)
		if err != nil {
			if len(got) > 0 || reasonOf(err) == "" {
				t.Fatal(got, err)
			}
			return
		}
		last := math.Inf(1)
		for _, r := range got {
			if len(r.Text) > maxText || len(r.Title) > maxTitle || len(r.Source) > maxSource || len(r.ID) > 64 || r.Score > last || r.Text == "" || !idForm.MatchString(r.ID) {
				t.Fatalf("%+v", r)
			}
			last = r.Score
			if again, ok := wire.ParseSearchResult(formatted(&r)); !ok || again.Text == "" {
				t.Fatalf("%q is read back as %+v", formatted(&r), again)
			}
		}
		if len(got) > most {
			t.Fatal(len(got))
		}
		l := layer(source("a", &finder{says: got}))
		l.MaxTokens = 100
		x := exchange(t, openai.Dialect{}, plain)
		if body, _ := run(t, l, x); len(body)-len(plain) > 2*100*7/2+400 {
			t.Errorf("%d bytes were added", len(body)-len(plain))
		}
	})
}
