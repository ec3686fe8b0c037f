// Package pipeline runs the layers of context engineering over one exchange: in order on the way in, in reverse on the
// way out. It knows neither Envoy nor any provider.
package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Exchange is one client request and all the gateway has learned about it. It has one owner at a time.
type Exchange struct {
	ID        string
	Principal policy.Principal // zero until authenticated
	Hints     policy.Hints
	Request   *chat.Request
	Order     []policy.Resolution // the first is used, the rest are the failover order
	Answer    []chat.Event        // non-nil once a layer has answered locally
	Log       []Entry
}

// Entry is what one layer did to an exchange.
type Entry struct {
	Layer string
	Took  time.Duration
	Saved int64 // tokens
}

// Layer is one step of context engineering. Layers hold no per-request state; that lives in the Exchange.
// To answer without calling a provider, set x.Answer. To refuse, return a fault. Safe for concurrent use.
type Layer interface {
	Name() string
	Request(ctx context.Context, x *Exchange) error
}

// Responder is implemented by layers that also look at the answer, event by event. It returns what takes the event's place.
type Responder interface {
	Response(ctx context.Context, x *Exchange, ev chat.Event) ([]chat.Event, error)
}

// Pipeline is a list of layers. The zero value passes everything unchanged. Safe for concurrent use.
type Pipeline struct {
	layers     []Layer
	responders []Responder // in reverse order of layers
	names      []string    // of responders
}

// New makes a pipeline of layers in their order of execution.
func New(layers ...Layer) *Pipeline {
	p := &Pipeline{layers: layers}
	for _, l := range slices.Backward(layers) {
		if r, ok := l.(Responder); ok {
			p.responders = append(p.responders, r)
			p.names = append(p.names, l.Name())
		}
	}
	return p
}

// Request runs the layers until one answers or refuses.
func (p *Pipeline) Request(ctx context.Context, x *Exchange) error {
	for _, l := range p.layers {
		started, entries := time.Now(), len(x.Log)
		if err := l.Request(ctx, x); err != nil {
			return fmt.Errorf("layer %s: %w", l.Name(), err)
		}
		if len(x.Log) == entries {
			x.Log = append(x.Log, Entry{Layer: l.Name()})
		}
		x.Log[len(x.Log)-1].Took = time.Since(started)
		if x.Answer != nil {
			return nil
		}
	}
	return nil
}

// Edits reports whether any layer looks at answers: if not, a provider's bytes may pass unread.
func (p *Pipeline) Edits() bool { return len(p.responders) > 0 }

// Response passes events through the responding layers, last layer first.
func (p *Pipeline) Response(ctx context.Context, x *Exchange, events []chat.Event) ([]chat.Event, error) {
	for i, r := range p.responders {
		var out []chat.Event
		for _, ev := range events {
			evs, err := r.Response(ctx, x, ev)
			if err != nil {
				return nil, fmt.Errorf("layer %s: %w", p.names[i], err)
			}
			out = append(out, evs...)
		}
		events = out
	}
	return events, nil
}
