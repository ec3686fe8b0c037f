package hashcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/hashcache"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

func exchange(t testing.TB, op chat.Op, more string, h ...header.Field) *pipeline.Exchange {
	t.Helper()
	body := `{"model":"m",` + more + `"messages":[{"role":"user","content":"hi"}]}`
	r, err := openai.Dialect{}.Decode(op, h, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{Request: r, Header: h, Principal: policy.Principal{Account: "a"}}
}

func own(value string) header.Field { return header.Field{Name: cache.Header, Value: value} }

func TestD32CacheableRequests(t *testing.T) {
	for _, tt := range []struct {
		mode hashcache.Mode
		op   chat.Op
		more string
		h    []header.Field
		want bool
	}{
		{more: ``, want: false},
		{more: `"temperature":0,`, want: true},
		{more: `"temperature":0.3,`, want: true},
		{more: `"temperature":0.30000001,`, want: false},
		{more: `"temperature":null,`, want: false},
		{more: `"temperature":"0",`, want: false},
		{more: `"temperature":0,"reasoning_effort":"high",`, want: false},
		{more: `"temperature":0,"reasoning_effort":"none",`, want: true},
		{more: `"temperature":1,`, h: []header.Field{own("force")}, want: true},
		{more: `"temperature":1,`, h: []header.Field{own("no-store")}, want: false},
		{more: `"temperature":0,`, h: []header.Field{own("off")}, want: false},
		{more: `"temperature":0,`, h: []header.Field{own("force"), own("off")}, want: false},
		{more: `"temperature":0,`, op: chat.CountTokens, want: false},
		{more: ``, op: chat.CountTokens, h: []header.Field{own("force")}, want: false},
		{mode: hashcache.On, more: `"temperature":0,`, want: true},
		{mode: hashcache.All, more: ``, want: true},
		{mode: hashcache.All, more: ``, h: []header.Field{own("off")}, want: false},
		{mode: hashcache.All, more: ``, op: chat.CountTokens, want: false},
		{mode: hashcache.Off, more: `"temperature":0,`, want: false},
		{mode: hashcache.Off, more: ``, h: []header.Field{own("force")}, want: false},
	} {
		t.Run(fmt.Sprintf("%s %d %s %v", tt.mode, tt.op, tt.more, tt.h), func(t *testing.T) {
			x := exchange(t, tt.op, tt.more, tt.h...)
			err := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{}), Mode: tt.mode}).Request(t.Context(), x)
			if got := x.Cache != nil; err != nil || got != tt.want {
				t.Errorf("fit: %v, %v", got, err)
			}
		})
	}
}

// TestD32TheEffectiveTemperatureDecides: the profile's if the client sets none, and a locked one instead of the client's.
func TestD32TheEffectiveTemperatureDecides(t *testing.T) {
	for _, tt := range []struct {
		more    string
		profile chat.Profile
		want    bool
	}{
		{"", chat.Profile{Default: chat.Params{Temperature: "0.3"}}, true},
		{"", chat.Profile{Default: chat.Params{Temperature: "0.31"}}, false},
		{"", chat.Profile{}, false},
		{`"temperature":1,`, chat.Profile{Default: chat.Params{Temperature: "0.3"}}, false},
		{`"temperature":0,`, chat.Profile{Default: chat.Params{Temperature: "1"}}, true},
		{`"temperature":0,`, chat.Profile{Locked: chat.Params{Temperature: "0.7"}}, false},
		{`"temperature":1,`, chat.Profile{Locked: chat.Params{Temperature: "0.1"}}, true},
	} {
		t.Run(fmt.Sprintf("%s %s %s", tt.more, tt.profile.Default.Temperature, tt.profile.Locked.Temperature), func(t *testing.T) {
			x := exchange(t, chat.Generate, tt.more)
			x.Request.Profile = &tt.profile
			err := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{})}).Request(t.Context(), x)
			if got := x.Cache != nil; err != nil || got != tt.want {
				t.Errorf("fit: %v, %v", got, err)
			}
		})
	}
}

// TestD32AnEffortOfTheProfile: answers with a low effort are stored; those with a high effort are not, unless the client sets a temperature or the model ignores
// the effort.
func TestD32AnEffortOfTheProfile(t *testing.T) {
	params := func(temperature, effort string) chat.Params {
		return chat.Params{Temperature: temperature, Effort: effort}
	}
	for _, tt := range []struct {
		about, more, reasoning string
		profile                chat.Profile
		want                   bool
	}{
		{"a heartbeat", "", "", chat.Profile{Default: params("0.3", "low")}, true},
		{"a locked one", "", "", chat.Profile{Locked: params("0.1", "medium")}, true},
		{"a high effort", "", "", chat.Profile{Default: params("0.3", "high")}, false},
		{"a locked high effort", `"temperature":0,`, "", chat.Profile{Locked: params("0.1", "high")}, false},
		{"the client's temperature", `"temperature":0,`, "", chat.Profile{Default: params("0.7", "high")}, true},
		{"a model that drops the effort", "", "none", chat.Profile{Default: params("0.3", "max")}, true},
		{"the client's effort", `"reasoning_effort":"low",`, "", chat.Profile{Default: params("0.3", "")}, false},
		{"the client disables reasoning", `"reasoning_effort":"none",`, "", chat.Profile{Default: params("0.3", "")}, true},
	} {
		t.Run(tt.about, func(t *testing.T) {
			x := exchange(t, chat.Generate, tt.more)
			x.Request.Profile, x.Found = &tt.profile, []policy.Resolution{{Reasoning: tt.reasoning}}
			effort := tt.profile.Default.Effort + tt.profile.Locked.Effort
			x.Request.Thinking = x.Request.Thinking || effort != ""
			x.Request.HighEffort = effort == "high" || effort == "max"
			err := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{})}).Request(t.Context(), x)
			if got := x.Cache != nil; err != nil || got != tt.want {
				t.Errorf("fit: %v, %v", got, err)
			}
		})
	}
}

func TestAnInvalidHeaderIsNamed(t *testing.T) {
	err := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{})}).Request(t.Context(), exchange(t, chat.Generate, "", own("yes")))
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.InvalidRequest || !strings.Contains(f.Public, `X-Bardo-Cache: "yes"`) {
		t.Errorf("error is %v", err)
	}
}

// answer passes an answer's events through the layers.
func answer(t testing.TB, x *pipeline.Exchange) {
	t.Helper()
	x.Served = &cache.Served{By: policy.Resolution{Model: "m"}}
	for _, ev := range []chat.Event{{Kind: chat.Start}, {Kind: chat.Text, Text: []byte("hello")}, {Kind: chat.Stop, Reason: chat.StopEnd}, {Kind: chat.End}} {
		evs, err := x.Response(t.Context(), &ev)
		if err != nil || len(evs) != 1 || evs[0].Kind != ev.Kind {
			t.Fatalf("%v passes as %v, %v", ev, evs, err)
		}
	}
}

func TestAnAnswerIsStoredAndFound(t *testing.T) {
	p := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{}), TTL: time.Minute})
	run := func(h ...header.Field) *pipeline.Exchange {
		x := exchange(t, chat.Generate, `"temperature":0,`, h...)
		if err := p.Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := run(own("no-store"))
	if x.Answer != nil || x.Watched() {
		t.Error("an answer that may not be kept is watched")
	}
	x = run()
	if x.Answer != nil || !x.Watched() {
		t.Fatal("it is known before it was answered")
	}
	answer(t, x)
	if x = run(); x.Answer == nil || x.Answer.By.Model != "m" || x.Watched() {
		t.Errorf("found %+v, watched: %v", x.Answer, x.Watched())
	}
	if x = run(own("no-cache")); x.Answer != nil || !x.Watched() {
		t.Error("a caller that wants a new answer gets the old one")
	}
	x = exchange(t, chat.Generate, `"temperature":0,`)
	x.Hints.NoCache = true
	if err := p.Request(t.Context(), x); err != nil || x.Answer != nil || !x.Watched() {
		t.Errorf("a caller that hints at it gets the old one: %v", err)
	}
}

func TestD30AttestedAnswersAreNeitherStoredNorServed(t *testing.T) {
	p := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{}), TTL: time.Minute})
	for _, tier := range []policy.PrivacyTier{policy.PrivacyUnset, policy.PrivacyNoLog, policy.PrivacyTEE, policy.PrivacyEndToEnd} {
		x := exchange(t, chat.Generate, `"temperature":0,`)
		x.Principal.Account, x.Intent.PrivacyTier = "a", tier
		if err := p.Request(t.Context(), x); err != nil || (x.Cache != nil) != (tier < policy.PrivacyTEE) {
			t.Errorf("%s: %v, %v", tier, x.Cache != nil, err)
		}
	}
}

func TestD05ClientsWithoutAKeyShareNothingConfidential(t *testing.T) {
	p := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{}), TTL: time.Minute})
	for _, class := range []policy.SecurityClass{policy.SecurityStandard, policy.SecurityConfidential, policy.SecurityPrivate} {
		for _, account := range []policy.Account{"", "a"} {
			x := exchange(t, chat.Generate, `"temperature":0,`)
			x.Principal.Account, x.Hints.SecurityClass = account, class
			if err := p.Request(t.Context(), x); err != nil || (x.Cache != nil) != (account != "" || class == policy.SecurityStandard) {
				t.Errorf("%s of %q: %v, %v", class, account, x.Cache != nil, err)
			}
		}
	}
	for _, account := range []policy.Account{"", "a"} { // a tier: the memory of its own key alone (D-30)
		x := exchange(t, chat.Generate, `"temperature":0,`)
		x.Principal.Account, x.Intent.PrivacyTier = account, policy.PrivacyNoLog
		if err := p.Request(t.Context(), x); err != nil || (x.Cache != nil) != (account != "") || x.Cache != nil && !x.Cache.Private {
			t.Errorf("the tier private of %q: %+v, %v", account, x.Cache, err)
		}
	}
}

// TestUncacheableRequestsAllocateNothing: an uncacheable request allocates nothing in the layer, before or after the call.
func TestUncacheableRequestsAllocateNothing(t *testing.T) {
	p := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{})})
	x := exchange(t, chat.Generate, `"temperature":0.7,`, header.Field{Name: "authorization", Value: "Bearer x"})
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Request(t.Context(), x); err != nil || x.Watched() || len(x.Log) != 0 {
			t.Fatal("it has to do with the cache")
		}
	}); n > 1 { // t.Context() is the test's own
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	p := pipeline.New(hashcache.Layer{Store: cache.New(cache.Options{}), TTL: time.Hour})
	turn := `{"role":"user","content":"` + strings.Repeat("a parcel is on its way. ", 80) + `"}`
	for name, more := range map[string]string{
		"not fit":          `"temperature":0.7,`,
		"a hit of 2 kB":    `"temperature":0,"bardo":"` + strings.Repeat("x", 1) + `",`,
		"a hit of 100 kB":  `"temperature":0,"tools":[{"type":"function","function":{"name":"f","description":"` + strings.Repeat("a parcel is on its way. ", 4000) + `"}}],`,
		"a hit, not plain": `"temperature":0,"logprobs":true,`,
	} {
		b.Run(name, func(b *testing.B) {
			body := []byte(`{"model":"m",` + more + `"messages":[` + turn + `]}`)
			decode := func() *pipeline.Exchange {
				r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", body)
				if err != nil {
					b.Fatal(err)
				}
				return &pipeline.Exchange{Request: r}
			}
			first := decode()
			if err := p.Request(context.Background(), first); err != nil {
				b.Fatal(err)
			}
			if first.Watched() {
				answer(b, first)
			}
			x := decode()
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				x.Request.Conv, x.Log, x.Answer = nil, nil, nil
				if err := p.Request(context.Background(), x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
