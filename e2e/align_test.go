package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// cacheUse is what a request's input was to its provider's prompt cache.
type cacheUse struct{ input, written, read int }

// askCached sends a request and reads how its provider's prompt cache was used.
func askCached(t *testing.T, g *gateway.Gateway, c gateway.Call) (cacheUse, gateway.Answer) {
	t.Helper()
	a := g.Do(t, c)
	if a.Status != http.StatusOK || a.Err != nil {
		t.Fatalf("%d %v %s", a.Status, a.Err, a.Body)
	}
	var m struct {
		Usage struct {
			Input   int `json:"input_tokens"`
			Written int `json:"cache_creation_input_tokens"`
			Read    int `json:"cache_read_input_tokens"`
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached  int `json:"cached_tokens"`
				Written int `json:"cache_write_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &m); err != nil {
		t.Fatal(err, a.Body)
	}
	u := m.Usage
	if u.Prompt > 0 {
		return cacheUse{u.Prompt - u.Details.Cached - u.Details.Written, u.Details.Written, u.Details.Cached}, a
	}
	return cacheUse{u.Input, u.Written, u.Read}, a
}

// strategy is a static prompt of about 2,000 tokens.
var strategy = strings.Repeat("Positions are closed when their health falls below the limit of the strategy.\n", 105)

func withPromptCache(t *testing.T) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "a", MinCache: 1024})
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "a", Format: "anthropic", Fake: p, Models: []gateway.Model{
		{ID: "claude", Price: "{input: 1, output: 2}", More: "family: claude, min_cache: 1024, capabilities: [structured_outputs, tools]"},
	}}}}), p
}

// TestC02RiskTicksReadWhatTheFirstOneWrote: the volatile facts of each tick stand behind the mark, wherever the agent put them, so the static prompt is
// written once, and nothing else is.
func TestC02RiskTicksReadWhatTheFirstOneWrote(t *testing.T) {
	t.Parallel()
	const ticks = 10
	for name, system := range map[string]func(tick int) string{
		"flagged": func(tick int) string {
			return fmt.Sprintf(`[{"type":"text","text":"ETH is at %d.","bardo":"volatile"},{"type":"text","text":%q,"bardo":"static"}]`, tick, strategy)
		},
		"recognised": func(tick int) string {
			return fmt.Sprintf(`%q`, fmt.Sprintf("%sTick %d: ETH fell.\nBe brief.", strategy, tick))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, p := withPromptCache(t)
			var all []cacheUse
			for i := range ticks {
				use, a := askCached(t, g, gateway.Call{
					Path: "/v1/messages", Header: []string{"anthropic-version: 2023-06-01", "X-Bardo-Subsystem: risk", "X-Bardo-Golem-Id: g"},
					Body: fmt.Sprintf(`{"model":"claude","max_tokens":100,"system":%s,"messages":[{"role":"user","content":"Check %d."}]}`, system(3000+i), i),
				})
				if log := a.Header.Get("X-Bardo-Pipeline"); !strings.Contains(log, "system-mark") {
					t.Errorf("tick %d: %s", i, log)
				}
				all = append(all, use)
			}
			static := all[0].written
			if static < 2000 || all[0].input > 100 {
				t.Errorf("the first tick: %+v", all[0])
			}
			for i, use := range all[1:] {
				if want := (cacheUse{use.input, 0, static}); use != want || use.input > 100 {
					t.Errorf("tick %d: %+v; the first one wrote %d", i+1, use, static)
				}
			}
			if p.Saw(`"bardo"`) {
				t.Error("the provider saw a flag")
			}
		})
	}
}

// TestC02AConversationIsReadUpToItsLastTurn: for a client that cannot set marks. Where its prompt changes with each turn, only what is before the change
// is cached.
func TestC02AConversationIsReadUpToItsLastTurn(t *testing.T) {
	t.Parallel()
	const turns = 8
	for name, row := range map[string]struct {
		line string // of the prompt
		read func(all []cacheUse, i int) int
	}{
		"the same date":   {"Today's date: 2026-11-24.\n", func(all []cacheUse, i int) int { return all[i-1].read + all[i-1].written }},
		"a time per turn": {"The current time is 10:%02d.\n", func(all []cacheUse, _ int) int { return all[1].written }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _ := withPromptCache(t)
			said := []string{}
			var all []cacheUse
			for i := range turns {
				line := row.line
				if strings.Contains(line, "%") {
					line = fmt.Sprintf(line, 10+i)
				}
				said = append(said, fmt.Sprintf(`{"role":"user","content":"question %d: %s"}`, i, strings.Repeat("what now? ", 20)))
				use, a := askCached(t, g, gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(
					`{"model":"claude","messages":[{"role":"system","content":%q},%s]}`, strategy+line+"Write Go.", strings.Join(said, ","))})
				var c struct {
					Choices []struct{ Message json.RawMessage }
				}
				if err := json.Unmarshal([]byte(a.Body), &c); err != nil {
					t.Fatal(err, a.Body)
				}
				said, all = append(said, string(c.Choices[0].Message)), append(all, use)
			}
			for i := 2; i < turns; i++ {
				if want := row.read(all, i); all[i].read != want || want < 1500 {
					t.Errorf("turn %d read %d tokens, want %d: %+v", i, all[i].read, want, all)
				}
			}
		})
	}
}

// TestK25TheSameBodyIsSentAsTheSameBytes: a hundred times, with marks and without.
func TestK25TheSameBodyIsSentAsTheSameBytes(t *testing.T) {
	t.Parallel()
	g, p := withPromptCache(t)
	for about, header := range map[string][]string{"plain": nil, "marked": {"X-Bardo-Subsystem: risk"}} {
		p.Forget()
		for range 100 {
			askCached(t, g, gateway.Call{
				Path: "/v1/messages", Header: append([]string{"anthropic-version: 2023-06-01", "X-Bardo-Cache: off"}, header...),
				Body: fmt.Sprintf(`{"model":"claude","max_tokens":100,"temperature":1,"system":%q,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`, strategy),
			})
		}
		sent := p.Generations()
		for i, r := range sent {
			if !bytes.Equal(r.Body, sent[0].Body) {
				t.Fatalf("%s: request %d was sent as %s, the first one as %s", about, i, r.Body, sent[0].Body)
			}
		}
	}
}
