// Package providertest is the conformance test of all provider adapters. It passes requests and answers through an adapter as they are
// sent, and checks what the provider and the client read. It knows no adapter by name.
package providertest

import (
	"embed"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

//go:embed samples
var samples embed.FS

// dialects are the formats of clients, and of the samples.
var dialects = []wire.Dialect{openai.Dialect{}, anthropic.Dialect{}, gemini.Dialect{}}

// Names in the samples, and a key that may appear only where the provider expects it.
const (
	shownModel    = "shown-model"
	upstreamModel = "upstream-model"
	sampleKey     = "sk-very-secret"
	basePath      = "/base/v1"
	geminiPath    = basePath + "beta" // of a provider with several formats
)

// pairing is an adapter at an endpoint, and a client's dialect.
type pairing struct {
	adapter provider.Adapter
	at      provider.Endpoint
	client  wire.Dialect
	format  wire.Dialect // the dialect of the provider
}

func (p *pairing) same() bool { return p.client.Name() == p.format.Name() }

// Run tests adapters in all pairings of an endpoint's configured format with a client's dialect; each resulting format is tested once.
func Run(t *testing.T, adapters ...provider.Adapter) {
	t.Helper()
	for _, a := range adapters {
		t.Run(a.Name(), func(t *testing.T) {
			tested := map[[2]chat.Dialect]bool{}
			for _, configured := range dialects {
				for _, client := range dialects {
					at := provider.Endpoint{
						Provider: "p", Authority: "provider.example", BasePath: basePath, Key: secret.New(sampleKey), Dialect: configured.Name(),
					}
					p := &pairing{adapter: a, at: at, client: client}
					if p.format = dialect(a.Dialect(resolution(), at, client.Name())); p.format == nil {
						t.Fatalf("speaks %q, of which there are no samples", a.Dialect(resolution(), at, client.Name()))
					}
					what := [2]chat.Dialect{client.Name(), p.format.Name()}
					if tested[what] {
						continue
					}
					tested[what] = true
					t.Run(string(what[0])+" to "+string(what[1]), p.test)
				}
			}
		})
	}
}

func dialect(name chat.Dialect) wire.Dialect {
	for _, d := range dialects {
		if d.Name() == name {
			return d
		}
	}
	return nil
}

func (p *pairing) test(t *testing.T) {
	t.Run("requests", p.testRequests)
	t.Run("content", p.testContent)
	t.Run("credentials", p.testCredentials)
	t.Run("answers", p.testAnswers)
	t.Run("cuts", p.testCuts)
	t.Run("truncation", p.testTruncation)
	t.Run("errors", p.testErrors)
}

// request is the client's sample request.
func (p *pairing) request(t *testing.T, stream bool) *chat.Request {
	t.Helper()
	body := sample(t, p.client, "request.json")
	client, path := p.client, gemini.Root+"/"+shownModel+":generateContent"
	if stream {
		path = gemini.Root + "/" + shownModel + ":streamGenerateContent?alt=sse"
	}
	if _, addressed := client.(wire.Addressed); addressed {
		client = at(client, path)
	} else if stream {
		body = append([]byte(`{"stream": true,`), body[1:]...)
	}
	req, err := client.Decode(chat.Generate, nil, "", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// at returns the dialect of a request's path.
func at(d wire.Dialect, path string) wire.Dialect {
	addressed, ok := d.(wire.Addressed)
	if !ok {
		return d
	}
	path, query, _ := strings.Cut(strings.NewReplacer(geminiPath+"/models", gemini.Root, basePath+"/models", gemini.Root).Replace(path), "?")
	return addressed.ForPath(path, query)
}

func (p *pairing) encode(t *testing.T, req *chat.Request, to policy.Resolution) *provider.Call {
	t.Helper()
	call, err := p.adapter.Encode(make([]byte, 0, 16), req, to, p.at)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func resolution() policy.Resolution {
	return policy.Resolution{Provider: "p", Model: shownModel, Upstream: upstreamModel}
}

func sample(t *testing.T, d wire.Dialect, name string) []byte {
	t.Helper()
	b, err := samples.ReadFile("samples/" + string(d.Name()) + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
