package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// vendor is a provider with a section of its own in the configuration.
type vendor struct {
	kind    fake.Vendor
	section string // of providers, with %s for the URL and the key
	model   string // as clients name it
	wants   string // part of every request's body
	thinks  string // part of the body of a request that is to think hard
	path    string // "": /v1/chat/completions
	asks    string // a header of requests that it is the first choice for; "": any
}

var vendorsServed = []vendor{
	{
		kind: fake.OpenRouter, model: "deepseek-v4-flash",
		section: `openrouter: {endpoint: %q, api_key: %q, models: [{id: deepseek-v4-flash, upstream_id: deepseek/deepseek-v4-flash, family: deepseek}]}`,
		wants:   `"usage":{"include":true}`, thinks: `"reasoning":{"effort":"high"}`,
	},
	{
		kind: fake.BlockRun, model: "deepseek-v4-flash",
		section: `blockrun: {endpoint: %q, api_key: %q, models: [{id: deepseek-v4-flash, upstream_id: google/gemini-3-flash, family: gemini, thinking: {control: level}}]}`,
		thinks:  `"thinking_level":"high"`,
	},
	{
		kind: fake.BlockRun, model: "claude-opus-4-6", path: "/v1/messages",
		section: `blockrun: {endpoint: %q, api_key: %q, models: [{id: claude-opus-4-6, upstream_id: anthropic/claude-opus-4.6, family: claude, capabilities: [adaptive_thinking]}]}`,
		thinks:  `"effort":"high"`,
	},
	{
		kind: fake.Venice, model: "deepseek-v4-flash",
		section: `venice: {base_url: %q, api_key: %q, models: [{id: deepseek-v4-flash, upstream_id: deepseek-r1, family: deepseek}]}`,
		wants:   `"include_venice_system_prompt":false`, thinks: `"reasoning":{"effort":"high"}`,
	},
	{
		kind: fake.Bankr, model: "deepseek-v4-flash", asks: "X-Bardo-Subsystem: social",
		section: `bankr: {endpoint: %q, api_key: %q, revenue_balance_usd: 100, models: [{id: deepseek-v4-flash, upstream_id: gemini-3-flash, family: gemini, thinking: {control: effort}}]}`,
		thinks:  `"reasoning_effort":"high"`,
	},
	{
		kind: fake.Bankr, model: "claude-opus-4-6", path: "/v1/messages",
		section: `bankr: {endpoint: %q, api_key: %q, models: [{id: claude-opus-4-6, upstream_id: claude-opus-4.6, family: claude, capabilities: [tools], thinking: {control: budget}}]}`,
		thinks:  `"thinking":{"type":`,
	},
	{kind: fake.DeepSeek, model: "deepseek-v4-flash", section: `deepseek: {base_url: %q, api_key: %q}`, thinks: `"thinking":{"type":"enabled"}`},
	{kind: fake.Qwen, model: "qwen3-32b", section: `qwen: {base_url: %q, api_key: %q}`, thinks: `"enable_thinking":`}, // in streams only
	{kind: fake.Qwen, model: "qwen-plus", section: `qwen: {base_url: %q, api_key: %q}`, thinks: `"enable_thinking":true`},
}

func (v *vendor) name() string { return string(v.kind) + " " + v.model }

// start runs the vendor's fake, and returns its section.
func (v *vendor) start(t *testing.T) (*fake.Server, string) {
	t.Helper()
	s := fake.Start(t, fake.Config{Vendor: v.kind})
	return s, fmt.Sprintf(v.section, s.URL, s.Key)
}

// thinkHard asks for much thinking, as each client says it.
func thinkHard(d fake.Dialect) string {
	if d == fake.Anthropic {
		return `"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`
	}
	return `"reasoning_effort":"high"`
}

func TestEveryVendorIsAskedAsItWants(t *testing.T) {
	t.Parallel()
	for _, v := range vendorsServed {
		t.Run(v.name(), func(t *testing.T) {
			t.Parallel()
			s, section := v.start(t)
			g := gateway.Run(t, gateway.Options{Config: quick + "providers:\n  " + section + "\n"})
			for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("from %s, stream=%v", d, stream), func(t *testing.T) { v.check(t, g, s, d, stream) })
				}
			}
			g.AssertSound(t)
		})
	}
}

func (v *vendor) check(t *testing.T, g *gateway.Gateway, s *fake.Server, d fake.Dialect, stream bool) {
	t.Helper()
	a := ask{dialect: d, model: string(v.kind) + "/" + v.model, stream: stream}
	s.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "Hm."}}})
	v.mustServe(t, a, g.Do(t, a.call()), s, v.wants)

	a.more = thinkHard(d)
	v.mustServe(t, a, g.Do(t, a.call()), s, v.thinks)

	a.more = ""
	c := a.call()
	c.Body = conversation(d, a.model, stream, 2)
	v.mustServe(t, a, g.Do(t, c), s, `"seen 1"`)
}

func (v *vendor) mustServe(t *testing.T, a ask, got gateway.Answer, s *fake.Server, part string) {
	t.Helper()
	if got.Status != http.StatusOK || text(t, a, got) != "Hello from the fake provider." {
		t.Fatalf("%d %s\nwas asked %s", got.Status, got.Body, lastOf(t, s).Body)
	}
	r := lastOf(t, s)
	if path := v.path; path != "" && r.Path != path || path == "" && r.Path != "/v1/chat/completions" {
		t.Errorf("it was asked on %s", r.Path)
	}
	if !strings.Contains(string(r.Body), part) {
		t.Errorf("it was asked without %s: %s", part, r.Body)
	}
	if p := got.Header.Get("X-Bardo-Provider"); p != string(v.kind) {
		t.Errorf("%s answered", p)
	}
}

// TestVendorsAreToldWhatAnAgentSaysOfItself: hints become what only one provider knows.
func TestVendorsAreToldWhatAnAgentSaysOfItself(t *testing.T) {
	t.Parallel()
	for _, g := range []struct {
		kind    fake.Vendor
		section string
		rows    []agentSays
	}{
		{fake.Venice, `venice: {base_url: %q, api_key: %q, characters: {risk-assessor: sober-analyst}, models: [{id: m, upstream_id: deepseek-r1, family: deepseek, capabilities: [tee_attested], thinking: {control: toggle}, price: {input: 1, output: 2, per_search: 0.01}}]}`, []agentSays{
			{"nothing", nil, []string{`"enable_web_search":"off"`, `"model":"deepseek-r1"`}, []string{"strip_thinking_response", "character_slug"}},
			{"a part that looks at thinking", []string{"X-Bardo-Subsystem: dream_rem", "X-Bardo-Golem-Id: g7"}, []string{`"strip_thinking_response":false`, `"min_p":0.1`, `"reasoning":{"effort":"high"}`, `"prompt_cache_key":"dream-rem-g7"`}, nil},
			{"a part that does not", []string{"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Golem-Id: g7"}, []string{`"strip_thinking_response":true`, `"reasoning":{"effort":"low"}`, `"prompt_cache_key":"golem-g7-heartbeat_t1"`}, nil},
			{"a role", []string{"X-Bardo-Role: risk-assessor"}, []string{`"character_slug":"sober-analyst"`}, nil},
			{"a search", []string{"X-Bardo-Web-Search: true"}, []string{`"enable_web_search":"on"`}, nil},
			{"an enclave", []string{"X-Bardo-Tee: true", "X-Bardo-Task-Class: testament"}, []string{`"model":"deepseek-r1-tee"`}, nil},
		}},
		{fake.OpenRouter, `openrouter: {endpoint: %q, api_key: %q, models: [{id: m, upstream_id: deepseek/deepseek-v3.2, family: deepseek}]}`, []agentSays{
			{"nothing", nil, []string{`"model":"deepseek/deepseek-v3.2"`}, []string{`"provider"`}},
			{"the cost matters", []string{"X-Bardo-Cost-Sensitivity: 0.9"}, []string{`"model":"deepseek/deepseek-v3.2:floor"`}, nil},
			{"time matters", []string{"X-Bardo-Cost-Sensitivity: 0.1", "X-Bardo-Max-Latency-Ms: 2000"}, []string{`"model":"deepseek/deepseek-v3.2:nitro"`}, nil},
			{"confidential", []string{"X-Bardo-Security-Class: confidential"}, []string{`"data_collection":"deny"`, `"zdr":true`}, nil},
		}},
		{fake.BlockRun, `blockrun: {endpoint: %q, api_key: %q, models: [{id: m, upstream_id: qwen/qwen3-235b, family: qwen}]}`, []agentSays{
			{"nothing", nil, []string{`"content":"hi"`}, []string{"/think", "/no_think"}},
			{"a part that looks at thinking", []string{"X-Bardo-Subsystem: dream_rem"}, []string{`/think hi`}, nil},
			{"a part that wants none", []string{"X-Bardo-Subsystem: mind_wandering"}, []string{`/no_think hi`}, nil},
		}},
	} {
		t.Run(string(g.kind), func(t *testing.T) {
			t.Parallel()
			v := vendor{kind: g.kind, model: "m", section: g.section}
			s, section := v.start(t)
			gw := gateway.Run(t, gateway.Options{Config: quick + "providers:\n  " + section + "\n"})
			for _, r := range g.rows {
				t.Run(r.name, func(t *testing.T) { r.check(t, gw, s, &v) })
			}
		})
	}
}

// agentSays is a request with hints, and what the provider reads of them.
type agentSays struct {
	name          string
	header        []string
	want, without []string
}

func (r *agentSays) check(t *testing.T, g *gateway.Gateway, s *fake.Server, v *vendor) {
	t.Helper()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		a := ask{dialect: d, model: string(v.kind) + "/" + v.model}
		got := g.Do(t, a.call(r.header...))
		if got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", d, got.Status, got.Body)
		}
		body := string(lastOf(t, s).Body)
		for _, part := range r.want {
			if !strings.Contains(body, part) {
				t.Errorf("%s: it was asked without %s: %s", d, part, body)
			}
		}
		for _, part := range r.without {
			if strings.Contains(body, part) {
				t.Errorf("%s: it was asked with %s: %s", d, part, body)
			}
		}
	}
}

// inOrder is quick, with the operator's order for those who do not say what they need, too.
var inOrder = strings.Replace(quick, "routing: {", "routing: {strategy: ordered, ", 1)

// TestD15VendorsStandInForEachOther: each fails in turn, and the next one is asked in its own way.
func TestD15VendorsStandInForEachOther(t *testing.T) {
	t.Parallel()
	var one []vendor // of each kind
	for _, v := range vendorsServed {
		if v.model == "deepseek-v4-flash" {
			one = append(one, v)
		}
	}
	for i, v := range one {
		next := one[(i+1)%len(one)]
		t.Run(string(v.kind)+" then "+string(next.kind), func(t *testing.T) {
			t.Parallel()
			first, section := v.start(t)
			second, other := next.start(t)
			g := gateway.Run(t, gateway.Options{
				Config: inOrder + "inference: {structured_outputs: {enabled: false}}\n" + fmt.Sprintf("providers:\n  order: [%s, %s]\n  %s\n  %s\n", v.kind, next.kind, section, other),
			})
			first.Behave(fake.Behaviour{Status: 503})
			for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
				for _, stream := range []bool{false, true} {
					a := ask{dialect: d, model: "deepseek-v4-flash", stream: stream}
					var header []string
					if v.asks != "" {
						header = append(header, v.asks)
					}
					next.mustServe(t, a, g.Do(t, a.call(header...)), second, next.wants)
				}
			}
			if len(first.Generations()) == 0 {
				t.Errorf("%s was never asked", v.kind)
			}
		})
	}
}

// TestWhatOpenRouterSaysOfItsAnswers: the cost that it names is charged, its comments and its reasoning arrive, and an error in the
// middle of a stream is one.
func TestWhatOpenRouterSaysOfItsAnswers(t *testing.T) {
	t.Parallel()
	v := vendorsServed[0]
	s, section := v.start(t)
	g := gateway.Run(t, gateway.Options{Config: quick + "billing: {spread_pct: 0}\nproviders:\n  " + section + "\n"})
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		for _, stream := range []bool{false, true} {
			s.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "Let me see."}}})
			a := ask{dialect: d, model: v.model, stream: stream}
			got := g.Do(t, a.call())
			v.mustServe(t, a, got, s, "")
			if !strings.Contains(got.Body, "Let") || !strings.Contains(got.Body, "see.") {
				t.Errorf("%s, stream=%v: the reasoning is lost: %s", d, stream, got.Body)
			}
			if rec := recordOf(t, g, got); fmt.Sprint(rec.CostUSD) != fake.OpenRouterCost {
				t.Errorf("%s, stream=%v: cost %s, want %s", d, stream, rec.CostUSD, fake.OpenRouterCost)
			}
			if !stream {
				continue
			}
			s.Behave(fake.Behaviour{Tokens: 20, Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterTokens, Tokens: 5}})
			if got := g.Do(t, a.call()); !strings.Contains(got.Body, "error") || strings.Contains(got.Body, "message_stop") {
				t.Errorf("%s: an error in the middle became %s", d, got.Body)
			}
		}
	}
}

// TestK17DeepSeekIsAskedWithoutThinkingWhereItsThoughtsAreMissing: a history that another provider took part in has calls of tools
// without reasoning.
func TestK17DeepSeekIsAskedWithoutThinkingWhereItsThoughtsAreMissing(t *testing.T) {
	t.Parallel()
	v := vendor{kind: fake.DeepSeek, model: "deepseek-v4-flash", section: `deepseek: {base_url: %q, api_key: %q}`}
	s, section := v.start(t)
	g := gateway.Run(t, gateway.Options{Config: quick + "providers:\n  " + section + "\n"})
	for _, stream := range []bool{false, true} {
		a := ask{dialect: fake.OpenAI, model: v.model, stream: stream}
		c := a.call()
		c.Body = `{"thinking":{"type":"enabled"},` + conversation(fake.OpenAI, v.model, stream, 1)[1:]
		s.Forget()
		v.mustServe(t, a, g.Do(t, c), s, `"thinking":{"type":"disabled"}`)
		if n := len(s.Generations()); n != 2 {
			t.Errorf("stream=%v: it was asked %d times", stream, n)
		}
		c.Body = strings.ReplaceAll(c.Body, `"content":null,`, `"content":null,"reasoning_content":"I look.",`)
		s.Forget()
		v.mustServe(t, a, g.Do(t, c), s, `"reasoning_content":"I look."`)
		if n := len(s.Generations()); n != 1 {
			t.Errorf("stream=%v: with its thoughts it was asked %d times", stream, n)
		}
	}
}

// TestK20ModelsBehindVLLM: a model that thinks by its template's argument is told so in its template's way.
func TestK20ModelsBehindVLLM(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Allow: []string{"chat_template_kwargs", "top_k", "min_p"}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{
		ID: "vllm", Fake: s, Models: []gateway.Model{{ID: "qwen3-32b", More: "thinking: {control: template}"}},
	}}})
	for _, row := range []struct {
		dialect fake.Dialect
		more    string
		want    bool
	}{
		{fake.OpenAI, `"reasoning_effort":"high"`, true},
		{fake.OpenAI, `"reasoning_effort":"none"`, false},
		{fake.OpenAI, `"reasoning_effort":"low","chat_template_kwargs":{"custom":1}`, true},
		{fake.Anthropic, `"thinking":{"type":"adaptive"}`, true},
		{fake.Anthropic, `"thinking":{"type":"disabled"}`, false},
	} {
		a := ask{dialect: row.dialect, model: "qwen3-32b", more: row.more}
		got := g.Do(t, a.call())
		if got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", row.more, got.Status, got.Body)
		}
		var m struct {
			Kwargs map[string]any  `json:"chat_template_kwargs"`
			Effort json.RawMessage `json:"reasoning_effort"`
		}
		if err := json.Unmarshal(lastOf(t, s).Body, &m); err != nil {
			t.Fatal(err)
		}
		if m.Kwargs["enable_thinking"] != row.want || m.Effort != nil || strings.Contains(row.more, "custom") != (m.Kwargs["custom"] != nil) {
			t.Errorf("%s: the server was told %s", row.more, lastOf(t, s).Body)
		}
	}
}
