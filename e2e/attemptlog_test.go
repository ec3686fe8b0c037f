package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// loggedAttempt is an attempt in a request's record.
type loggedAttempt struct {
	Provider   string
	Outcome    string
	Reason     string
	Next       string
	NextReason string `json:"next_reason"`
}

func attemptLog(t testing.TB, g *gateway.Gateway, got gateway.Answer) []loggedAttempt {
	t.Helper()
	var r struct {
		Log []loggedAttempt `json:"attempt_log"`
	}
	get(t, g, g.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
	return r.Log
}

// saysWhy fails unless each attempt but one that answered says why it ended and what was done then.
func saysWhy(t testing.TB, log []loggedAttempt) {
	t.Helper()
	for i, a := range log {
		if answered := a.Outcome == "ok"; answered != (a.Reason == "") || answered != (a.Next == "") || answered != (a.NextReason == "") {
			t.Errorf("attempt %d of the record: %+v", i+1, a)
		}
	}
}

// calledLast fails unless the record and the log of a request name who was called last, and how often somebody was.
func calledLast(t testing.TB, g *gateway.Gateway, got gateway.Answer, log []loggedAttempt) {
	t.Helper()
	type named struct {
		Request, Provider, Model string
		Attempts                 int
	}
	id, last := got.Header.Get("X-Request-Id"), log[len(log)-1].Provider
	var r named
	get(t, g, g.Key, "/v1/requests/"+id, &r)
	if r.Provider != last || r.Model != "m" || r.Attempts != len(log) {
		t.Errorf("the record names %+v, and %s was called last, in attempt %d", r, last, len(log))
	}
	polltest.Until(t, "the line of the request", func() bool { return strings.Contains(g.Log(), `"request":"`+id) })
	_, text, _ := strings.Cut(g.Log(), `"request":"`+id)
	line, _, _ := strings.Cut(text, "\n")
	if want := fmt.Sprintf(`"provider":"%s","model":"m","attempts":%d,`, last, len(log)); !strings.Contains(line, want) {
		t.Errorf("the log has %s, want %s", line, want)
	}
}

// TestTheRecordSaysWhyEachAttemptEnded, and why the next one was made or was not.
func TestTheRecordSaysWhyEachAttemptEnded(t *testing.T) {
	t.Parallel()
	const prompt = "the launch code is 8261"
	busy := &fake.Raw{Status: http.StatusOK, Header: []string{"content-type: application/json"}, Body: "busy, please wait"}
	for name, row := range map[string]struct {
		first, second fake.Behaviour
		alone         bool
		want          []string // "provider outcome next", of each attempt
		why           string   // a part of the last one's next_reason
	}{
		"another candidate": {first: fake.Behaviour{Status: 503}, want: []string{"first status_503 next_candidate", "second ok "}},
		"the caller's mistake": {
			first: fake.Behaviour{Status: 400}, want: []string{"first status_400 stop"}, why: "refused the request itself",
		},
		"no candidate is left": {
			first: fake.Behaviour{Status: 503}, second: fake.Behaviour{Status: 500}, want: []string{"first status_503 next_candidate", "second status_500 stop"},
			why: "no other candidate",
		},
		"what is no answer, then another candidate": {first: fake.Behaviour{Raw: busy}, want: []string{"first invalid_answer next_candidate", "second ok "}},
		"what is no answer, by the only one":        {first: fake.Behaviour{Raw: busy}, alone: true, want: []string{"first invalid_answer repeat", "first invalid_answer stop"}, why: "no other candidate"},
		"the only one's limit":                      {first: fake.Behaviour{Status: 429}, alone: true, want: []string{"first status_429 stop"}, why: "no other candidate"},
		"the only one again":                        {first: fake.Behaviour{Status: 503}, alone: true, want: []string{"first status_503 repeat", "first status_503 stop"}, why: "no other candidate"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: ", streamed"}[stream], func(t *testing.T) {
				t.Parallel()
				first, second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
				first.Behave(row.first)
				second.Behave(row.second)
				o := gateway.Options{Config: loudly, Providers: []gateway.Provider{
					{ID: "first", Fake: first, Models: models("m", "m")}, {ID: "second", Fake: second, Models: models("m", "m")},
				}}
				if row.alone {
					o.Providers = o.Providers[:1]
				}
				g := gateway.Run(t, o)
				got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream, say: prompt}.call())
				log := attemptLog(t, g, got)
				var have []string
				for _, a := range log {
					have = append(have, a.Provider+" "+a.Outcome+" "+a.Next)
				}
				if strings.Join(have, "; ") != strings.Join(row.want, "; ") {
					t.Fatalf("status %d, attempts %q, want %q", got.Status, have, row.want)
				}
				saysWhy(t, log)
				calledLast(t, g, got, log)
				if last := log[len(log)-1]; !strings.Contains(last.NextReason, row.why) {
					t.Errorf("it says %q, want %q", last.NextReason, row.why)
				}
				if r := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/requests/" + got.Header.Get("X-Request-Id")}); strings.Contains(r.Body, "launch code") {
					t.Errorf("the record quotes the prompt: %s", r.Body)
				}
			})
		}
	}
}

// TestTheRecordOfARefusedConnection: of the attempts that Envoy makes by itself it says of the last one alone why no answer came.
func TestTheRecordOfARefusedConnection(t *testing.T) {
	t.Parallel()
	only := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "only"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "only", Fake: only, Models: models("m", "m")}}})
	only.Stop() // not before: one that never listened is known to be down
	for stream, want := range map[bool][]string{false: {"no_answer: no answer came", "connect: no connection: connection refused"}, true: {"connect: no connection: connection refused", "connect: no connection: connection refused"}} {
		log := attemptLog(t, g, g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call()))
		var have []string
		for _, a := range log {
			have = append(have, a.Outcome+": "+a.Reason)
		}
		if !slices.EqualFunc(have, want, strings.HasPrefix) {
			t.Errorf("stream %v: attempts %q, want %q", stream, have, want)
		}
		saysWhy(t, log)
	}
	if m := g.Metrics(t); m.Sum("bardo_attempts_total", `outcome="reset"`) != 0 || m.Sum("bardo_attempts_total", `outcome="no_answer"`) != 1 {
		t.Errorf("%v were counted as reset, %v as without an answer", m.Sum("bardo_attempts_total", `outcome="reset"`), m.Sum("bardo_attempts_total", `outcome="no_answer"`))
	}
}

// TestARefusedStreamFailsOver in every format, and says why: with data_path: module, too.
func TestARefusedStreamFailsOver(t *testing.T) {
	t.Parallel()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			first, second := fake.Start(t, fake.Config{Dialect: d, Name: "first"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
			g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
				{ID: "first", Fake: first, Format: string(d), Models: append(models("m", "m"), models("alone", "alone")...)}, {ID: "second", Fake: second, Models: models("m", "m")},
			}})
			first.Stop()
			const refused = "first connect no connection: connection refused"
			for _, row := range []struct {
				model  string
				status int
				want   []string
			}{{"m", http.StatusOK, []string{refused, refused, "second ok "}}, {"alone", http.StatusBadGateway, []string{refused, refused}}} {
				got := g.Do(t, ask{dialect: d, model: row.model, stream: true}.call())
				var have []string
				for _, a := range attemptLog(t, g, got) {
					have = append(have, a.Provider+" "+a.Outcome+" "+a.Reason)
				}
				if got.Status != row.status || !slices.Equal(have, row.want) {
					t.Errorf("%s: %d, attempts %q, want %q: %s", row.model, got.Status, have, row.want, got.Body)
				}
			}
			if m := g.Metrics(t); m.Sum("bardo_attempts_total", `outcome="refused"`, `provider="first"`) != 4 || m.Sum("bardo_attempts_total", `outcome="reset"`) != 0 {
				t.Errorf("%v were counted as refused", m.Sum("bardo_attempts_total", `outcome="refused"`, `provider="first"`))
			}
		})
	}
}
