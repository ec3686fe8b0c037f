package side_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/side"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// low returns a model of low quality at a price per million tokens.
func low(id string, usd float64, more ...func(*modelfile.Model)) modelfile.Model {
	p := policy.Price(usd * 1e6)
	m := modelfile.Model{ID: id, Quality: "low", Price: &modelfile.Price{Input: &p, Output: &p}, Reasoning: "none", Context: 100_000}
	for _, f := range more {
		f(&m)
	}
	return m
}

// view returns a request for a model at a gateway with two ordinary providers, a private one, two that accept keys from requests, and two direct keys, one
// without layers.
func view(t *testing.T, found ...policy.Resolution) *request.View {
	t.Helper()
	thinks := func(m *modelfile.Model) { m.Thinking = &modelfile.Thinking{Control: "always"} }
	told := func(m *modelfile.Model) { m.Thinking = &modelfile.Thinking{Control: "effort", Default: "always"} }
	kinds := []kind.Provider{
		{ID: "expensive", Models: []modelfile.Model{low("big", 9), low("small", 3)}},
		{ID: "cheap", Models: []modelfile.Model{low("tiny", 1), low("pondering", 0.5, thinks), low("musing", 0.6, told)}},
		{ID: "quiet", Private: true, Models: []modelfile.Model{low("calm", 2), low("hush", 1.5)}},
		{ID: "byok", Models: []modelfile.Model{low("brought", 1), low("bought", 0.5)}},
		{ID: "byok2", Models: []modelfile.Model{low("borrowed", 0.4)}},
		{ID: "bare", Direct: true, Models: []modelfile.Model{low("mine", 1), low("mined", 0.5)}},
		{ID: "direct", Direct: true, ContextEngineering: true, Models: []modelfile.Model{low("own", 4), low("owned", 0.5)}},
	}
	rt := &runtime.Config{
		Resolver: resolve.New(catalog.New(modelfile.File{}), kinds), Keyless: runtime.KeylessDemo,
		Dialects: map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}}, //nolint:exhaustive // side calls are written in this one
		Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{
			"expensive": {Adapter: custom.Adapter{}}, "cheap": {Adapter: custom.Adapter{}}, "quiet": {Adapter: custom.Adapter{}},
			"byok": {Adapter: custom.Adapter{}, BYOK: true}, "byok2": {Adapter: custom.Adapter{}, BYOK: true}, "bare": {Adapter: custom.Adapter{}, Direct: true}, "direct": {Adapter: custom.Adapter{}, Direct: true, Engineered: true},
		}),
	}
	v := &request.View{Config: rt}
	v.Found, v.Intent.Model = found, string(found[0].Model)
	return v
}

func at(provider policy.ProviderID, model policy.ModelID) policy.Resolution {
	return policy.Resolution{Provider: provider, Model: model, Private: provider == "quiet"}
}

func names(list []policy.Resolution) string {
	var out []string
	for i := range list {
		out = append(out, string(list[i].Provider)+"/"+string(list[i].Model))
	}
	return strings.Join(out, " ")
}

// TestD05WhoMayServeASideCall: only what the request itself might use, with no other key.
func TestD05WhoMayServeASideCall(t *testing.T) {
	own := func(v *request.View) { v.OwnKey = request.OwnKey{Provider: "byok", Key: secret.New("sk-own")} }
	for _, row := range []struct {
		about string
		found []policy.Resolution
		with  func(*request.View)
		want  string
	}{
		{"any request: the cheapest first, without those that always think", []policy.Resolution{at("expensive", "big")}, nil, "cheap/tiny quiet/hush quiet/calm expensive/small"},
		{"a named provider", []policy.Resolution{at("expensive", "big")}, func(v *request.View) { v.Intent.Provider = "expensive" }, "expensive/small"},
		{"a confidential request", []policy.Resolution{at("expensive", "big")}, func(v *request.View) { v.Intent.Security = policy.SecurityConfidential }, "expensive/small"},
		{"one that wants privacy", []policy.Resolution{at("expensive", "big")}, func(v *request.View) { v.Intent.Prefer = []policy.Feature{policy.Privacy} }, "expensive/small"},
		{"a private request", []policy.Resolution{at("quiet", "calm")}, func(v *request.View) { v.Intent.Security = policy.SecurityPrivate }, "quiet/hush"},
		{"a private request of the cheapest private model", []policy.Resolution{at("quiet", "hush")}, func(v *request.View) { v.Intent.Security = policy.SecurityPrivate }, ""},
		{"a private request whose candidates are not", []policy.Resolution{at("expensive", "big")}, func(v *request.View) { v.Intent.Security = policy.SecurityPrivate }, ""},
		{"a key that the request brings", []policy.Resolution{at("byok", "brought")}, own, "byok/bought"},
		{"a key that the request brings is not used where its first candidate needs none", []policy.Resolution{at("expensive", "big")}, own, ""},
		{"a provider without layers", []policy.Resolution{at("bare", "mine")}, nil, ""},
		{"a provider without layers, by name", []policy.Resolution{at("bare", "mine")}, func(v *request.View) { v.Intent.Provider = "bare" }, ""},
		{"a request of the operator's account has no brought key", []policy.Resolution{at("expensive", "small")}, nil, "cheap/tiny quiet/hush quiet/calm"},
		{"a configured key of the user's, which operators' models are not called beside", []policy.Resolution{at("direct", "own")}, nil, "direct/owned"},
		{"a caller without a key", []policy.Resolution{at("expensive", "big")}, func(v *request.View) { v.Principal.Anonymous = true }, ""},
		{"a plan", []policy.Resolution{at("expensive", "big")}, func(v *request.View) { v.Intent.Barred = []policy.ProviderID{"cheap", "quiet"} }, "expensive/small"},
		{"nothing found", nil, nil, ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			v := view(t, append(row.found, at("expensive", "big"))[:max(len(row.found), 1)]...)
			v.Found = row.found
			if row.with != nil {
				row.with(v)
			}
			c := &pipeline.SideCall{Text: strings.Repeat("x", 4000), MaxTokens: 100, Quality: policy.QualityLow}
			if got := names(side.Candidates(v, c)); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
			c.MaxCost = 1
			for _, to := range side.Candidates(v, c) {
				if !v.CallerPays(to.Provider) {
					t.Errorf("%s may cost more than is allowed", names([]policy.Resolution{to}))
				}
			}
		})
	}
}

// TestASideCallIsARequestOfItsOwn: with the exchange's id and credentials, without its content and its hints.
func TestASideCallIsARequestOfItsOwn(t *testing.T) {
	v := view(t, at("expensive", "big"))
	v.ID, v.OwnKey = "req_1", request.OwnKey{Provider: "byok", Key: secret.New("sk-own")}
	v.Hints.GolemID, v.Intent.Security = "golem-7", policy.SecurityConfidential
	got, err := side.View(v, &pipeline.SideCall{System: "Sum \"up\".", Text: "a\nb", MaxTokens: 70})
	if err != nil {
		t.Fatal(err)
	}
	c, err := got.Request.Conversation()
	if err != nil || len(c.System) != 1 || c.System[0].Text != `Sum "up".` || len(c.Messages) != 1 || c.Messages[0].Parts[0].Text != "a\nb" {
		t.Fatalf("%+v, %v", c, err)
	}
	if got.ID != "req_1" || !got.OwnKey.IsSet() || got.Hints.GolemID != "" || got.Intent.Security != policy.SecurityConfidential || got.MaxTokens() != 70 || !got.Request.Profile.Confidential {
		t.Errorf("%+v", got)
	}
	to := at("cheap", "tiny")
	one := side.For(got, &to)
	if one.Request.Model != "tiny" || got.Request.Model == "tiny" || len(one.Found) != 1 {
		t.Errorf("%q, %q", one.Request.Model, got.Request.Model)
	}
}

// TestD05ASideCallIsHeldToWhatTheRequestAsksFor: all privacy requirements of the request are part of the call's own view, by which its provider is
// selected and checked.
func TestD05ASideCallIsHeldToWhatTheRequestAsksFor(t *testing.T) {
	v := view(t, at("quiet", "calm"))
	v.Hints.SecurityClass, v.Hints.PrivacyTier, v.Hints.TaskClass = policy.SecurityPrivate, policy.PrivacyTEE, "x"
	v.Intent.Security, v.Intent.PrivacyTier = policy.SecurityConfidential, policy.PrivacyEndToEnd
	v.Intent.Require, v.Intent.Prefer = []policy.Feature{policy.NoLog}, []policy.Feature{policy.Privacy}
	got, err := side.View(v, &pipeline.SideCall{System: "s", Text: "t", MaxTokens: 70})
	if err != nil {
		t.Fatal(err)
	}
	h, in := &got.Hints, &got.Intent
	if h.SecurityClass != policy.SecurityPrivate || h.PrivacyTier != policy.PrivacyTEE || h.TaskClass != "x" {
		t.Errorf("the hints are %+v", h)
	}
	if in.Security != policy.SecurityConfidential || in.PrivacyTier != policy.PrivacyEndToEnd || !slices.Equal(in.Require, v.Intent.Require) || !slices.Equal(in.Prefer, v.Intent.Prefer) {
		t.Errorf("the intent is %+v", in)
	}
}

// read feeds an answer of a status to a reader in pieces of n bytes.
func read(t *testing.T, adapter provider.Adapter, dialect chat.Dialect, status, n int, body string) *side.Answer {
	t.Helper()
	v := view(t, at("expensive", "big"))
	*v.Config.Provider("expensive") = runtime.Provider{Adapter: adapter, Endpoint: provider.Endpoint{Provider: "expensive", Dialect: dialect}}
	sv, err := side.View(v, &pipeline.SideCall{System: "s", Text: "t", MaxTokens: 50})
	if err != nil {
		t.Fatal(err)
	}
	to := at("expensive", "big")
	var w attempt.Writer
	a := &side.Answer{}
	a.Begin(&w, &attempt.Attempt{View: side.For(sv, &to), To: to}, 50, status, header.List{{Name: "content-type", Value: header.JSON}})
	for chunk := range slices.Chunk([]byte(body), n) {
		a.Feed(t.Context(), chunk, false)
	}
	a.Feed(t.Context(), nil, true)
	return a
}

// TestAnswersToSideCallsAreReadInEveryFormat: text, usage, and the reason if there is none.
func TestAnswersToSideCallsAreReadInEveryFormat(t *testing.T) {
	const openAI = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%},"finish_reason":"%"}],"usage":{"prompt_tokens":12,"completion_tokens":3}}`
	said := func(content, stop string) string {
		return strings.Replace(strings.Replace(openAI, "%", content, 1), "%", stop, 1)
	}
	claude := `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":" It is so. "}],"stop_reason":"end_turn","usage":{"input_tokens":12,"output_tokens":3}}`
	for _, row := range []struct {
		about    string
		adapter  provider.Adapter
		dialect  chat.Dialect
		status   int
		body     string
		text     string
		complete bool
		failed   bool
	}{
		{"openai", custom.Adapter{}, chat.OpenAI, 200, said(`" It is so. "`, "stop"), "It is so.", true, false},
		{"anthropic", anthropic.Adapter{}, chat.Anthropic, 200, claude, "It is so.", true, false},
		{"its limit was reached", custom.Adapter{}, chat.OpenAI, 200, said(`"It is"`, "length"), "It is", false, false},
		{"an error in it", custom.Adapter{}, chat.OpenAI, 200, `{"error":{"message":"no","type":"server_error"}}`, "", false, true},
		{"far too long", custom.Adapter{}, chat.OpenAI, 200, said(`"`+strings.Repeat("long ", 1000)+`"`, "stop"), "", false, true},
	} {
		for _, n := range []int{1, 7, 1 << 20} {
			a := read(t, row.adapter, row.dialect, row.status, n, row.body)
			if a.Text() != row.text || a.Complete() != row.complete || (a.Failure() != nil) != row.failed {
				t.Errorf("%s in pieces of %d: %.40q, complete: %v, %v", row.about, n, a.Text(), a.Complete(), a.Failure())
			}
			if u := a.Count.Total(99); row.text != "" && (u.Input != 12 || u.Output != 3) {
				t.Errorf("%s: %+v", row.about, u)
			}
		}
	}
	refused := read(t, custom.Adapter{}, chat.OpenAI, 429, 1<<20, `{"error":{"message":"slow down","type":"rate_limit"}}`)
	if e := refused.Refusal(429); e.Status != 429 || e.Message != "slow down" {
		t.Errorf("%+v", e)
	}
}

// TestADearerModelIsNotCalledThanTheAnswerIsWorth: even after the cheaper ones have failed.
func TestADearerModelIsNotCalledThanTheAnswerIsWorth(t *testing.T) {
	v := view(t, at("expensive", "big"))
	c := &pipeline.SideCall{Text: strings.Repeat("x", 35_000), MaxTokens: 100, Quality: policy.QualityLow} // 10,100 tokens are expected, 35,164 possible
	for _, row := range []struct {
		worth, most policy.Pico
		want        string
	}{
		{0, 0, "cheap/tiny quiet/hush quiet/calm expensive/small"},
		{10_100_000_000, 0, "cheap/tiny"},
		{25_000_000_000, 0, "cheap/tiny quiet/hush quiet/calm"},
		{0, 40_000_000_000, "cheap/tiny"},
		{1, 0, ""},
	} {
		if c.Worth, c.MaxCost = row.worth, row.most; names(side.Candidates(v, c)) != row.want {
			t.Errorf("%d, %d: %q, want %q", row.worth, row.most, names(side.Candidates(v, c)), row.want)
		}
	}
}
