// Command faulty is a libbardo.so with faults: parts of it panic where a request, or a provider's name, says so.
package main

import (
	"bytes"
	"strings"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/stream/module"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

func init() {
	module.Register(func(dir string) (module.App, error) {
		p := parts.All()
		p.Dialects[chat.OpenAI] = openAI{openai.Dialect{}}
		p.Dialects[chat.Anthropic] = claude{anthropic.Dialect{}}
		p.Dialects[chat.Gemini] = google{gemini.Dialect{}}
		for i, a := range p.Adapters {
			if own, ok := a.(custom.Adapter); ok {
				p.Adapters[i] = adapter{own}
			}
		}
		return run.StartInside(p, dir, run.Host{Calls: module.Transport(), Cut: module.Cut})
	})
}

func main() {}

// The dialects panic on the thread of Envoy's worker, which reads a request.
type (
	openAI struct{ openai.Dialect }
	claude struct{ anthropic.Dialect }
	google struct{ gemini.Dialect }
)

func decode(d wire.Dialect, op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	if bytes.Contains(body, []byte("panic while reading")) {
		panic("told to")
	}
	return d.Decode(op, h, query, body)
}

func (d openAI) Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	return decode(d.Dialect, op, h, query, body)
}

func (d claude) Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	return decode(d.Dialect, op, h, query, body)
}

func (d google) Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	return decode(d.Dialect, op, h, query, body)
}

// ForPath implements wire.Addressed.
func (d google) ForPath(path, query string) wire.Dialect {
	at, _ := d.Dialect.ForPath(path, query).(gemini.Dialect)
	return google{at}
}

// adapter panics where an attempt's request is written, and where a provider is pinged.
type adapter struct{ custom.Adapter }

func (a adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if strings.HasPrefix(string(to.Model), "panics") {
		panic("told to")
	}
	return a.Adapter.Encode(buf, req, to, at)
}

func (a adapter) Ping(at provider.Endpoint) *provider.Call {
	if strings.HasPrefix(string(at.Provider), "panics") {
		panic("told to")
	}
	return a.Adapter.Ping(at)
}
