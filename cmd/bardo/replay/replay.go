// Package replay runs recorded conversations through the gateway's layers, with simulated providers that model prompt caches, and reports what each layer
// saves.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Result is the cost of a trace, direct or through the gateway.
type Result struct {
	Requests int
	Local    int // answered without a provider call
	Bill
	Layers map[string]*LayerResult // by name
}

// LayerResult is the effect of one layer.
type LayerResult struct {
	Runs  int
	Took  time.Duration
	Saved int64       // tokens, as reported by the layer
	Worth policy.Pico // the additional cost of the trace without the layer

	Steps map[string]*LayerResult // of a layer with steps: those that saved something; without Took
}

// Options configure a replay.
type Options struct {
	Config *config.Config
	Parts  func() run.Parts // of a gateway without any state
	Prices func(model string) policy.Prices
}

// Direct is the cost of a trace without a gateway: of the clients' requests with their own cache marks.
func Direct(o Options, trace []Request) Result {
	var now time.Time
	p := &provider{now: func() time.Time { return now }, prices: o.Prices, cached: map[cacheKey]time.Time{}}
	out := Result{Requests: len(trace)}
	for _, r := range trace {
		now, p.answer = r.At, r.Answer
		p.call(r.Path, r.Body)
	}
	out.Bill = p.takeBill()
	return out
}

// Without is a layer that is left out of a replay, or one step of it: "l5", or "l5" and "near". The zero value leaves out nothing.
type Without struct{ Layer, Step string }

// from returns the remaining layers.
func (w Without) from(layers []pipeline.Layer) (out []pipeline.Layer) {
	for _, l := range layers {
		s, ok := l.(pipeline.Stepped)
		switch {
		case l.Name() != w.Layer:
		case w.Step == "":
			continue
		case ok:
			l = s.WithoutStep(w.Step)
		}
		out = append(out, l)
	}
	return out
}

// Through is the cost of a trace through the gateway, without a layer or a step. It replaces the process's clock while it runs.
func Through(ctx context.Context, o Options, trace []Request, without Without) (out Result, err error) {
	dir, err := os.MkdirTemp("", "bardo-replay-")
	if err != nil {
		return out, err
	}
	defer func() {
		if removeErr := os.RemoveAll(dir); err == nil {
			err = removeErr
		}
	}()
	var now time.Time
	clock.Replace(func() time.Time { return now })
	defer clock.Replace(nil)
	p := &provider{now: func() time.Time { return now }, prices: o.Prices, cached: map[cacheKey]time.Time{}}
	parts := o.Parts()
	layers := parts.Layers
	parts.Layers = func(cfg *config.Config, s *run.Services) []pipeline.Layer {
		return without.from(layers(cfg, s))
	}
	g, err := run.OpenOffline(ctx, o.Config, parts, dir, func(c run.UpstreamCall) []byte { return p.call(c.Path, c.Body) })
	if err != nil {
		return out, err
	}
	defer func() {
		if closeErr := g.Close(); err == nil {
			err = closeErr
		}
	}()
	out.Layers = map[string]*LayerResult{}
	for i, r := range trace {
		now, p.answer = r.At, r.Answer
		if err := out.add(ctx, g, r); err != nil {
			return out, fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	out.Bill = p.takeBill()
	return out, nil
}

// add serves one request and adds the effects of its layers.
func (out *Result) add(ctx context.Context, g *run.Offline, r Request) error {
	reply, err := g.Serve(ctx, headersOf(r), r.Body)
	if err != nil {
		return err
	}
	if reply.Status != http.StatusOK {
		return fmt.Errorf("%d %s", reply.Status, bytes.TrimSpace(reply.Body))
	}
	out.Requests++
	if c := reply.Header.Get("x-bardo-cache"); c != "" && c != "miss" {
		out.Local++
	}
	out.addLayers(reply.Header.Get("x-bardo-pipeline"))
	return nil
}

// addLayers parses the pipeline header: "l3;dur=0.04, l4;dur=1.20;saved=11800".
func (out *Result) addLayers(did string) {
	for entry := range strings.SplitSeq(did, ", ") {
		fields := strings.Split(entry, ";")
		if fields[0] == "" {
			continue
		}
		l := out.Layers[fields[0]]
		if l == nil {
			l = &LayerResult{}
			out.Layers[fields[0]] = l
		}
		l.Runs++
		for _, f := range fields[1:] {
			switch key, value, _ := strings.Cut(f, "="); key {
			case "dur":
				ms, _ := strconv.ParseFloat(value, 64)
				l.Took += time.Duration(ms * float64(time.Millisecond))
			case "saved":
				n, _ := strconv.ParseInt(value, 10, 64)
				l.Saved += n
			default:
				l.step(key, value)
			}
		}
	}
}

// step adds what a step of the layer saved, as reported by the layer: near=300.
func (l *LayerResult) step(name, value string) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return
	}
	if l.Steps == nil {
		l.Steps = map[string]*LayerResult{}
	}
	if l.Steps[name] == nil {
		l.Steps[name] = &LayerResult{}
	}
	l.Steps[name].Runs++
	l.Steps[name].Saved += n
}

// headersOf returns a request's headers, as from Envoy.
func headersOf(r Request) header.List {
	h := header.List{
		{Name: ":method", Value: http.MethodPost},
		{Name: ":path", Value: r.Path},
		{Name: ":authority", Value: "127.0.0.1"},
		{Name: ":scheme", Value: "http"},
		{Name: "content-type", Value: header.JSON},
		{Name: "content-length", Value: strconv.Itoa(len(r.Body))},
		{Name: "x-forwarded-proto", Value: "http"},
		{Name: "x-envoy-external-address", Value: "127.0.0.1"},
	}
	for name, value := range r.Headers {
		h = append(h, header.Field{Name: strings.ToLower(name), Value: value})
	}
	return h
}

// Compared is a trace's cost directly and through the gateway.
type Compared struct {
	Direct, Gateway Result
}

// Compare replays a trace directly, through the gateway, and through the gateway without each of its layers and steps.
func Compare(ctx context.Context, o Options, trace []Request) (out Compared, err error) {
	out.Direct = Direct(o, trace)
	if out.Gateway, err = Through(ctx, o, trace, Without{}); err != nil {
		return out, err
	}
	measure := func(w Without, to *policy.Pico) error {
		less, err := Through(ctx, o, trace, w)
		if err != nil {
			return fmt.Errorf("without %s %s: %w", w.Layer, w.Step, err)
		}
		*to = less.Cost - out.Gateway.Cost
		return nil
	}
	stepped := o.stepped()
	for name, l := range out.Gateway.Layers {
		if err := measure(Without{Layer: name}, &l.Worth); err != nil {
			return out, err
		}
		maps.DeleteFunc(l.Steps, func(step string, _ *LayerResult) bool { return !slices.Contains(stepped[name], step) })
		for step, r := range l.Steps {
			if err := measure(Without{name, step}, &r.Worth); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// stepped returns the steps of the layers that have steps.
func (o *Options) stepped() map[string][]string {
	out := map[string][]string{}
	parts := o.Parts()
	for _, l := range parts.Layers(o.Config, &run.Services{Answers: nil, Secret: func() []byte { return nil }}) {
		if s, ok := l.(pipeline.Stepped); ok {
			out[l.Name()] = s.Steps()
		}
	}
	return out
}

// Saved is the share of the direct cost that the gateway saves; negative if it costs more.
func (c Compared) Saved() float64 {
	if c.Direct.Cost == 0 {
		return 0
	}
	return 1 - float64(c.Gateway.Cost)/float64(c.Direct.Cost)
}

// MarshalJSON encodes the comparison, with amounts in dollars.
func (c Compared) MarshalJSON() ([]byte, error) {
	type costs struct {
		Requests    int     `json:"requests"`
		Local       int     `json:"local"`
		Calls       int     `json:"calls"`
		Input       int64   `json:"input_tokens"`
		Cached      int64   `json:"cached_tokens"`
		Written     int64   `json:"cache_write_tokens"`
		Output      int64   `json:"output_tokens"`
		CachedShare float64 `json:"cached_share"`
		Cost        float64 `json:"cost_usd"`
	}
	type step struct {
		Runs  int     `json:"runs"`
		Saved int64   `json:"saved_tokens"`
		Worth float64 `json:"worth_usd"`
	}
	type layer struct {
		Runs  int             `json:"runs"`
		Saved int64           `json:"saved_tokens"`
		Worth float64         `json:"worth_usd"`
		MS    float64         `json:"mean_ms"`
		Steps map[string]step `json:"steps,omitempty"`
	}
	of := func(r *Result) costs {
		return costs{r.Requests, r.Local, r.Calls, r.Input, r.Cached, r.Written, r.Output, r.CachedShare(), dollars(r.Cost)}
	}
	layers := map[string]layer{}
	for name, l := range c.Gateway.Layers {
		of := layer{l.Runs, l.Saved, dollars(l.Worth), l.Took.Seconds() * 1000 / float64(max(l.Runs, 1)), map[string]step{}}
		for name, s := range l.Steps {
			of.Steps[name] = step{s.Runs, s.Saved, dollars(s.Worth)}
		}
		layers[name] = of
	}
	return json.Marshal(struct {
		Direct  costs            `json:"direct"`
		Gateway costs            `json:"gateway"`
		Saved   float64          `json:"saved_share"`
		Layers  map[string]layer `json:"layers"`
	}{of(&c.Direct), of(&c.Gateway), c.Saved(), layers})
}

func dollars(p policy.Pico) float64 { return float64(p) / 1e12 }
