package extproc

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	providerkind "bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// crowded returns a runtime of six providers, of which two have 500 models and the others a hundred each.
func crowded(t testing.TB) *runtime.Config {
	t.Helper()
	var models strings.Builder
	models.WriteString("models:\n")
	capabilities := []string{"tools, vision, citations, interleaved_thinking, adaptive_thinking", "tools, vision, structured_outputs, low_effort", "tools, visible_thinking"}
	qualities := []string{"low", "medium", "high", "maximum"}
	var listed [5][]string
	for i := range 500 {
		id := fmt.Sprintf("family%d-%d", i%7, i)
		fmt.Fprintf(&models, "  - {id: %s, context: 200000, max_output: 64000, price: {input: %d.%02d, output: %d}, capabilities: [%s], quality: %s, latency_p50_ms: %d}\n",
			id, i%30, i%100, i%90, capabilities[i%len(capabilities)], qualities[i%len(qualities)], 200+i*37%5000)
		listed[4] = append(listed[4], "{id: "+id+"}")
		listed[i%4] = append(listed[i%4], "{id: "+id+"}")
	}
	file, problems := config.ParseModels("models.yaml", []byte(models.String()))
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	list := func(i int) string { return strings.Join(listed[i], ", ") }
	cfg, problems := config.Parse("config.yaml", fmt.Appendf(nil, `
providers:
  blockrun: {endpoint: https://b.test, api_key: x, models: [%s]}
  openrouter: {endpoint: https://o.test/v1, api_key: x, models: [%s]}
  venice: {base_url: https://v.test/v1, api_key: x, models: [%s]}
  custom:
    - {id: a, endpoints: [http://localhost:1/v1], models: [%s]}
    - {id: b, endpoints: [http://localhost:2/v1], models: [%s]}
    - {id: c, endpoints: [http://localhost:3/v1], models: [%s]}
`, list(4), list(4), list(0), list(1), list(2), list(3)), func(string) (string, bool) { return "", false })
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	var enabled []providerkind.Provider
	for _, p := range cfg.Enabled() {
		enabled = append(enabled, p.Provider)
	}
	rt := &runtime.Config{
		Resolver:   resolve.New(catalog.New(file), enabled),
		Dialects:   map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}}, //nolint:exhaustive // the only one asked in
		Structured: runtime.Structured{Enabled: true, Validate: true, Retries: 1},
	}
	all := map[policy.ProviderID]*runtime.Provider{}
	for _, p := range cfg.Enabled() {
		all[p.ID] = &runtime.Provider{Adapter: custom.Adapter{}}
	}
	rt.Providers = runtime.ProvidersOf(all)
	return rt
}

var golems = header.List{
	{Name: "x-bardo-golem-id", Value: "golem-7"},
	{Name: "x-bardo-subsystem", Value: "dream_rem"},
	{Name: "x-bardo-vitality", Value: "0.62"},
	{Name: "x-bardo-rem-call", Value: "2"},
	{Name: "x-bardo-security-class", Value: "confidential"},
	{Name: "x-bardo-tick", Value: "41233"},
}

// routed takes a request from its headers to the order of its candidates and its profile.
func routed(t testing.TB, rt *runtime.Config, h header.List, body []byte) {
	t.Helper()
	req, err := openai.Dialect{}.Decode(chat.Generate, h, "", body)
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{gw: &Gateway{}, View: request.View{Config: rt, Head: stream.Head{Header: h}}}
	x.initReport(x.gw)
	x.review.View = &x.View
	x.Request = req
	if err := x.parseHeaders(); err != nil {
		t.Fatal(err)
	}
	if err := x.ParseBodyHints(); err != nil {
		t.Fatal(err)
	}
	if err := x.decide(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var routes = []struct {
	name   string
	header header.List
	body   string
}{
	{"golem", golems, `{"model":"auto","messages":[{"role":"user","content":"Imagine."}]}`},
	{"golem in the body", nil, `{"model":"auto","messages":[{"role":"user","content":"Imagine."}],"bardo":{"subsystem":"risk","golem_id":"golem-7","vitality":0.4}}`},
	{"named model", nil, `{"model":"family1-1","messages":[{"role":"user","content":"Hello."}]}`},
	{"left to the gateway", nil, `{"model":"auto","messages":[{"role":"user","content":"Hello."}]}`},
}

// BenchmarkRoute500 measures routing among 500 models at six providers: hints, intent, order, profile. It includes decoding the request, which is
// also measured alone as the baseline.
func BenchmarkRoute500(b *testing.B) {
	rt := crowded(b)
	for _, r := range routes {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				routed(b, rt, r.header, []byte(r.body))
			}
		})
		b.Run(r.name+"/decoding alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decoded(b, r.header, []byte(r.body))
			}
		})
	}
}

func decoded(t testing.TB, h header.List, body []byte) *chat.Request {
	t.Helper()
	req, err := openai.Dialect{}.Decode(chat.Generate, h, "", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// The allocations of routing do not grow with the number of models, and stay within the documented limit.
func TestRoutingAllocatesLittle(t *testing.T) {
	rt := crowded(t)
	const promised = 40
	for _, r := range routes {
		decoding := testing.AllocsPerRun(100, func() { decoded(t, r.header, []byte(r.body)) })
		if n := testing.AllocsPerRun(100, func() { routed(t, rt, r.header, []byte(r.body)) }) - decoding; n > promised {
			t.Errorf("%s: %v allocations", r.name, n)
		}
	}
}
