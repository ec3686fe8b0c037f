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

// ticking is a tick of an agent with 60 tools, in either format, whose static prompt has about 2,000 tokens.
func ticking(dialect fake.Dialect, stream bool) ask {
	form := `{"type":"function","function":{"name":%q,"description":%q,"parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}`
	system := fmt.Sprintf(`"messages":[{"role":"system","content":%q},{"role":"user","content":"Tick."}],`, strategy)
	if dialect == fake.Anthropic {
		form = `{"name":%q,"description":%q,"input_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}`
		system = fmt.Sprintf(`"system":%q,`, strategy)
	}
	var tools []string
	for i := range 10 {
		for _, name := range []string{"get_price", "swap_tokens", "vault_deposit", "get_exposure", "get_balance", "update_strategy"} {
			tools = append(tools, fmt.Sprintf(form, fmt.Sprintf("%s_%d", name, i), strings.Repeat("It does what its name says. ", 12)))
		}
	}
	return ask{dialect: dialect, model: "claude", stream: stream, say: "Tick.", more: strings.TrimSuffix(system, ",") + `,"tools":[` + strings.Join(tools, ",") + `]`}
}

// call is the tick as a request; OpenAI's body has its messages in more.
func tickCall(a ask, kind string) gateway.Call {
	c := a.call("X-Bardo-Golem-Id: g", "X-Bardo-Subsystem: heartbeat_t2", "X-Bardo-Tick-Type: "+kind)
	if a.dialect == fake.OpenAI {
		c.Body = strings.Replace(c.Body, `,"messages":[{"role":"user","content":"Tick."}]}`, "}", 1)
	}
	return c
}

// TestC08TicksOfSeveralKindsReadOnePrompt: from the second kind on, each tick has the same tools, and reads them and the prompt from the provider's cache. A
// tool that is not among them is found in a round, and the client gets its call.
func TestC08TicksOfSeveralKindsReadOnePrompt(t *testing.T) {
	t.Parallel()
	for _, dialect := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "a", MinCache: 1024})
			g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "a", Format: "anthropic", Fake: p, Models: []gateway.Model{
				{ID: "claude", Price: "{input: 1, output: 2, cached_input: 0.1, cache_write: 1.25}", More: "family: claude, min_cache: 1024, capabilities: [structured_outputs, tools]"},
			}}}})
			var shared string
			for i, kind := range []string{"risk_check", "trade_execution", "market_analysis", "portfolio_review", "trade_execution"} {
				used, got := askCached(t, g, tickCall(ticking(dialect, false), kind))
				tools := toolsIn(t, string(lastOf(t, p).Body))
				switch {
				case len(tools) > 12 || strings.Contains(strings.Join(tools, " "), "search_tools") != (i > 0):
					t.Errorf("%s: the provider gets %v", kind, tools)
				case i == 1:
					shared = strings.Join(tools, " ")
				case i > 1 && strings.Join(tools, " ") != shared:
					t.Errorf("%s: the provider gets %v, not %s", kind, tools, shared)
				case i > 3 && used.read < 2000:
					t.Errorf("%s: %+v, layers %s", kind, used, got.Header.Get("X-Bardo-Pipeline"))
				}
			}
			for _, stream := range []bool{false, true} {
				p.Queue(calling("", "search_tools", `{"query":"update the strategy"}`), calling("", "execute_tool", `{"name":"update_strategy_9","arguments":{"n":1}}`))
				a := ticking(dialect, stream)
				got := g.Do(t, tickCall(a, "risk_check"))
				if got.Status != http.StatusOK {
					t.Fatal(got.Body)
				}
				if said := turnOf(t, a, got); said.names() != `update_strategy_9{"n":1}` {
					t.Errorf("stream=%v: the client reads %+v", stream, said)
				}
			}
		})
	}
}

// toolsOfSubjects are 46 tools, of which one is about subscriptions. It returns how a request lists them.
func toolsOfSubjects() string {
	names := map[string]string{"cancel_subscription": "Ends a recurring payment plan of a customer."}
	for _, n := range []string{"moon", "tide", "wind", "stone", "river", "cloud", "forest", "sand", "island"} {
		for _, verb := range []string{"paint", "measure", "photograph", "describe", "map"} {
			names[verb+"_"+n] = "Makes a picture or a table of the " + n + "."
		}
	}
	var tools []string
	for name, about := range names {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%q,"parameters":{"type":"object"}}}`, name, about))
	}
	slices.Sort(tools)
	return strings.Join(tools, ",")
}

// rankedByMeaning asks until tools are ranked by meaning, and checks what the provider gets.
func rankedByMeaning(t *testing.T, g *gateway.Gateway, p *fake.Server) {
	t.Helper()
	n, tools := 0, toolsOfSubjects()
	eventually(t, "a ranking by meaning", func() bool { // each conversation has time for some definitions
		n++
		got := g.Chat(t, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d. I no longer want to be billed every month, stop it."}],"tools":[%s]}`, n, tools), "X-Bardo-Golem-Id: g")
		if got.Status != http.StatusOK {
			t.Fatal(got.Body)
		}
		return strings.Contains(got.Header.Get("X-Bardo-Pipeline"), ";meaning")
	})
	if sent := toolsIn(t, string(lastOf(t, p).Body)); !slices.Contains(sent, "cancel_subscription") || len(sent) > 12 {
		t.Errorf("the provider gets %v", sent)
	}
}

// TestD36ALocalModelRanksTools by their meaning, in both shapes of the data path: the tool that stays shares no word with the user's text.
func TestD36ALocalModelRanksTools(t *testing.T) {
	t.Parallel()
	for _, shape := range dataPaths {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			g := gateway.Run(t, gateway.Options{DataPath: shape, Config: withModels(t), Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
			rankedByMeaning(t, g, p)
		})
	}
}
