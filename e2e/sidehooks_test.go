package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// circles is a gateway whose providers and hooks record every byte: two private providers and two others, which all serve the models calm and loud; a hook that
// looks at requests and answers, and one that finds documents, each private and not.
type circles struct {
	*gateway.Gateway

	fakes map[string]*fake.Server
	hooks map[string]*hook
}

func runCircles(t *testing.T) *circles {
	t.Helper()
	c := &circles{fakes: map[string]*fake.Server{}, hooks: map[string]*hook{
		"guard": newHook(t), "own-guard": newHook(t), "search": searchHook(t, rex), "own-search": searchHook(t, rex),
	}}
	price := "{input: 1, output: 1}"
	both := []gateway.Model{{ID: "calm", Price: price}, {ID: "loud", Price: price}}
	var list []gateway.Provider
	for _, p := range []gateway.Provider{{ID: "lead"}, {ID: "rival", Format: "anthropic"}, {ID: "quiet", More: "private: true"}, {ID: "hushed", More: "private: true"}} {
		dialect := fake.OpenAI
		if p.Format != "" {
			dialect = fake.Anthropic
		}
		c.fakes[p.ID] = fake.Start(t, fake.Config{Dialect: dialect, Name: p.ID})
		p.Fake, p.Models = c.fakes[p.ID], both
		list = append(list, p)
	}
	c.Gateway = gateway.Run(t, gateway.Options{Providers: list, Config: fmt.Sprintf(hasty+`
pipeline:
  default: standard
  guardrails:
    - {name: guard, url: %q, when: [request, response], on_error: allow, timeout: 10s}
    - {name: own-guard, url: %q, when: [request, response], private: true, timeout: 10s}
  retrieval: {hooks: [{name: search, url: %q, timeout: 10s}, {name: own-search, url: %q, private: true, timeout: 10s}]}
`, c.hooks["guard"].URL, c.hooks["own-guard"].URL, c.hooks["search"].URL, c.hooks["own-search"].URL)})
	return c
}

// fails has both providers that may serve private requests behave badly in a round of the gateway's own tools, and the others that are asked first for any; who may
// not have a request would serve it well. In no round (0) all do.
func (c *circles) fails(bad *fake.Behaviour, round int) {
	for name, s := range c.fakes {
		private := name == "quiet" || name == "hushed"
		for model, text := range map[string]string{"calm": "HUSHED-ANSWER", "loud": "Found."} {
			first, second := calling("", "search_tools", searches), calling(text, "execute_tool", executes)
			if private == (model == "calm") {
				switch round {
				case 1:
					first, second = *bad, *bad
				case 2:
					second = *bad
				}
			}
			first.Answered = &second
			s.BehaveFor(model, first)
		}
	}
}

// whoSaw are the providers and hooks that have a text.
func (c *circles) whoSaw(text string) (names []string) {
	for name, s := range c.fakes {
		if s.Saw(text) {
			names = append(names, name)
		}
	}
	for name, h := range c.hooks {
		if strings.Contains(strings.Join(h.questions(), "\n"), text) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestD05RoundsAndHooksKeepToThoseWhoMayHaveARequest: every byte that reaches a provider or a hook is recorded. The rounds of the gateway's own tools, what hooks look at
// and what they are asked for go to nobody but who may have the request itself, whatever fails in whichever round; and what is confidential is masked for all of them.
func TestD05RoundsAndHooksKeepToThoseWhoMayHaveARequest(t *testing.T) {
	t.Parallel()
	c := runCircles(t)
	const private, confidential = "X-Bardo-Security-Class: private", "X-Bardo-Security-Class: confidential"
	rows := []struct {
		about, model string
		header       []string
		may, must    []string // who may have the user's text; who has it while all are healthy
	}{
		{"private", "calm", []string{private}, []string{"quiet", "hushed", "own-guard", "own-search"}, []string{"quiet", "own-guard", "own-search"}},
		{"without retention", "calm", []string{"X-Bardo-Require: no_log", private}, []string{"quiet", "hushed", "own-guard", "own-search"}, []string{"quiet", "own-guard", "own-search"}},
		{"confidential", "loud", []string{confidential}, nil, nil},
		{"private, with every layer", "calm", []string{private, "X-Bardo-Pipeline: full"}, []string{"quiet", "hushed", "own-guard", "own-search"}, []string{"quiet", "own-guard", "own-search"}},
		{"an ordinary one", "loud", nil, []string{"lead", "rival", "quiet", "hushed", "guard", "own-guard", "search", "own-search"}, []string{"lead", "guard", "own-guard", "search", "own-search"}},
	}
	n := 0
	for i := range outcomes {
		for _, round := range []int{1, 2} {
			if i == 0 && round == 2 || outcomes[i].name == "timeout" { // which fails as a reset does, and takes seconds
				continue
			}
			healthy := i == 0
			if healthy {
				round = 0
			}
			c.fails(&outcomes[i].Behaviour, round)
			t.Run(fmt.Sprintf("%s in round %d", outcomes[i].name, round), func(t *testing.T) {
				for _, row := range rows {
					for _, stream := range []bool{false, true} {
						n++
						text := fmt.Sprintf("planted%dx@example.com", n)
						t.Run(fmt.Sprintf("%s/stream=%v", row.about, stream), func(t *testing.T) {
							t.Parallel()
							call := metaCall("openai", row.model, stream, "")
							call.Header = append(call.Header, row.header...)
							call.Body = strings.Replace(call.Body, "Fly me to Oslo", "Fly me to Oslo and tell "+text, 1)
							got := c.Do(t, call)
							saw := c.whoSaw(text)
							for _, name := range saw {
								if !slices.Contains(row.may, name) {
									t.Errorf("%s has it (%s)", name, got.Header.Get("X-Bardo-Pipeline"))
								}
							}
							if !healthy {
								if row.model == "calm" && strings.Contains(got.Body, "book_flight_7") {
									t.Errorf("%d: it was served although its providers fail", got.Status)
								}
								return
							}
							if got.Status != http.StatusOK || !strings.Contains(got.Body, "book_flight_7") {
								t.Errorf("%d %.500s", got.Status, got.Body)
							}
							for _, name := range row.must {
								if !slices.Contains(saw, name) {
									t.Errorf("%s does not have it, %v do: %+v", name, saw, got.Header)
								}
							}
						})
					}
				}
			})
		}
	}
	if saw := c.whoSaw("HUSHED-ANSWER"); slices.Contains(saw, "guard") || !slices.Contains(saw, "own-guard") {
		t.Errorf("the answers to private requests are seen by %v", saw)
	}
	c.AssertSound(t)
}
