// Package pipeline runs the layers of context engineering over one exchange: in order on the way in, in reverse on the
// way out. It knows neither Envoy nor any provider.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Exchange is one client request and all the gateway has learned about it. It has one owner at a time.
type Exchange struct {
	ID        string
	Principal policy.Principal // zero until authenticated
	Hints     policy.Hints
	Header    header.List // the client's
	Request   *chat.Request
	Profile   string                   // how much context engineering it gets; "" is all
	Intent    policy.Intent            // what it needs
	Found     []policy.Resolution      // who could serve it, best first, before health has a say
	Affinity  Affinity                 // where its beginning is warm
	Order     []policy.Resolution      // the first is used, the rest are the failover order
	Answer    *cache.Entry             // non-nil once a layer has answered locally
	Current   func(*cache.Served) bool // see cache.Ticket
	Cache     *cache.Ticket            // nil: the cache of answers has no part in it
	Keeper    string                   // the layer that keeps answers in it
	Served    *cache.Served            // who answered, and what it took; known when the answer's End passes the layers
	Log       []Entry

	watchers []watcher
	events   [2][]chat.Event // of Response, used again and again
}

// Affinity is where a conversation was served before, so that what a provider keeps of it is used again. It never stands over health,
// privacy or what was asked for. The zero value is nowhere.
type Affinity struct {
	Provider policy.ProviderID
	Key      keyring.ID // of several keys of the provider
	Hash     uint64     // chooses among its equal endpoints; 0: no matter which
	Marks    [][16]byte // the beginnings by which the layer knows the conversation
}

// Entry is what one layer did to an exchange.
type Entry struct {
	Layer  string
	Took   time.Duration
	Budget time.Duration // what it may take; 0: nothing is said of it
	Left   bool          // it was left out when its budget was used up
	Saved  int64         // tokens
}

// Late reports whether the layer took longer than it may.
func (e *Entry) Late() bool { return e.Budget > 0 && e.Took > e.Budget }

// Layer is one step of context engineering. Layers hold no per-request state; that lives in the Exchange.
// To answer without calling a provider, set x.Answer. To refuse, return a fault. To see the answer, call x.Watch. Safe for
// concurrent use.
type Layer interface {
	Name() string
	Request(ctx context.Context, x *Exchange) error
}

// Selective is implemented by layers that have nothing to do for most exchanges: Request is called only where Applies says so, and
// only then is the layer's work timed and told. It must cost next to nothing.
type Selective interface {
	Applies(x *Exchange) bool
}

// Budgeted is implemented by layers that a request can do without. The context of their Request ends when the budget is used up. A layer
// that then returns its error is left out, and must have changed nothing of the exchange; one that is nearly done may as well end its work.
type Budgeted interface {
	Budget() time.Duration
}

// Finisher is implemented by layers that want to know who gave an answer, once it is complete. It is not called for stored answers. It must
// not block.
type Finisher interface {
	Finish(x *Exchange, by policy.ProviderID, key keyring.ID)
}

// Responder is implemented by layers that also look at answers, event by event. It appends what takes the event's place to out.
// Every attempt's events come by: an answer begins with its Start, and only a complete one reaches End. Events are valid
// during the call.
type Responder interface {
	Response(ctx context.Context, x *Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error)
}

type watcher struct {
	name string
	Responder
}

// Watch lets a layer see this exchange's answer. Nobody else's work is slowed by it: bytes that no layer watches pass unread.
func (x *Exchange) Watch(name string, r Responder) {
	x.watchers = append(x.watchers, watcher{name, r})
}

// Replay makes a stored answer the exchange's own. The layer that keeps answers, and those behind it, do not see it again: it is what
// came of them when it was stored.
func (x *Exchange) Replay(e *cache.Entry) {
	x.Answer = e
	if i := slices.IndexFunc(x.watchers, func(w watcher) bool { return w.name == x.Keeper }); i >= 0 {
		x.watchers = x.watchers[:i]
	}
}

// Watched reports whether any layer looks at the answer.
func (x *Exchange) Watched() bool { return len(x.watchers) > 0 }

// Pipeline is a list of layers. The zero value passes everything unchanged. Safe for concurrent use.
type Pipeline struct{ layers []Layer }

// New makes a pipeline of layers in their order of execution.
func New(layers ...Layer) *Pipeline { return &Pipeline{layers: layers} }

// Request runs the layers until one answers or refuses.
func (p *Pipeline) Request(ctx context.Context, x *Exchange) error {
	for _, l := range p.layers {
		if s, ok := l.(Selective); !Runs(x.Profile, l.Name()) || ok && !s.Applies(x) {
			continue
		}
		started, entries := time.Now(), len(x.Log)
		budget, left, err := within(ctx, l, x)
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.Name(), err)
		}
		if len(x.Log) == entries {
			x.Log = append(x.Log, Entry{Layer: l.Name()})
		}
		e := &x.Log[len(x.Log)-1]
		e.Took, e.Budget, e.Left = time.Since(started), budget, left
		if x.Answer != nil {
			return nil
		}
	}
	return nil
}

// within runs a layer within its budget, if it has one. left is whether it gave up for that.
func within(ctx context.Context, l Layer, x *Exchange) (budget time.Duration, left bool, err error) {
	b, ok := l.(Budgeted)
	if !ok {
		return 0, false, l.Request(ctx, x)
	}
	budget = b.Budget()
	own, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	err = l.Request(own, x)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return budget, true, nil
	}
	return budget, false, err
}

// Finish tells the layers that worked on an exchange who answered it.
func (p *Pipeline) Finish(x *Exchange, by policy.ProviderID, key keyring.ID) {
	for _, l := range p.layers {
		f, ok := l.(Finisher)
		if ok && slices.ContainsFunc(x.Log, func(e Entry) bool { return e.Layer == l.Name() && !e.Left }) {
			f.Finish(x, by, key)
		}
	}
}

// Response passes an event through the layers that watch, last layer first. The events are valid until the next call.
func (x *Exchange) Response(ctx context.Context, ev *chat.Event) ([]chat.Event, error) {
	in, out := x.events[0][:0], x.events[1][:0]
	in = append(in, *ev)
	for _, w := range slices.Backward(x.watchers) {
		for i := range in {
			var err error
			if out, err = w.Response(ctx, x, &in[i], out); err != nil {
				return nil, fmt.Errorf("layer %s: %w", w.name, err)
			}
		}
		in, out = out, in[:0]
	}
	x.events = [2][]chat.Event{in, out}
	return in, nil
}
