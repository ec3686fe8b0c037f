package semcache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/semcache"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// embedder is a fake that gives all texts almost the same vector, except for the probes of a check.
type embedder struct {
	mu     sync.Mutex
	texts  []string
	cosine float32 // of a text with the word "likewise" and any other
	err    error
}

func (e *embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.texts = append(e.texts, text)
	switch text[0] {
	case 'W', 'D', 'T':
		v := make([]float32, 5)
		v[text[0]%5] = 1
		return v, nil
	}
	if e.err != nil {
		return nil, e.err
	}
	if strings.HasPrefix(text, "what is the cost") {
		return []float32{e.cosine, float32(0.2), 0}, ctx.Err()
	}
	return []float32{1, 0, 0}, ctx.Err()
}

func (*embedder) Threshold() float64 { return 0.92 }
func (*embedder) Tag() string        { return "m" }

// embedded is the number of embedded texts, without the probes.
func (e *embedder) embedded() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.texts) - 3
}

// exact is a layer before the semantic cache, which stores the answers to requests with a temperature of 0.
type exact struct{ store *cache.Store }

func (exact) Name() string       { return "l3" }
func (exact) Profiles() []string { return nil }

func (l exact) Request(ctx context.Context, x *pipeline.Exchange) error {
	control, err := cache.ParseControl(x.Header)
	if err != nil || x.Request.Temperature() != "0" {
		return err
	}
	x.CacheLayer = "l3"
	x.Cache = l.store.Ticket("a", cache.KeyOf("a", x.Request), cache.Format{}, control, time.Minute)
	if x.Answer = x.Cache.Fresh(ctx); x.Answer == nil {
		x.Watch("l3", l)
	}
	return nil
}

func (exact) Response(ctx context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	return semcache.Layer{}.Response(ctx, x, ev, out)
}

// caches are the two caches.
type caches struct {
	layer    semcache.Layer
	exact    exact
	embedder *embedder
	counted  []semcache.Result
}

func newRig(t *testing.T, mode semcache.Mode) *caches {
	t.Helper()
	index := semantic.New(0)
	store := cache.New(cache.Options{Removed: index.Remove})
	r := &caches{embedder: &embedder{cosine: 0.98}, exact: exact{store}}
	model := &semantic.Model{Embedder: r.embedder, Log: slog.New(slog.DiscardHandler)}
	if err := model.Check(); err != nil {
		t.Fatal(err)
	}
	r.layer = semcache.Layer{Mode: mode, Store: store, Index: index, Model: model, TTL: time.Hour, Timeout: time.Minute, Count: func(c semcache.Result) { r.counted = append(r.counted, c) }}
	return r
}

type question struct {
	say  string
	more string // members of the body
	h    header.List
	set  func(*pipeline.Exchange)
}

func (q *question) exchange(t testing.TB, d wire.Dialect) *pipeline.Exchange {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m",%s"max_tokens":100,"messages":[{"role":"user","content":%q}]}`, q.more, q.say)
	if strings.HasPrefix(q.say, "[") {
		body = fmt.Sprintf(`{"model":"m",%s"max_tokens":100,"messages":%s}`, q.more, q.say)
	}
	r, err := d.Decode(chat.Generate, q.h, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{Request: r, Header: q.h, Principal: policy.Principal{Account: "a", Name: "ada", Tier: policy.TierPro}}
	if q.set != nil {
		q.set(x)
	}
	return x
}

// ask runs the layers on a question, and stores an answer to it if none was found.
func (r *caches) ask(t testing.TB, q question) *pipeline.Exchange {
	t.Helper()
	return r.askIn(t, openai.Dialect{}, q, chat.Event{Kind: chat.Text, Text: []byte("nine")})
}

func (r *caches) askIn(t testing.TB, d wire.Dialect, q question, answer chat.Event) *pipeline.Exchange {
	t.Helper()
	x := q.exchange(t, d)
	if err := pipeline.New(r.exact, r.layer).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if x.Answer != nil || x.Cache == nil {
		return x
	}
	x.Served = &cache.Served{By: policy.Resolution{Provider: "p", Model: "m"}}
	for _, ev := range []chat.Event{{Kind: chat.Start}, answer, {Kind: chat.Stop, Reason: chat.StopEnd}, {Kind: chat.End}} {
		if _, err := x.Response(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

const (
	price     = "What is the price of gold?"
	priceToo  = "how much does gold cost"
	priceLike = "what is the cost of gold"
)

// TestAQuestionThatMeansTheSameIsAnswered: in every dialect, and together with the exact cache, which is used first and needs no model.
func TestAQuestionThatMeansTheSameIsAnswered(t *testing.T) {
	for _, more := range []string{``, `"temperature":0.7,`, `"temperature":0,`} {
		r := newRig(t, semcache.On)
		if x := r.ask(t, question{say: price, more: more}); x.Answer != nil || r.embedder.embedded() != 0 {
			t.Fatalf("%s: the first question is answered, or %d texts are embedded for it", more, r.embedder.embedded())
		}
		for _, d := range []wire.Dialect{openai.Dialect{}, anthropic.Dialect{}} {
			x := r.askIn(t, d, question{say: priceLike, more: more}, chat.Event{})
			if x.Answer == nil || x.Similarity < 0.97 || x.Similarity > 0.99 {
				t.Fatalf("%s: no answer, or similarity %v; %+v", more, x.Similarity, x.Log)
			}
		}
		if n := r.embedder.embedded(); n != 3 {
			t.Errorf("%s: %d texts are embedded for three questions, of which one is stored", more, n)
		}
		x := r.ask(t, question{say: price, more: more})
		if want := 1.0; x.Answer == nil || more == `"temperature":0,` && x.Similarity != 0 || more != `"temperature":0,` && x.Similarity != want {
			t.Errorf("%s: the same question again has similarity %v", more, x.Similarity)
		}
		if r.embedder.embedded() != 3 {
			t.Errorf("%s: the same text is embedded", more)
		}
	}
}

// TestD31WhoIsEligible: other requests are answered by a provider, and not stored for other questions.
func TestD31WhoIsEligible(t *testing.T) {
	hint := func(f func(*policy.Hints)) func(*pipeline.Exchange) {
		return func(x *pipeline.Exchange) { f(&x.Hints) }
	}
	own := func(v string) header.List { return header.List{{Name: cache.Header, Value: v}} }
	for about, row := range map[string]struct {
		q    question
		hit  bool // the second question is answered
		used bool // the layer searched
	}{
		"plain":                {question{}, true, true},
		"a low temperature":    {question{more: `"temperature":0.7,`}, true, true},
		"a high temperature":   {question{more: `"temperature":0.71,`}, false, false},
		"no temperature":       {question{more: `"temperature":"x",`}, false, false},
		"several choices":      {question{more: `"n":2,`}, false, false},
		"thinking":             {question{more: `"reasoning_effort":"low",`}, false, false},
		"a native member":      {question{more: `"logprobs":true,`}, false, false},
		"off":                  {question{h: own("off")}, false, false},
		"no-store":             {question{h: own("no-store")}, false, true},
		"no-cache":             {question{h: own("no-cache")}, false, true},
		"max-age":              {question{h: own("max-age=60")}, true, true},
		"no_cache":             {question{set: hint(func(h *policy.Hints) { h.NoCache = true })}, false, false},
		"confidential":         {question{set: hint(func(h *policy.Hints) { h.SecurityClass = policy.SecurityConfidential })}, false, false},
		"private":              {question{set: func(x *pipeline.Exchange) { x.Intent.Security = policy.SecurityPrivate }}, false, false},
		"results are added":    {question{set: func(x *pipeline.Exchange) { x.Request.Retrieved = true }}, false, false},
		"the tier private":     {question{set: func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyNoLog }}, true, true},
		"private, without key": {question{set: func(x *pipeline.Exchange) { x.Intent.PrivacyTier, x.Principal.Account = policy.PrivacyNoLog, "" }}, false, false},
		"in an enclave":        {question{set: func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyTEE }}, false, false},
		"end to end":           {question{set: func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyEndToEnd }}, false, false},
		"a long question":      {question{more: "", say: "[" + `{"role":"user","content":"` + strings.Repeat("long words ", 40) + `PRICE"}]`}, false, false},
		"an image":             {question{say: `[{"role":"user","content":[{"type":"text","text":"PRICE"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]`}, false, false},
		"a result of a tool":   {question{say: `[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"},{"role":"user","content":"PRICE"}]`}, false, false},
		"a prefill":            {question{say: `[{"role":"user","content":"PRICE"},{"role":"assistant","content":"It is"}]`}, false, false},
		"a conversation":       {question{say: `[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"PRICE"}]`}, true, true},
		"several parts":        {question{say: `[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"text","text":"PRICE"}]}]`}, false, true},
		"tools are offered":    {question{more: `"tools":[{"type":"function","function":{"name":"f"}}],`}, true, true},
		"a response format":    {question{more: `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},`}, true, true},
	} {
		r := newRig(t, semcache.On)
		first, second := row.q, row.q
		if row.q.say == "" {
			first.say, second.say = price, priceLike
		} else {
			first.say, second.say = strings.ReplaceAll(row.q.say, "PRICE", price), strings.ReplaceAll(row.q.say, "PRICE", priceLike)
		}
		r.ask(t, first)
		r.counted = nil
		if x := r.ask(t, second); (x.Answer != nil) != row.hit || (len(r.counted) == 1) != row.used {
			t.Errorf("%s: answered is %v; results %v", about, x.Answer != nil, r.counted)
		}
	}
}

// TestOnlyEqualPartitionsAreCompared: requests of other tenants (K-60), or that differ in anything else, are not.
func TestOnlyEqualPartitionsAreCompared(t *testing.T) {
	for about, q := range map[string]question{
		"another key":         {set: func(x *pipeline.Exchange) { x.Principal.Account = "b" }},
		"another model":       {set: func(x *pipeline.Exchange) { x.Request.Model = "n" }},
		"a provider":          {set: func(x *pipeline.Exchange) { x.Request.Provider = "p" }},
		"another temperature": {more: `"temperature":0.5,`},
		"another limit":       {more: `"max_completion_tokens":7,`},
		"a tool":              {more: `"tools":[{"type":"function","function":{"name":"f"}}],`},
		"a response format":   {more: `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},`},
		"a user":              {more: `"user":"u",`},
		"a system prompt":     {say: `[{"role":"system","content":"Be brief."},{"role":"user","content":"` + priceLike + `"}]`},
		"an earlier turn":     {say: `[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"` + priceLike + `"}]`},
		"a check of answers":  {set: func(x *pipeline.Exchange) { x.Request.Check = "c" }},
		"a profile":           {set: func(x *pipeline.Exchange) { x.Request.Profile = &chat.Profile{Role: "r"} }},
		"another market":      {set: func(x *pipeline.Exchange) { x.Market = cache.Market{Agent: "g", Regime: "calm"} }},
		"another word":        {say: "what is the cost of silver"},
	} {
		r := newRig(t, semcache.On)
		r.ask(t, question{say: price, set: func(x *pipeline.Exchange) { x.Market = cache.Market{Agent: "g", Regime: "wild"} }})
		if q.say == "" {
			q.say = priceLike
		}
		if x := r.ask(t, q); x.Answer != nil {
			t.Errorf("%s: answered", about)
		}
		if x := r.ask(t, question{say: priceToo}); x.Answer == nil {
			t.Errorf("%s: the same request is not answered", about)
		}
	}
}

func TestWhatIsNotSimilarEnoughIsNotServed(t *testing.T) {
	r := newRig(t, semcache.On)
	r.embedder.cosine = 0.9
	r.ask(t, question{say: price})
	x := r.ask(t, question{say: priceLike})
	if x.Answer != nil || r.counted[1] != semcache.Below || x.Log[len(x.Log)-1].Note != "below;similarity=0.900" {
		t.Errorf("results %v, %+v", r.counted, x.Log)
	}
	r.layer.Threshold = 0.85
	if x := r.ask(t, question{say: "How much does gold cost?"}); x.Answer == nil {
		t.Error("the operator's threshold does not count")
	}
}

// TestAShadowShowsWhatWouldBeServed.
func TestAShadowShowsWhatWouldBeServed(t *testing.T) {
	r := newRig(t, semcache.Shadow)
	r.ask(t, question{say: price})
	x := r.ask(t, question{say: priceLike})
	if x.Answer != nil || x.Similarity != 0 || x.Log[len(x.Log)-1].Note != "shadow_hit;similarity=0.980" || fmt.Sprint(r.counted) != "[miss shadow_hit]" {
		t.Errorf("%v, results %v, %+v", x.Answer, r.counted, x.Log)
	}
	r.layer.Mode = semcache.On
	if x := r.ask(t, question{say: priceToo}); x.Answer == nil {
		t.Error("what was stored in the shadow is not there")
	}
}

// TestAModelThatIsBusyIsNoError: a provider answers.
func TestAModelThatIsBusyIsNoError(t *testing.T) {
	r := newRig(t, semcache.On)
	r.ask(t, question{say: price})
	r.embedder.err = errors.New("busy")
	if x := r.ask(t, question{say: priceLike}); x.Answer != nil || r.counted[1] != semcache.NoModel || x.Log[len(x.Log)-1].Note != "no_model" {
		t.Errorf("results %v", r.counted)
	}
	r.layer.Model = &semantic.Model{Embedder: &embedder{err: errors.New("absent")}, Log: slog.New(slog.DiscardHandler)}
	if x := r.ask(t, question{say: priceToo}); x.Answer != nil || r.counted[2] != semcache.NoModel {
		t.Errorf("a model that is being read: results %v", r.counted)
	}
	r.layer.Model = nil
	x := (&question{say: price}).exchange(t, openai.Dialect{})
	if r.layer.Applies(x) || r.layer.Waits(x) {
		t.Error("a process without models runs the layer")
	}
}

func TestAnswersThatCallToolsAreNotShared(t *testing.T) {
	r := newRig(t, semcache.On)
	r.askIn(t, openai.Dialect{}, question{say: price}, chat.Event{Kind: chat.ToolStart, Tool: chat.ToolCall{ID: "c", Name: "f"}})
	if x := r.ask(t, question{say: priceLike}); x.Answer != nil {
		t.Error("a call is served to another question")
	}
}

// TestEntriesRemovedFromTheStoreAreRemovedFromTheIndex: by deletion (K-65), and by a change of the market regime (C-06).
func TestEntriesRemovedFromTheStoreAreRemovedFromTheIndex(t *testing.T) {
	r := newRig(t, semcache.On)
	r.ask(t, question{say: price})
	if r.layer.Index.Size() != 1 {
		t.Fatal("nothing is indexed")
	}
	_, _ = r.layer.Store.Remove(t.Context(), "a", func(*cache.Entry) bool { return true })
	if x := r.ask(t, question{say: priceLike}); x.Answer != nil || r.layer.Index.Size() != 1 {
		t.Errorf("a removed answer is served, or its question is kept: %d rows", r.layer.Index.Size())
	}
	in := func(regime string) func(*pipeline.Exchange) {
		return func(x *pipeline.Exchange) {
			x.Principal.Account = "g"
			x.Market = r.layer.Store.Enter("g", "golem", regime)
		}
	}
	r.ask(t, question{say: price, set: in("calm")})
	if x := r.ask(t, question{say: priceToo, set: in("")}); x.Answer == nil {
		t.Error("a request that says no regime is in that of before")
	}
	if x := r.ask(t, question{say: priceLike, set: in("wild")}); x.Answer != nil {
		t.Error("an answer of another regime is served")
	}
}

func TestTheScopeOfTheLayer(t *testing.T) {
	for about, row := range map[string]struct {
		only semcache.Scope
		want bool
	}{
		"an empty scope":     {semcache.Scope{}, true},
		"a key by its id":    {semcache.Scope{Keys: []policy.Account{"b", "a"}}, true},
		"a key by its name":  {semcache.Scope{Keys: []policy.Account{"ada"}}, true},
		"another key":        {semcache.Scope{Keys: []policy.Account{"b"}}, false},
		"a plan":             {semcache.Scope{Plans: []policy.Tier{policy.TierPro}}, true},
		"another plan":       {semcache.Scope{Plans: []policy.Tier{policy.TierFree}}, false},
		"a model":            {semcache.Scope{Models: []string{"m"}}, true},
		"another model":      {semcache.Scope{Models: []string{"n"}}, false},
		"a subsystem":        {semcache.Scope{Subsystems: []string{"curator"}}, true},
		"another subsystem":  {semcache.Scope{Subsystems: []string{"operator"}}, false},
		"one of two differs": {semcache.Scope{Models: []string{"m"}, Plans: []policy.Tier{policy.TierFree}}, false},
	} {
		r := newRig(t, semcache.On)
		r.layer.Scope = row.only
		x := (&question{say: price, set: func(x *pipeline.Exchange) { x.Hints.Subsystem = "curator" }}).exchange(t, openai.Dialect{})
		if got := r.layer.Applies(x); got != row.want || r.layer.Waits(x) != got {
			t.Errorf("%s: applies is %v", about, got)
		}
	}
	if l := newRig(t, "").layer; l.Applies((&question{say: price}).exchange(t, openai.Dialect{})) {
		t.Error("the layer is on by default")
	}
}

func TestAWrongDirectiveIsAnError(t *testing.T) {
	r := newRig(t, semcache.On)
	x := (&question{say: price, h: header.List{{Name: cache.Header, Value: "never"}}}).exchange(t, openai.Dialect{})
	var f *fault.Fault
	if err := r.layer.Request(t.Context(), x); !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Errorf("the error is %v", err)
	}
}

// TestTheGovernorMayRaiseTheThresholdAndNeverLowerIt.
func TestTheGovernorMayRaiseTheThresholdAndNeverLowerIt(t *testing.T) {
	for _, row := range []struct {
		configured, knob float64
		hit              bool
	}{{0, 0, true}, {0, 0.97, true}, {0, 0.99, false}, {0.985, 0.5, false}, {0.97, 0.1, true}} {
		r := newRig(t, semcache.On)
		r.layer.Threshold = row.configured
		r.ask(t, question{say: price})
		x := (&question{say: priceLike}).exchange(t, openai.Dialect{})
		x.Knobs.Similarity = row.knob
		if err := r.layer.Request(t.Context(), x); err != nil || (x.Answer != nil) != row.hit { // without a time limit
			t.Errorf("%+v: %v %+v", row, err, x.Log)
		}
	}
}
