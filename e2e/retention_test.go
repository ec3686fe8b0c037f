package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// privacyLab is a gateway with Venice, a second private provider where wanted, and an ordinary one, all with the same model.
type privacyLab struct {
	*gateway.Gateway

	venice, second, open *fake.Server
	events               string // file
}

// privateModel is the model of each provider, the dearer the later that provider is.
func privateModel(price int) string {
	return fmt.Sprintf("{id: shared, price: {input: %d, output: %d}, capabilities: [tools]}", price, 2*price)
}

func runPrivacyLab(t *testing.T, second string) *privacyLab {
	t.Helper()
	l := &privacyLab{
		venice: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice}),
		second: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"}),
		open:   fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "open"}),
		events: filepath.Join(t.TempDir(), "events.jsonl"),
	}
	l.Gateway = gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
providers:
  order: [venice, second, open]
  venice: {base_url: %q, api_key: %s, models: [%s]}
  custom:
    - {id: second, endpoints: [%q], api_key: %s, models: [%s]%s}
    - {id: open, endpoints: [%q], api_key: %s, models: [%s]}
`, l.events, l.venice.URL, l.venice.Key, privateModel(1), l.second.URL, l.second.Key, privateModel(2), second, l.open.URL, l.open.Key, privateModel(3))})
	return l
}

// saw reports whether the file of events has something.
func (l *privacyLab) saw(what string) bool {
	b, err := os.ReadFile(l.events)
	return err == nil && strings.Contains(string(b), what)
}

const isPrivate = "X-Bardo-Security-Class: private"

// contrary are answers whose headers do not confirm that nothing is retained, with the reason.
var contrary = []struct {
	about  string
	header []string
	why    string
}{
	{"neither header", []string{"-X-Venice-Privacy-Level", "-X-Venice-Retention-Policy"}, "x-venice-privacy-level is missing"},
	{"no level", []string{"-X-Venice-Privacy-Level"}, "x-venice-privacy-level is missing"},
	{"no policy", []string{"-X-Venice-Retention-Policy"}, "x-venice-retention-policy is missing"},
	{"another level", []string{"-X-Venice-Privacy-Level", "X-Venice-Privacy-Level: anonymized"}, "x-venice-privacy-level says otherwise"},
	{"another policy", []string{"-X-Venice-Retention-Policy", "X-Venice-Retention-Policy: 30d"}, "x-venice-retention-policy says otherwise"},
	{"an empty policy", []string{"-X-Venice-Retention-Policy", "X-Venice-Retention-Policy:"}, "x-venice-retention-policy says otherwise"},
	{"a second policy that contradicts the first", []string{"X-Venice-Retention-Policy: 30d"}, "x-venice-retention-policy says otherwise"},
	{"both policies in one line", []string{"-X-Venice-Retention-Policy", "X-Venice-Retention-Policy: none, 30d"}, "x-venice-retention-policy says otherwise"},
}

// privateAsks are the forms of a request for a completion.
var privateAsks = []ask{
	{dialect: fake.OpenAI, model: "shared"},
	{dialect: fake.OpenAI, model: "shared", stream: true},
	{dialect: fake.Anthropic, model: "shared"},
	{dialect: fake.Anthropic, model: "shared", stream: true},
}

// TestP07AnAnswerThatDoesNotConfirmItsRetentionIsDiscarded: of a private request, in every form; the client gets 503 and no byte of the answer, pays nothing,
// and no other provider sees the request. The event and the record name the reason.
func TestP07AnAnswerThatDoesNotConfirmItsRetentionIsDiscarded(t *testing.T) {
	t.Parallel()
	l := runPrivacyLab(t, "")
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	const planted = "PLANTED-ANSWER"
	for _, row := range contrary {
		for _, a := range privateAsks {
			l.venice.Forget()
			l.venice.Behave(fake.Behaviour{Text: planted, Header: row.header})
			got := l.Do(t, a.with(key, isPrivate))
			if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "no_private_provider") || strings.Contains(got.Body, planted) || !strings.Contains(got.Body, row.why) {
				t.Errorf("%s, %s: %d %s", row.about, a.form(), got.Status, got.Body)
			}
			if a.dialect == fake.OpenAI && !strings.Contains(got.Body, `"details":{"error":"VeniceRetentionError"}`) {
				t.Errorf("%s: the error is %s", row.about, got.Body)
			}
			if n := len(l.venice.Generations()); n != 1 {
				t.Errorf("%s, %s: Venice was called %d times", row.about, a.form(), n)
			}
			id := got.Header.Get("X-Request-Id")
			eventually(t, "the event of "+id, func() bool {
				return l.saw(`"event":"venice:retention_error"`) && l.saw(`"request_id":"`+id+`","subsystem":"","provider":"venice","model":"shared","error":"VeniceRetentionError","reason":"`+row.why+`"`)
			})
		}
	}
	if n := len(l.second.Generations()) + len(l.open.Generations()); n != 0 {
		t.Errorf("%d private requests reached a provider that is not private", n)
	}
	if left := settledBalance(t, l.Gateway, key); left != 1_000_000 {
		t.Errorf("%d millionths are left of 1000000: a discarded answer was charged", left)
	}
	if l.saw(planted) {
		t.Error("an event has a part of an answer")
	}
	l.AssertSound(t)
}

// TestP07TheNextPrivateProviderAnswers, or the next of any kind where privacy is only preferred.
func TestP07TheNextPrivateProviderAnswers(t *testing.T) {
	t.Parallel()
	l := runPrivacyLab(t, ", private: true")
	l.venice.Behave(fake.Behaviour{Text: "PLANTED-ANSWER", Header: []string{"-X-Venice-Retention-Policy"}})
	for _, a := range privateAsks {
		got := served(t, l.Gateway, a, isPrivate)
		if strings.Contains(got.Body, "PLANTED-ANSWER") || got.Header.Get("X-Bardo-Provider") != "second" {
			t.Errorf("%s: by %s: %s", a.form(), got.Header.Get("X-Bardo-Provider"), got.Body)
		}
		if r := recordOf(t, l.Gateway, got); r.Provider != "second" || r.Attempts != 2 {
			t.Errorf("%s: the record is %+v", a.form(), r)
		}
	}
	l.second.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	for _, a := range privateAsks {
		mustFail(t, a, l.Do(t, a.call(isPrivate)), http.StatusServiceUnavailable, "no_private_provider")
	}
	if n := len(l.open.Generations()); n != 0 {
		t.Errorf("%d private requests reached a provider that is not private", n)
	}
	for _, a := range privateAsks {
		if got := served(t, l.Gateway, a, "X-Bardo-Prefer: privacy"); got.Header.Get("X-Bardo-Provider") != "open" || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "privacy") {
			t.Errorf("%s, preferred: %v", a.form(), got.Header)
		}
	}
}

// TestP07NothingGoesOutBeforeTheHeadWasChecked: a stream whose first content comes late, from a provider that does not confirm its retention, has no part in
// what the client gets from the next one, heartbeats included.
func TestP07NothingGoesOutBeforeTheHeadWasChecked(t *testing.T) {
	t.Parallel()
	l := runPrivacyLab(t, ", private: true")
	l.venice.Behave(fake.Behaviour{Tokens: 50, Gap: 20 * time.Millisecond, Header: []string{"-X-Venice-Privacy-Level"}})
	for _, a := range privateAsks {
		got := served(t, l.Gateway, a, isPrivate)
		if strings.Contains(got.Body, "tok0") || text(t, a, got) != "Hello from the fake provider." {
			t.Errorf("%s: %s", a.form(), got.Body)
		}
	}
}

// TestP07WhatConfirmsItsRetentionPasses, and what asks for no privacy is not checked.
func TestP07WhatConfirmsItsRetentionPasses(t *testing.T) {
	t.Parallel()
	l := runPrivacyLab(t, "")
	for _, a := range privateAsks {
		if got := served(t, l.Gateway, a, isPrivate); got.Header.Get("X-Bardo-Provider") != "venice" || got.Header.Get("X-Bardo-Attempts") != "1" {
			t.Errorf("%s: %v", a.form(), got.Header)
		}
	}
	l.venice.Behave(fake.Behaviour{Header: []string{"-X-Venice-Privacy-Level", "-X-Venice-Retention-Policy"}})
	for _, a := range privateAsks {
		a.model = "venice/shared"
		if got := served(t, l.Gateway, a); got.Header.Get("X-Bardo-Provider") != "venice" {
			t.Errorf("%s: %v", a.form(), got.Header)
		}
		for _, asks := range []string{"X-Bardo-Privacy-Tier: private", "X-Bardo-Task-Class: judge", "X-Bardo-Require: no_log", "X-Bardo-Subsystem: dream"} {
			mustFail(t, a, l.Do(t, a.call(asks)), http.StatusServiceUnavailable, "no_private_provider")
		}
	}
}

// TestP07OtherEndpointsCheckRetentionToo: embeddings and images; and agents have them of Venice when their owner wants it (P-17).
func TestP07OtherEndpointsCheckRetentionToo(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  venice:
    base_url: %q
    api_key: %s
    multimodal: {embeddings: false, image_generation: true}
    models:
      - {id: vectors, price: {input: 1, output: 0}, capabilities: [embeddings]}
      - {id: painter, price: {per_image: 0.01}, capabilities: [image_generation]}
`, p.URL, p.Key)})
	calls := map[string]gateway.Call{
		"embeddings": embeds(`{"model":"vectors","input":["a"]}`),
		"images":     {Path: "/v1/images/generations", Body: `{"model":"painter","prompt":"a cat"}`, Header: []string{"content-type: application/json"}},
	}
	for name, c := range calls {
		p.Behave(fake.Behaviour{})
		c.Header = append(c.Header, isPrivate)
		if got := g.Do(t, c); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
		p.Behave(fake.Behaviour{Header: []string{"-X-Venice-Retention-Policy"}})
		p.BehaveOn("/images/generations", fake.Behaviour{Header: []string{"-X-Venice-Retention-Policy"}})
		if got := g.Do(t, c); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "no_private_provider") {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	p.Behave(fake.Behaviour{})
	p.BehaveOn("/images/generations", fake.Behaviour{})
	assertOccasions(t, g, p, calls)
}

// posts is how many requests a provider got, besides those for its list of models.
func posts(p *fake.Server) (n int) {
	for _, r := range p.Requests() {
		if r.Method == http.MethodPost {
			n++
		}
	}
	return n
}

// assertOccasions: without its occasion, an agent's request reaches nobody.
func assertOccasions(t *testing.T, g *gateway.Gateway, p *fake.Server, calls map[string]gateway.Call) {
	t.Helper()
	for _, row := range []struct {
		call   string
		header []string
		why    string // "": it is served
	}{
		{"embeddings", nil, "multimodal.embeddings"},
		{"images", nil, "last dream cycle"},
		{"images", []string{"X-Bardo-Phase: terminal"}, "last dream cycle"},
		{"images", []string{"X-Bardo-Phase: declining", "X-Bardo-Dream-Cycle-Id: d"}, "last dream cycle"},
		{"images", []string{"X-Bardo-Phase: terminal", "X-Bardo-Dream-Cycle-Id: d"}, ""},
	} {
		before, c := posts(p), calls[row.call]
		c.Header = append(append(slices.Clip(c.Header), "X-Bardo-Golem-Id: g"), row.header...)
		got := g.Do(t, c)
		if served := posts(p) - before; row.why == "" && (got.Status != http.StatusOK || served != 1) ||
			row.why != "" && (got.Status != http.StatusBadRequest || !strings.Contains(got.Body, row.why) || served != 0) {
			t.Errorf("%s with %q: %d calls, %d %s", row.call, row.header, served, got.Status, got.Body)
		}
	}
}
