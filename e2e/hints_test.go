package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// bardoWords are in every body of these tests, and in none that a provider may see.
const bardoWords = "hush-hush"

// hinted puts hints into a body, before another member.
func hinted(hints string) string {
	return `"bardo":` + hints + `,"temperature":1`
}

func TestD03HintsOfHeadersAndBodies(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	for _, r := range []struct {
		about, hints string
		header       []string
		subsystem    string
	}{
		{"in a header", `{}`, []string{"X-Bardo-Subsystem: risk"}, "risk"},
		{"in the body", `{"subsystem":"dream_rem","golem_id":"` + bardoWords + `"}`, nil, "dream_rem"},
		{"the header wins", `{"subsystem":"dream_rem"}`, []string{"X-Bardo-Subsystem: risk", "X-Bardo-Vitality: 0.4"}, "risk"},
		{"another part", `{"subsystem":"other"}`, nil, "other"},
		{
			"all kinds", `{"subsystem":"heartbeat_t2","tick":7,"scenario":{"entities":["` + bardoWords + `"]},"require":[],"no_cache":true}`,
			[]string{"X-Bardo-Prefer: tools", `X-Bardo-Profile: {"temperature":0.5}`, "X-Bardo-Phase: Desperate"},
			"heartbeat_t2",
		},
	} {
		for _, a := range both {
			t.Run(fmt.Sprintf("%s to %s, stream=%v", r.about, a.dialect, a.stream), func(t *testing.T) {
				a.more = hinted(r.hints)
				got := g.Do(t, a.call(r.header...))
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Warning") != "" {
					t.Fatalf("status %d, warning %q: %s", got.Status, got.Header.Get("X-Bardo-Warning"), got.Body)
				}
				if s := got.Header.Get("X-Bardo-Subsystem"); s != r.subsystem {
					t.Errorf("X-Bardo-Subsystem: %q", s)
				}
				if b := billOf(t, g, g.Key, got.Header.Get("X-Request-Id")); b.Subsystem != r.subsystem {
					t.Errorf("record %+v", b)
				}
				seen := lastOf(t, p)
				if strings.Contains(string(seen.Body), `"bardo"`) || p.Saw(bardoWords) {
					t.Errorf("the provider saw %s", seen.Body)
				}
				for name := range seen.Header {
					if strings.HasPrefix(name, "X-Bardo-") {
						t.Errorf("the provider saw the header %s", name)
					}
				}
			})
		}
	}
}

// TestD03HintsDoNotCross: a request that is rewritten for another format loses its hints too.
func TestD03HintsDoNotCross(t *testing.T) {
	t.Parallel()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: "p"})
		g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Format: string(d), Models: models("m", "up")}}})
		for _, client := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			a := ask{dialect: client, model: "m", more: hinted(`{"subsystem":"curator","golem_id":"` + bardoWords + `"}`)}
			got := g.Do(t, a.call())
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Subsystem") != "curator" || p.Saw(bardoWords) || p.Saw(`"bardo"`) {
				t.Errorf("%s to %s: status %d, %q: %s", client, d, got.Status, got.Header.Get("X-Bardo-Subsystem"), got.Body)
			}
			if d := got.Header.Get("X-Bardo-Degraded"); strings.Contains(d, "bardo") {
				t.Errorf("the hints count as lost: %s", d)
			}
		}
	}
}

func TestD03InvalidHintsAreRefusedByName(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	for _, r := range []struct{ header, hints, want string }{
		{"X-Bardo-Vitality: 1.5", "", "X-Bardo-Vitality"},
		{"X-Bardo-Require: privacyy", "", "did you mean privacy?"},
		{"X-Bardo-Security-Class: secret", "", "X-Bardo-Security-Class"},
		{"X-Bardo-Profile: {", "", "X-Bardo-Profile"},
		{"", `{"phase":"dying"}`, "bardo.phase"},
		{"", `{"profile":{"top_k":0}}`, "bardo.profile.top_k"},
		{"", `{"tick":"7"}`, "bardo.tick"},
		{"", `"static"`, "bardo"},
	} {
		for _, a := range both {
			t.Run(fmt.Sprintf("%s%s to %s, stream=%v", r.header, r.hints, a.dialect, a.stream), func(t *testing.T) {
				var header []string
				if r.header != "" {
					header = []string{r.header}
				} else {
					a.more = hinted(r.hints)
				}
				before := len(p.Generations())
				got := g.Do(t, a.call(header...))
				mustFail(t, a, got, http.StatusBadRequest, "invalid_request")
				if !strings.Contains(got.Body, r.want) {
					t.Errorf("%s does not name %s", got.Body, r.want)
				}
				if len(p.Generations()) != before {
					t.Error("a provider was asked")
				}
			})
		}
	}
}

func TestD03UnknownHintsAreReported(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	for _, a := range both {
		t.Run(fmt.Sprintf("%s, stream=%v", a.dialect, a.stream), func(t *testing.T) {
			a.more = hinted(`{"subsystm":"risk"}`)
			got := g.Do(t, a.call("X-Bardo-Golem: 7", "X-Bardo-Replay: fast", "X-Bardo-Cache: off"))
			w := got.Header.Get("X-Bardo-Warning")
			if got.Status != http.StatusOK || !strings.Contains(w, "X-Bardo-Golem") || !strings.Contains(w, "bardo.subsystm (did you mean subsystem?)") ||
				strings.Contains(w, "Replay") || strings.Contains(w, "Cache") {
				t.Errorf("status %d, warning %q", got.Status, w)
			}
		})
	}
}

// TestAnUnknownSubsystemIsReported, with the near name; the request is served as that of another part.
func TestAnUnknownSubsystemIsReported(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	for _, a := range both {
		got := g.Do(t, a.call("X-Bardo-Subsystem: risc"))
		if w := got.Header.Get("X-Bardo-Warning"); got.Status != http.StatusOK || w != "unknown subsystem: risc (did you mean risk?)" || got.Header.Get("X-Bardo-Subsystem") != "other" {
			t.Errorf("%s, stream=%v: status %d, subsystem %q, warning %q", a.dialect, a.stream, got.Status, got.Header.Get("X-Bardo-Subsystem"), w)
		}
	}
	explained := g.Do(t, both[0].call("X-Bardo-Subsystem: risc", "X-Bardo-Route: explain"))
	if w := explained.Header.Values("X-Bardo-Warning"); explained.Status != http.StatusOK || len(w) != 1 {
		t.Errorf("an explanation: status %d, warnings %q", explained.Status, w)
	}
	for _, args := range [][]string{{"route", "--subsystem", "risc", "--model", "m"}, {"route", "--subsystem", "risc", "--model", "m", "--json"}} {
		if out := g.Bardo(t, args...); !strings.Contains(out, "unknown subsystem: risc (did you mean risk?)") {
			t.Errorf("%v printed %s", args, out)
		}
	}
}

func TestNoCacheHintAsksAProvider(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	for _, a := range both {
		a.more, a.say = `"temperature":0`, fmt.Sprintf("once for %s, stream=%v", a.dialect, a.stream)
		for i, r := range []struct {
			header []string
			cache  string
		}{{nil, "miss"}, {nil, "hash"}, {[]string{"X-Bardo-No-Cache: true"}, "miss"}, {nil, "hash"}} {
			before := len(p.Generations())
			got := g.Do(t, a.call(append(r.header, "X-Bardo-Replay: fast")...))
			if c := got.Header.Get("X-Bardo-Cache"); c != r.cache || (len(p.Generations()) > before) != (r.cache == "miss") {
				t.Errorf("%s, stream=%v, call %d: cache %q, %d asked", a.dialect, a.stream, i, c, len(p.Generations())-before)
			}
		}
	}
}
