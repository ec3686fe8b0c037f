package promptlog_test

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/promptlog"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/policy"
)

// memorySink stores entries in memory.
type memorySink struct {
	mu  sync.Mutex
	all []*prompts.Entry
}

func (k *memorySink) Write(_ context.Context, batch []*prompts.Entry) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, batch...)
	return nil
}
func (*memorySink) Tidy(context.Context, time.Time) error { return nil }
func (*memorySink) Close() error                          { return nil }

// masker is a fake that masks addresses.
type masker struct{}

var address = regexp.MustCompile(`[a-z]+(@|\\u0040)example\.org`)

func (masker) Redact(_ context.Context, _ policy.Account, texts []string) error {
	for i := range texts {
		texts[i] = address.ReplaceAllString(texts[i], "<EMAIL>")
	}
	return nil
}

func newLayer() promptlog.Layer {
	return promptlog.Layer{Keys: map[policy.Account]bool{"k1": true}, Log: prompts.New(func(string, int) {}), Mask: masker{}}
}

// written are the entries of the layer's log, after it has written all of them.
func written(t *testing.T, l promptlog.Layer) []*prompts.Entry {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop() // writes pending entries
	k := &memorySink{}
	l.Log.Run(ctx, prompts.Options{
		Config: func() *config.Config { return new(config.Config) }, Redact: func(s string) string { return s }, Logger: slog.New(slog.DiscardHandler),
		Open: func(context.Context, *config.Config) ([]prompts.Sink, error) { return []prompts.Sink{k}, nil },
	})
	return k.all
}

func exchange(t *testing.T, messages string) *pipeline.Exchange {
	t.Helper()
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(`{"model":"m","tools":[{"type":"function","function":{"name":"send","description":"not kept"}}],"messages":[`+messages+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{ID: "req_1", Request: r, Principal: policy.Principal{Account: "k1"}, Profile: pipeline.ProfileMinimal}
}

const question = `{"role":"user","content":"write to alice@example.org"}`

// answer passes an answer through the layer, in pieces.
func answer(t *testing.T, x *pipeline.Exchange, events ...chat.Event) {
	t.Helper()
	for i := range events {
		out, err := x.Response(t.Context(), &events[i])
		if err != nil || len(out) != 1 || !bytes.Equal(out[0].Text, events[i].Text) || out[0].Kind != events[i].Kind {
			t.Fatalf("event %d became %+v, %v", i, out, err)
		}
	}
}

func ask(t *testing.T, l promptlog.Layer, x *pipeline.Exchange) {
	t.Helper()
	if err := pipeline.New(l).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
}

func text(s string) chat.Event { return chat.Event{Kind: chat.Text, Text: []byte(s)} }

// TestF05APromptIsLoggedMasked: the messages of a request and its answer are masked as a whole, so that values in pieces are found. A failed attempt's answer is
// not logged.
func TestF05APromptIsLoggedMasked(t *testing.T) {
	t.Parallel()
	l, x := newLayer(), exchange(t, `{"role":"system","content":"be brief"},`+question+`,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"send","arguments":"{\"to\":\"alice\\u0040example.org\"}"}}]},{"role":"tool","tool_call_id":"c","content":"sent"}`)
	ask(t, l, x)
	answer(t, x, chat.Event{Kind: chat.Start}, text("a failed attempt"))
	x.Served = &cache.Served{By: policy.Resolution{Provider: "p", Model: "m"}}
	answer(t, x, chat.Event{Kind: chat.Start}, text("I wrote to ali"), text("ce@example.org"), chat.Event{Kind: chat.ToolStart, Index: 1, Tool: chat.ToolCall{Name: "send"}},
		chat.Event{Kind: chat.ToolArgs, Index: 1, Text: []byte(`{"to":`)}, chat.Event{Kind: chat.ToolArgs, Index: 1, Text: []byte(`"bob@example.org"}`)}, chat.Event{Kind: chat.Stop, Reason: chat.StopTool}, chat.Event{Kind: chat.End})
	if h := x.Announced(nil).Get(promptlog.Header); h != "on" {
		t.Errorf("the answer says %q", h)
	}
	x.Ended(record.OK, "", policy.Resolution{})
	all := written(t, l)
	if len(all) != 1 {
		t.Fatalf("%d entries", len(all))
	}
	e := all[0]
	var said []string
	for _, part := range append(e.Request, e.Answer...) {
		said = append(said, part.Kind+" "+part.Tool+": "+part.Text)
	}
	got := strings.Join(said, "\n")
	const want = "system : be brief\nuser : write to <EMAIL>\narguments send: {\"to\":\"<EMAIL>\"}\nresult : sent\nassistant : I wrote to <EMAIL>\narguments send: {\"to\":\"<EMAIL>\"}"
	if got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	if e.RequestID != "req_1" || e.Account != "k1" || e.Provider != "p" || e.Model != "m" || e.Stop != "tool" || time.Since(e.At) > time.Hour {
		t.Errorf("%+v", e)
	}
}

// TestF05WhatIsNeverLogged: requests of other keys, and those for privacy or an enclave, by class, tier, requirement, preference or profile; also if that is only
// known later.
func TestF05WhatIsNeverLogged(t *testing.T) {
	t.Parallel()
	tee := []policy.Resolution{{Features: []policy.Feature{policy.TEEAttested, policy.EndToEndEncryption}}}
	mode := &chat.Profile{}
	mode.Default.TEE = true
	for about, row := range map[string]struct {
		change func(x *pipeline.Exchange)
		want   bool
	}{
		"an ordinary one":           {func(*pipeline.Exchange) {}, true},
		"at a provider's enclave":   {func(x *pipeline.Exchange) { x.Found = tee }, true},
		"another key":               {func(x *pipeline.Exchange) { x.Principal.Account = "k2" }, false},
		"no key":                    {func(x *pipeline.Exchange) { x.Principal = policy.Principal{Anonymous: true} }, false},
		"confidential":              {func(x *pipeline.Exchange) { x.Hints.SecurityClass = policy.SecurityConfidential }, false},
		"private":                   {func(x *pipeline.Exchange) { x.Hints.SecurityClass = policy.SecurityPrivate }, false},
		"confidential by its needs": {func(x *pipeline.Exchange) { x.Intent.Security = policy.SecurityConfidential }, false},
		"the tier private":          {func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyNoLog }, false},
		"the tier tee":              {func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyTEE }, false},
		"the tier e2e":              {func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyEndToEnd }, false},
		"no log is required":        {func(x *pipeline.Exchange) { x.Intent.Require = []policy.Feature{policy.NoLog} }, false},
		"an enclave is required":    {func(x *pipeline.Exchange) { x.Intent.Require = []policy.Feature{policy.TEEAttested} }, false},
		"encryption is required":    {func(x *pipeline.Exchange) { x.Intent.Require = []policy.Feature{policy.EndToEndEncryption} }, false},
		"an enclave is preferred":   {func(x *pipeline.Exchange) { x.Intent.Prefer, x.Found = []policy.Feature{policy.TEEAttested}, tee }, false},
		"encryption is preferred": {func(x *pipeline.Exchange) {
			x.Intent.Prefer, x.Found = []policy.Feature{policy.EndToEndEncryption}, tee
		}, false},
		"no log is preferred":             {func(x *pipeline.Exchange) { x.Intent.Prefer = []policy.Feature{policy.NoLog} }, false},
		"tee_mode":                        {func(x *pipeline.Exchange) { x.Request.Profile, x.Found = mode, tee }, false},
		"the user's own key pays":         {func(x *pipeline.Exchange) { x.CallersKey, x.DirectKey, x.ProtectOnly = true, true, true }, false},
		"a key of the request's own pays": {func(x *pipeline.Exchange) { x.CallersKey = true }, false},
		"no generation":                   {func(x *pipeline.Exchange) { x.Request.Op = chat.CountTokens }, false},
	} {
		for _, late := range []bool{false, true} {
			l, x := newLayer(), exchange(t, question)
			if !late {
				row.change(x)
			}
			ask(t, l, x)
			if got := x.Announced(nil).Get(promptlog.Header) != ""; !late && (got != row.want || x.Watched() != row.want) {
				t.Errorf("%s: announced %v, watched %v", about, got, x.Watched())
			}
			if late {
				switch about {
				case "another key", "no key", "no generation":
					continue // none of these changes
				}
				row.change(x)
			}
			answer(t, x, chat.Event{Kind: chat.Start}, text("yes"), chat.Event{Kind: chat.End})
			x.Ended(record.OK, "", policy.Resolution{})
			if got := len(written(t, l)) == 1; got != row.want {
				t.Errorf("%s, late %v: logged %v", about, late, got)
			}
		}
	}
}

// TestF05TheAnswerOfACancelledRequestIsNotLogged: that of a deferred request that was cancelled.
func TestF05TheAnswerOfACancelledRequestIsNotLogged(t *testing.T) {
	t.Parallel()
	l, x := newLayer(), exchange(t, question)
	ask(t, l, x)
	answer(t, x, chat.Event{Kind: chat.Start}, text("yes"))
	x.Announced(nil)
	x.Unread = true
	answer(t, x, chat.Event{Kind: chat.End})
	x.Ended(record.Cancelled, "", policy.Resolution{})
	if n := len(written(t, l)); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// TestF05AnAnswerThatBrokeOffIsLogged with the received part and the reason, without what may be a part of a value; but not private ones, those that ended in
// another way, or a complete answer twice.
func TestF05AnAnswerThatBrokeOffIsLogged(t *testing.T) {
	t.Parallel()
	by := policy.Resolution{Provider: "p", Model: "m"}
	private := func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyNoLog }
	for about, row := range map[string]struct {
		outcome, code string
		change        func(x *pipeline.Exchange)
		said          string // the headers that went out: of an answer, of an error, of an error in place of an answer; "" for none
		end           bool
		want          string // what is kept: all, request, or ""
	}{
		"an interrupted answer":                         {record.Cut, "upstream_error", nil, "answer", false, "all"},
		"a client that disconnected":                    {record.Cancelled, "", nil, "answer", false, "all"},
		"a client that disconnected early on":           {record.Disconnected, "", nil, "", false, "all"},
		"only an error":                                 {record.Failed, "upstream_error", nil, "error", false, ""},
		"only an error, after a part of an answer":      {record.Cut, "upstream_error", nil, "error", false, ""},
		"an error in a stream that had begun":           {record.Failed, "upstream_error", nil, "answer", false, "request"},
		"a refused answer":                              {record.Refused, "policy", nil, "error", false, ""},
		"an answer that violates its schema":            {record.Invalid, "schema", nil, "error", false, ""},
		"one that violates its schema in a stream":      {record.Invalid, "schema", nil, "answer", false, "request"},
		"a private one":                                 {record.Cut, "", private, "answer", false, ""},
		"a complete one, whose client has disconnected": {record.Cancelled, "", nil, "answer", true, "all"},
		"an error instead of a complete one":            {record.Failed, "internal", nil, "both", true, ""},
		"an error after the end of a complete one":      {record.OK, "internal", nil, "answer", true, "all"},
	} {
		l, x := newLayer(), exchange(t, question)
		ask(t, l, x)
		answer(t, x, chat.Event{Kind: chat.Start}, text("To alice@example.org.\nShe lives in 12 Main St. and her card number is known. It is 4111 1111 1"))
		answer(t, x, chat.Event{Kind: chat.ToolStart, Choice: 1, Tool: chat.ToolCall{Name: "send"}}, chat.Event{Kind: chat.ToolArgs, Choice: 1, Text: []byte(`{"to":"bob@exam`)})
		if row.change != nil {
			row.change(x)
		}
		if row.end {
			answer(t, x, chat.Event{Kind: chat.End})
		}
		on := ""
		if row.said == "answer" || row.said == "both" {
			on = x.Announced(nil).Get(promptlog.Header)
		}
		if row.said == "error" || row.said == "both" {
			on = x.AnnouncedError(nil).Get(promptlog.Header)
		}
		x.Ended(row.outcome, row.code, by)
		all := written(t, l)
		if (len(all) == 1) != (row.want != "") || row.said != "" && row.change == nil && (on == "on") != (len(all) == 1) {
			t.Errorf("%s: %d entries, and the headers say %q", about, len(all), on)
		}
		if len(all) == 0 || row.end {
			continue
		}
		e := all[0]
		if e.Outcome != row.outcome || e.Error != row.code || e.Provider != "p" || e.Model != "m" || e.RequestID != "req_1" {
			t.Errorf("%s: %+v", about, e)
		}
		if row.want == "request" {
			if len(e.Answer) > 0 || len(e.Request) != 1 {
				t.Errorf("%s: %+v", about, e)
			}
			continue
		}
		const kept, left = "To <EMAIL>.\nShe lives in 12 Main St. and her card number is known. ", "It is 4111 1111 1"
		if len(e.Answer) != 2 || e.Answer[0].Text != kept || e.Answer[0].Omitted != len(left) || e.Answer[1].Text != "" || e.Answer[1].Tool != "send" || e.Answer[1].Omitted == 0 {
			t.Errorf("%s: %+v", about, e.Answer)
		}
	}
}

// TestF05HalfAnAddressIsLeftOut: a short word before a full stop may be an abbreviation within a value.
func TestF05HalfAnAddressIsLeftOut(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"She lives in 12 Main St. Spring": "",
		"Ask Dr. Ali":                     "",
		"She wrote. He lives at 5":        "She wrote. ",
		"one\ntwo":                        "one\n",
		"Er wohnt in Größe! Da":           "Er wohnt in Größe! ",
		"":                                "",
	} {
		l, x := newLayer(), exchange(t, question)
		ask(t, l, x)
		answer(t, x, chat.Event{Kind: chat.Start}, text(said))
		x.Announced(nil)
		x.Ended(record.Cut, "", policy.Resolution{})
		all := written(t, l)
		if len(all) != 1 || len(all[0].Answer) != 1 || all[0].Answer[0].Text != want || all[0].Answer[0].Omitted != len(said)-len(want) {
			t.Errorf("%q: %+v", said, all[0].Answer)
		}
	}
}

// TestF05LongTextsAreLeftOutWhole: of a request the oldest, of an answer the one that became too long. A value that is cut could not be masked.
func TestF05LongTextsAreLeftOutWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 600<<10)
	half := strings.Repeat("b", 300<<10)
	l, x := newLayer(), exchange(t, `{"role":"user","content":"`+half+`"},{"role":"user","content":"`+half+`"},{"role":"user","content":"now"}`)
	ask(t, l, x)
	answer(t, x, chat.Event{Kind: chat.Start}, text(half[:200<<10]), text(half), chat.Event{Kind: chat.Text, Index: 1, Text: []byte("short")}, text(long), chat.Event{Kind: chat.End})
	x.Announced(nil)
	x.Ended(record.OK, "", policy.Resolution{})
	e := written(t, l)[0]
	if len(e.Request) != 3 || e.Request[0].Omitted != len(half)+2 || e.Request[0].Text != "" || e.Request[1].Text != half || e.Request[2].Text != "now" {
		t.Errorf("%d texts, %d of the first left out", len(e.Request), e.Request[0].Omitted)
	}
	if len(e.Answer) != 2 || e.Answer[0].Text != "" || e.Answer[0].Omitted != len(half)+(200<<10)+len(long) || e.Answer[1].Text != "short" {
		t.Errorf("%d texts, %d left out", len(e.Answer), e.Answer[0].Omitted)
	}
}
