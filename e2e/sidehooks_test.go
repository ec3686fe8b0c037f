package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// circles is a gateway whose providers and hooks record every byte: two private providers and two others, which all serve the same models; a hook that looks at requests
// and answers, and one that finds documents, each private and not. Models calm are asked for by private requests, models loud by others; those called -memo have what was
// left out of a conversation recalled, and those called -late never answer in a second round.
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
	var all []gateway.Model
	for _, m := range []string{"calm", "loud", "calm-memo", "loud-memo", "calm-late", "loud-late"} {
		all = append(all, gateway.Model{ID: m, Price: price})
	}
	var list []gateway.Provider
	for _, p := range []gateway.Provider{{ID: "lead"}, {ID: "rival", Format: "anthropic"}, {ID: "quiet", More: "private: true"}, {ID: "hushed", More: "private: true"}} {
		dialect := fake.OpenAI
		if p.Format != "" {
			dialect = fake.Anthropic
		}
		c.fakes[p.ID] = fake.Start(t, fake.Config{Dialect: dialect, Name: p.ID})
		p.Fake, p.Models = c.fakes[p.ID], all
		list = append(list, p)
	}
	c.Gateway = gateway.Run(t, gateway.Options{Providers: list, Env: []string{"DREAM_KEY=a long secret of the operator's"}, Config: fmt.Sprintf(hasty+`
deferred: {key: env:DREAM_KEY, gather: 100ms, poll: 150ms, fallback: 30m}
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
	late := fake.Behaviour{HeaderDelay: time.Minute}
	for name, s := range c.fakes {
		private := name == "quiet" || name == "hushed"
		for model, text := range map[string]string{"calm": "HUSHED-ANSWER", "loud": "Found."} {
			first, second := calling("", "search_tools", searches), calling(text, "execute_tool", executes)
			recall, recalled, last := calling("", "bardo_recall", `{"id":"r1"}`), fake.Behaviour{Text: text + " It is recalled."}, second
			if private == (model == "calm") {
				last = late
				switch round {
				case 1:
					first, second, recall, recalled = *bad, *bad, *bad, *bad
				case 2:
					second, recalled = *bad, *bad
				}
			}
			slow := calling("", "search_tools", searches)
			first.Answered, recall.Answered, slow.Answered = &second, &recalled, &last
			s.BehaveFor(model, first)
			s.BehaveFor(model+"-memo", recall)
			s.BehaveFor(model+"-late", slow)
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
		may, must    []string // who may have the text; who has it while all are healthy
	}{
		{"private", "calm", []string{private}, []string{"quiet", "hushed", "own-guard", "own-search"}, []string{"quiet", "own-guard", "own-search"}},
		{"without retention", "calm", []string{"X-Bardo-Require: no_log", private}, []string{"quiet", "hushed", "own-guard", "own-search"}, []string{"quiet", "own-guard", "own-search"}},
		{"confidential", "loud", []string{confidential}, nil, nil},
		{"private, with every layer", "calm", []string{private, "X-Bardo-Pipeline: full"}, []string{"quiet", "hushed", "own-guard", "own-search"}, []string{"quiet", "own-guard", "own-search"}},
		{"an ordinary one", "loud", nil, []string{"lead", "rival", "quiet", "hushed", "guard", "own-guard", "search", "own-search"}, []string{"lead", "guard", "own-guard", "search", "own-search"}},
		{"private, recalled", "calm-memo", []string{private}, []string{"quiet", "hushed", "own-guard"}, []string{"quiet", "own-guard"}},
		{"confidential, recalled", "loud-memo", []string{confidential}, nil, nil},
		{"recalled", "loud-memo", nil, []string{"lead", "rival", "quiet", "hushed", "guard", "own-guard"}, []string{"lead", "guard", "own-guard"}},
	}
	n := 0
	late := func() {}
	for i := range outcomes {
		for _, round := range []int{1, 2} {
			if i == 0 && round == 2 || outcomes[i].name == "timeout" { // beside the others, since it takes seconds
				continue
			}
			healthy := i == 0
			if healthy {
				round = 0
			}
			c.fails(&outcomes[i].Behaviour, round)
			if i == 1 && round == 1 {
				late = c.late(t)
			}
			t.Run(fmt.Sprintf("%s in round %d", outcomes[i].name, round), func(t *testing.T) {
				for _, row := range rows {
					for _, stream := range []bool{false, true} {
						n++
						text := fmt.Sprintf("planted%dx@example.com", n)
						t.Run(fmt.Sprintf("%s/stream=%v", row.about, stream), func(t *testing.T) {
							t.Parallel()
							call, served := asksRounds(row.model, text, stream, row.header...)
							got := c.Do(t, call)
							saw := c.whoSaw(text)
							for _, name := range saw {
								if !slices.Contains(row.may, name) {
									t.Errorf("%s has it (%s)", name, got.Header.Get("X-Bardo-Pipeline"))
								}
							}
							if !healthy {
								if strings.HasPrefix(row.model, "calm") && strings.Contains(got.Body, served) {
									t.Errorf("%d: it was served although its providers fail", got.Status)
								}
								return
							}
							if got.Status != http.StatusOK || !strings.Contains(got.Body, served) {
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
	late()
	c.deferred(t)
	if saw := c.whoSaw("HUSHED-ANSWER"); slices.Contains(saw, "guard") || !slices.Contains(saw, "own-guard") {
		t.Errorf("the answers to private requests are seen by %v", saw)
	}
	c.AssertSound(t)
}

// asksRounds is a request that has the model call tools of the gateway's, with a text: in the user's words, or in a result that is left out and recalled. served is what
// its answer has if it was served.
func asksRounds(model, text string, stream bool, header ...string) (call gateway.Call, served string) {
	call = metaCall("openai", model, stream, "")
	call.Header = append(call.Header, header...)
	if !strings.HasSuffix(model, "-memo") {
		call.Body = strings.Replace(call.Body, "Fly me to Oslo", "Fly me to Oslo and tell "+text, 1)
		return call, "book_flight_7"
	}
	call.Body = strings.NewReplacer("4711", text, `],"tools"`, `,{"role":"user","content":"What was it?"}],"tools"`).Replace(recallBody(fake.OpenAI, model, stream))
	return call, "recalled"
}

// late sends a private and a confidential request whose second round is not answered by any provider that may have it, beside what follows. The result waits for both,
// and looks at who saw them.
func (c *circles) late(t *testing.T) (wait func()) {
	t.Helper()
	texts := map[string]string{"calm-late": "slow1x@example.com", "loud-late": "slow2x@example.com"}
	var group sync.WaitGroup
	for model, class := range map[string]string{"calm-late": "private", "loud-late": "confidential"} {
		call, _ := asksRounds(model, texts[model], false, "X-Bardo-Security-Class: "+class)
		group.Go(func() {
			res, err := c.Open(t.Context(), call)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		})
	}
	return func() {
		group.Wait()
		c.onlyPrivate(t, texts["calm-late"])
		if saw := c.whoSaw(texts["loud-late"]); len(saw) > 0 {
			t.Errorf("a confidential request whose second round is late is seen by %v", saw)
		}
	}
}

// onlyPrivate looks at who saw the text of a private request that was called for.
func (c *circles) onlyPrivate(t *testing.T, text string) {
	t.Helper()
	saw := c.whoSaw(text)
	for _, name := range saw {
		if !slices.Contains([]string{"quiet", "hushed", "own-guard", "own-search"}, name) {
			t.Errorf("%s has %s", name, text)
		}
	}
	if !slices.Contains(saw, "quiet") && !slices.Contains(saw, "hushed") {
		t.Errorf("%s was sent to no provider", text)
	}
}

// deferred has a private and a confidential request answered later, which fails at all providers that may have them.
func (c *circles) deferred(t *testing.T) {
	t.Helper()
	c.fails(&fake.Behaviour{Status: http.StatusInternalServerError}, 1)
	l := &dreamLab{Gateway: c.Gateway}
	later := func(model, text, class string) accepted {
		return l.dream(t, ask{dialect: fake.OpenAI, model: model, say: text}, "", "1h", "X-Bardo-Security-Class: "+class)
	}
	private, confidential := later("calm", "later1x@example.com", "private"), later("loud", "the heron of later2x@example.com", "confidential")
	eventually(t, "calls for both", func() bool {
		return (c.fakes["quiet"].Saw("later1x@") || c.fakes["hushed"].Saw("later1x@")) && (c.fakes["lead"].Saw("the heron of ") || c.fakes["rival"].Saw("the heron of "))
	})
	c.fails(nil, 0)
	for _, r := range []accepted{private, confidential} {
		c.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/requests/" + r.ID})
	}
	c.onlyPrivate(t, "later1x@example.com")
	if saw := c.whoSaw("later2x@example.com"); len(saw) > 0 {
		t.Errorf("a confidential request that is answered later is seen by %v", saw)
	}
}
