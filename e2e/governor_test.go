package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// governorState is what `bardo governor --json` prints.
type governorState struct {
	Mode  string
	Knobs []struct {
		Task, Knob        string
		Configured, Value int
		Frozen            bool
		Values            []struct {
			Value, Trials int
			Mean          float64 `json:"mean_reward"`
		}
	}
	Tasks []struct {
		Task, Regime             string
		Requests, Retries, Rated int
		Overrides, Recalls       int
		Failures                 int     `json:"schema_failures"`
		WrongHits                int     `json:"wrong_hits"`
		Cached                   int     `json:"cached_tokens"`
		Input                    int     `json:"input_tokens"`
		Score                    float64 `json:"mean_score"`
		Layers                   []struct {
			Layer    string
			Requests int
			Tokens   int         `json:"saved_tokens"`
			USD      json.Number `json:"saved_usd"`
			Acted    int
			Failures int `json:"schema_failures"`
			Recalls  int
		}
	}
}

func governorOf(t *testing.T, g *gateway.Gateway) (s governorState) {
	t.Helper()
	if err := json.Unmarshal([]byte(g.Bardo(t, "governor", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestC12TheGovernorReports what became of requests, by task and regime, and changes nothing; once it is on, it tries values that a reload freezes again.
func TestC12TheGovernorReports(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 200, Cached: 800, Output: 5}})
	opt := gateway.Options{Config: quick + "pipeline: {governor: report}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: cachePrices}}}}}
	g := gateway.Run(t, opt)
	if s := governorOf(t, g); s.Mode != "report" || len(s.Tasks) != 0 {
		t.Errorf("at first: %+v", s)
	}
	tick := func(session, say string, header ...string) (id string, tools int) {
		t.Helper()
		p.Forget()
		a := g.Do(t, gateway.Call{
			Path: "/v1/chat/completions", Header: append([]string{"X-Bardo-Tick-Type: risk_check", "X-Bardo-Regime: bull", "X-Bardo-Session-Id: " + session}, header...),
			Body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"tools":%s}`, say, toolList()),
		})
		if a.Status != http.StatusOK || len(p.Generations()) != 1 {
			t.Fatal(a.Status, a.Body)
		}
		return a.Header.Get("X-Request-Id"), len(toolsIn(t, string(p.Generations()[0].Body)))
	}
	id, n := tick("s", "one")
	_, _ = tick("s", "two")
	_, again := tick("s", "two")
	_, _ = tick("s", "three", "X-Bardo-Pipeline: standard")
	if n != 12 || again != 12 {
		t.Errorf("%d and %d tools are left", n, again)
	}
	if a := rate(t, g, "", id, `{"score":0.25}`); a.Status != http.StatusOK {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	eventually(t, "the outcomes of four requests", func() bool {
		s := governorOf(t, g)
		return len(s.Tasks) == 1 && s.Tasks[0].Requests == 4
	})
	task := governorOf(t, g).Tasks[0]
	if task.Task != "risk_check" || task.Regime != "bull" || task.Retries != 1 || task.Overrides != 1 || task.Rated != 1 || task.Score != 0.25 || task.Cached != 3200 || task.Input != 4000 {
		t.Errorf("%+v", task)
	}
	found := false
	for _, l := range task.Layers {
		found = found || l.Layer == "l4" && l.Requests == 4 && l.Tokens > 0 && l.USD != "0.000000"
	}
	if !found {
		t.Errorf("layers %+v", task.Layers)
	}
	if out := g.Bardo(t, "governor"); !strings.Contains(out, "report: no settings are adjusted") || !strings.Contains(out, "80 %") || !strings.Contains(out, "l4 0.0") {
		t.Errorf("bardo governor:\n%s", out)
	}

	opt.Config = strings.Replace(opt.Config, "governor: report", "governor: on", 1)
	g.Configure(t, opt)
	g.Bardo(t, "config", "reload")
	eventually(t, "it is on", func() bool { return governorOf(t, g).Mode == "on" })
	fewer := 0
	for i := range 60 {
		if _, n := tick(fmt.Sprint("on", i), "x"); n < 12 {
			fewer++
		} else if n > 12 {
			t.Fatalf("%d tools are left", n)
		}
	}
	if fewer == 0 || fewer > 20 {
		t.Errorf("%d of 60 conversations tried fewer tools", fewer)
	}

	opt.Config = strings.Replace(opt.Config, "governor: on", "governor: on, governor_freeze: [tools]", 1)
	g.Configure(t, opt)
	g.Bardo(t, "config", "reload")
	for i := range 30 {
		if _, n := tick(fmt.Sprint("frozen", i), "x"); n != 12 {
			t.Errorf("a frozen setting: %d tools", n)
		}
	}
	for _, k := range governorOf(t, g).Knobs {
		if k.Frozen != (k.Knob == "tools") {
			t.Errorf("%+v", k)
		}
	}
	if out := g.Bardo(t, "governor"); !strings.Contains(out, "frozen") {
		t.Errorf("bardo governor:\n%s", out)
	}
}

// TestC12AWrongHitThatIsRemovedCounts: the semantic cache's answer to another question is worth what it saved, until its caller removes it.
func TestC12AWrongHitThatIsRemovedCounts(t *testing.T) {
	t.Parallel()
	g, _, _, _ := cachedBy(t, quick+"models: {dir: "+modeltest.Dir(t)+", load: start}\n"+strings.Replace(semanticOn, "{", "{governor: report, ", 1))
	first, again := plainly(forms[0], "gpt-x", "Who invented the telephone?"), plainly(forms[0], "gpt-x", "Who was the inventor of the telephone?")
	sent := 2
	eventually(t, "the embedding model", func() bool {
		sent++
		_, known := asked(t, g, plainly(forms[0], "gpt-x", "What is the speed of light?"))
		return known == "semantic"
	})
	mustKnow(t, g, first, "miss")
	hit := mustKnow(t, g, again, "semantic")
	mean := func() (m float64, trials, wrong int) {
		s := governorOf(t, g)
		for _, task := range s.Tasks {
			wrong += task.WrongHits
		}
		for _, k := range s.Knobs {
			if k.Knob == "semantic" {
				m, trials = m+k.Values[0].Mean*float64(k.Values[0].Trials), trials+k.Values[0].Trials
			}
		}
		return m, trials, wrong
	}
	eventually(t, "the outcomes", func() bool { _, trials, _ := mean(); return trials == sent })
	before, _, wrong := mean()
	if wrong != 0 {
		t.Errorf("%d wrong hits", wrong)
	}
	byRequest := gateway.Call{Method: http.MethodDelete, Path: "/v1/cache?request=" + hit.Header.Get("X-Request-Id") + "&dry_run=true"}
	for range 2 {
		if got := g.Do(t, byRequest); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		if sum, _, wrong := mean(); strings.HasSuffix(byRequest.Path, "dry_run=true") && (sum != before || wrong != 0) {
			t.Errorf("a dry run: %v, %d wrong hits", sum, wrong)
		}
		byRequest.Path = strings.TrimSuffix(byRequest.Path, "&dry_run=true")
	}
	if sum, trials, wrong := mean(); math.Abs(sum-(before-1.5)) > 1e-9 || trials != sent || wrong != 1 { // what it saved, and half
		t.Errorf("the rewards of %d hits and misses were %v in all and are %v, %d are wrong", trials, before, sum, wrong)
	}
	if out := g.Bardo(t, "governor"); !strings.Contains(out, "WRONG HITS") {
		t.Errorf("bardo governor:\n%s", out)
	}
}

// TestC12TheGovernorHearsOfRepairsAndRecalls: of an answer that had the wrong form and was made again, and of a result that the model had to fetch after it was left out.
// The tools of both requests were left as they are.
func TestC12TheGovernorHearsOfRepairsAndRecalls(t *testing.T) {
	t.Parallel()
	g, own, _ := metaLab(t, "pipeline: {governor: report}\n")
	own.Queue(fake.Behaviour{Text: `{"b":1}`}, fake.Behaviour{Text: `{"a":1}`})
	got := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"Which is it?"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}}}`, "X-Bardo-Tick-Type: risk_check")
	if got.Status != http.StatusOK || len(own.Generations()) != 2 {
		t.Fatalf("%d after %d calls: %s", got.Status, len(own.Generations()), got.Body)
	}
	own.Queue(calling("", "bardo_recall", `{"id":"r1"}`), fake.Behaviour{Text: "It was 4711."})
	c := ask{dialect: fake.OpenAI}.call("X-Bardo-Regime: bear")
	c.Body = recallBody(fake.OpenAI, "m", false)
	if got := g.Do(t, c); got.Status != http.StatusOK || !strings.Contains(got.Body, "4711") {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	eventually(t, "the outcomes of both", func() bool { return len(governorOf(t, g).Tasks) == 2 })
	for _, task := range governorOf(t, g).Tasks {
		recalled := task.Regime == "bear"
		if (task.Recalls == 1) != recalled || (task.Failures == 1) == recalled || task.Requests != 1 {
			t.Errorf("%+v", task)
		}
		for _, l := range task.Layers {
			if l.Layer == "l5" && recalled && (l.Acted != 1 || l.Recalls != 1 || l.Failures != 0) || l.Layer != "l5" && (l.Recalls != 0 || l.Failures != 0) {
				t.Errorf("%+v", l)
			}
		}
	}
	if out := g.Bardo(t, "governor"); !strings.Contains(out, "Requests that a layer changed or answered:") {
		t.Errorf("bardo governor:\n%s", out)
	}
}
