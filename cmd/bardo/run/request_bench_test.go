package run

import (
	"bytes"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/affinity"
	"bardo.money/gateway/extproc/layers/hashcache"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/xds/health"
)

// loopback is a client whose provider answers immediately, to measure a request without Envoy and gRPC.
type loopback struct {
	stream.Client
	body    []byte
	cluster string
	next    int // number of answer pieces read
	sent    []byte
}

const (
	benchRequest = `{"model":"m","max_tokens":256,"temperature":0.7,"messages":[{"role":"system","content":"You answer questions about parcels, briefly."},` +
		`{"role":"user","content":"And when does it arrive? %s"}]}`
	benchAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"The order left the warehouse at 09:30, so it goes by road and arrives on Monday."},"finish_reason":"stop","logprobs":null}],` +
		`"usage":{"prompt_tokens":240,"completion_tokens":16,"total_tokens":256,"prompt_tokens_details":{"cached_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":0}}}`
)

// RequestBody implements stream.Client.
func (l *loopback) RequestBody(u stream.RequestBody) error {
	u.Wait()
	return u.Add(l.body)
}

// Forward implements stream.Client.
func (l *loopback) Forward(f stream.Forward) error {
	l.cluster = f.Clusters[0]
	return nil
}

// Next implements stream.Client.
func (l *loopback) Next() (stream.Piece, error) {
	if l.next++; l.next == 1 {
		h := header.List{{Name: ":status", Value: "200"}, {Name: "content-type", Value: header.JSON}, {Name: "content-length", Value: "500"}, {Name: "date", Value: "x"}}
		return stream.Piece{Head: &stream.AnswerHead{Status: 200, Header: h, Cluster: l.cluster, Details: "via_upstream", Attempts: 1}}, nil
	}
	return stream.Piece{Body: []byte(benchAnswer), End: true}, nil
}

// Answer implements stream.Client.
func (l *loopback) Answer(r stream.Reply, _ []string) error {
	l.sent = r.Body
	return nil
}

// Turn implements stream.Client.
func (*loopback) Turn() {}

// Leave implements stream.Client.
func (l *loopback) Leave(work func() error) error { return work() }

// Reply implements stream.Client: the gateway refused the request.
func (l *loopback) Reply(r stream.Reply) error {
	l.sent = r.Body
	return nil
}

// benchLayers are the two layers that this package can import.
func benchLayers(cfg *config.Config, s *Services) []pipeline.Layer {
	return []pipeline.Layer{
		hashcache.Layer{Store: s.Answers, Mode: hashcache.Mode(cfg.Pipeline.Hash), TTL: cfg.Inference.Caching.TTL()},
		affinity.Layer{Memory: affinity.New(nil)},
	}
}

// BenchParts are what differs between measured gateways.
type BenchParts struct {
	Layers  Layers
	Runtime ModelRuntime // nil: without local models
	Config  string
}

// benchGateway returns the data path of a gateway with one provider, and the secret of a prepaid key.
func benchGateway(b *testing.B, p BenchParts) (*gateway, string) {
	b.Helper()
	cfg, problems := config.Parse("bardo.yaml", []byte(`
auth: {anonymous: true}
limits: {rpm: 0}
providers: {custom: [{id: p, endpoints: ["http://127.0.0.1:1/v1"], api_key: sk-x, models: [{id: m, price: {input: 3, output: 15}}]}]}
`+p.Config), func(string) (string, bool) { return "", false }, custom.Adapter{}.Kind())
	if config.Failed(problems) {
		b.Fatal(problems)
	}
	g := &gateway{start: start{home: home.Dir(b.TempDir()), out: io.Discard, parts: Parts{
		Adapters:  []provider.Described{custom.Adapter{}},
		Dialects:  map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}}, //nolint:exhaustive // one client
		Verifiers: func(k *auth.APIKeys) auth.Chain { return auth.Chain{k} },
		Layers:    p.Layers,
		Runtime:   p.Runtime,
	}}}
	g.cfg.Store(cfg)
	g.log = slog.New(slog.DiscardHandler)
	g.metrics = telemetry.New(telemetry.Build{})
	g.tracker = health.NewTracker(health.Options{}, "p")
	g.learnSecrets(cfg)
	g.data = true
	if err := g.openModels(cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(g.closeModels)
	g.localLoaded.Wait()
	if err := g.openData(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := g.books.Close(); err != nil {
			b.Error(err)
		}
	})
	pepper, err := g.home.Pepper(g.books.Path())
	if err != nil {
		b.Fatal(err)
	}
	row, secret, err := admin.DrawKey(pepper, ledger.KeyRow{Name: "bench", Prepaid: true})
	if err != nil {
		b.Fatal(err)
	}
	if err := g.books.CreateKey(b.Context(), row, 1000*policy.USD); err != nil {
		b.Fatal(err)
	}
	return g, secret
}

// serveOnce serves a chat completion with a key, or without one if it is "", and checks the answer.
func (g *gateway) serveOnce(b *testing.B, key string, body []byte, more ...header.Field) {
	b.Helper()
	h := append(header.List{
		{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/chat/completions"},
		{Name: ":authority", Value: "127.0.0.1"},
		{Name: ":scheme", Value: "http"},
		{Name: "user-agent", Value: "bench/1"},
		{Name: "accept", Value: "*/*"},
		{Name: "content-type", Value: header.JSON},
		{Name: "content-length", Value: strconv.Itoa(len(body))},
		{Name: "x-forwarded-proto", Value: "http"},
		{Name: "x-request-id", Value: "e27b64a1-36b5-4a30-a7f8-36a0c2bf3f4a"},
		{Name: "x-envoy-external-address", Value: "127.0.0.1"},
	}, more...)
	if key != "" {
		h = append(h, header.Field{Name: "authorization", Value: "Bearer " + key})
	}
	l := &loopback{body: body}
	if err := g.gate.Serve(b.Context(), l, stream.NewHead(h, "127.0.0.1:1"), false); err != nil {
		b.Fatal(err)
	}
	if !bytes.Contains(l.sent, []byte("Monday")) {
		b.Fatalf("answered with %s", l.sent)
	}
}

// BenchGateway serves chat completions with a prepaid key.
func BenchGateway(b *testing.B, p BenchParts) (serve func(body []byte, more ...header.Field)) {
	b.Helper()
	g, secret := benchGateway(b, p)
	return func(body []byte, more ...header.Field) { g.serveOnce(b, secret, body, more...) }
}

// BenchmarkRequest is a non-streamed request from its headers to its answer, without Envoy and gRPC.
func BenchmarkRequest(b *testing.B) {
	g, secret := benchGateway(b, BenchParts{Layers: benchLayers})
	for _, tt := range []struct{ name, key string }{{"no key", ""}, {"prepaid key", secret}} {
		b.Run(tt.name, func(b *testing.B) {
			body := []byte(strings.ReplaceAll(benchRequest, "%s", strings.Repeat("The label says: fragile. ", 30)))
			b.ReportAllocs()
			for b.Loop() {
				g.serveOnce(b, tt.key, body)
			}
		})
	}
}
