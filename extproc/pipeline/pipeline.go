// Package pipeline runs the layers between client and provider: in order on the request, in reverse order on the answer. It does not know
// Envoy or the providers.
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
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Exchange is one client request and all the gateway has learned about it. It has one owner at a time.
type Exchange struct {
	ID         string
	Principal  policy.Principal // zero until authenticated
	Hints      policy.Hints
	Header     header.List // the client's
	Request    *chat.Request
	Whole      *chat.Request            // the request before a layer shortened its history; nil: none did
	Profile    string                   // pipeline profile, which selects the layers that run; "" runs all
	Intent     policy.Intent            // what the request needs of a model
	Found      []policy.Resolution      // candidates, best first, before health is considered
	Affinity   Affinity                 // where the prompt cache is warm for this conversation
	Order      []policy.Resolution      // candidates in failover order, after health
	Answer     *cache.Entry             // non-nil once a layer has answered locally
	Current    func(*cache.Served) bool // see cache.Ticket
	Cache      *cache.Ticket            // nil if the request is not cacheable
	CacheLayer string                   // name of the layer that stores answers in Cache
	Similarity float64                  // to the question of the stored Answer; 0 if it is the same question
	Market     cache.Market             // of the agent that sends the request
	Served     *cache.Served            // set before the answer's End event
	Log        []Entry
	Knobs      policy.Knobs // settings of layers for this request, by the governor
	Side       SideCaller   // nil: layers cannot make calls
	Tags       []policy.Tag // decisions of the operator's rules, at most policy.MaxTags

	Repeated    bool     // the layers ran before for this request and reported it: a deferred request's run
	Deferred    bool     // the answer is stored for later: layers run again at each step, and must do the same
	Unread      bool     // the answer is discarded: a deferred request that was cancelled after it was answered
	ProtectOnly bool     // only protecting layers run: the user's own key pays, or the body is sent unchanged
	DirectKey   bool     // a configured key of the user's pays: layers protect without changing what is sent (D-39)
	CallersKey  bool     // a candidate uses a key of the caller's own: a configured one (providers.direct), or one in the request
	Files       int      // images and recordings that are not in the request's document
	NoText      bool     // the answer is audio or images
	WholeAnswer bool     // a layer needs the whole answer before any of it is sent
	Holding     bool     // a layer is holding back events
	OnlyTools   []string // that the request's session may use; nil: any
	MayChange   bool     // a layer may change the rest of an answer whose start was sent

	NoRounds   bool // calls of layers' own tools cannot be answered: see MayCall
	callers    []caller
	transcript *transcript.Transcript // of Request, or an earlier form of it

	// NewRestorer, if a layer sets it, restores in an answer that is not a conversation what the layer removed from its request.
	NewRestorer func(inJSON bool) Restorer

	slots    []any // by Slot.index
	watchers []watcher
	later    []laterHeader
	events   [2][]chat.Event // buffers of Response, reused
}

// Affinity is the provider, key and endpoint that served a conversation before, whose prompt cache is warm. It never overrides health, privacy
// or the client's choice. The zero value has no preference.
type Affinity struct {
	Provider policy.ProviderID
	Key      keyring.ID // the provider's key, if it has several
	Hash     uint64     // chooses among the provider's equal endpoints; 0 means any
}

// Entry is the log of one layer's run.
type Entry struct {
	Layer    string
	Began    time.Time
	Took     time.Duration
	Budget   time.Duration // the layer's time limit; 0 means none
	TimedOut bool          // it exceeded its budget, and its changes were not made
	Saved    int64         // tokens saved, as the layer estimates them
	Removed  int64         // the same in the measure of chat.Request.InputTokens; the pipeline sets it for a layer that saved something
	Change   Change        // positions of the change, which determine the value of the saving
	Recalled int64         // omitted parts of an earlier request that had to be fetched again
	Note     string        // further parameters in X-Bardo-Pipeline, without content: masked;email=2
	Later    Noter         // provides the note when the log is written; may be nil
}

// Noter provides the note of a layer's run after the layer has run. Note must not block; the entry is omitted while it is "".
type Noter interface{ Note() string }

// Change is where a layer omitted a part of a request, in tokens as in Saved. It determines the value of the saving, because providers charge a
// fraction of the price for what is in their prompt caches. The zero value is a part that is omitted from every request of the conversation in the
// same way.
type Change struct {
	New    int64 // omitted part after the last answer, which no cache can contain
	Before int64 // tokens before the first omission
	Again  int64 // tokens after a place that changed since the previous request, which contained them
}

// Late reports whether the layer exceeded its budget.
func (e *Entry) Late() bool { return e.Budget > 0 && e.Took > e.Budget }

// Layer is one step of context engineering. Layers hold no per-request state: that is in the Exchange, and a layer's own in a Slot. To answer without
// calling a provider, set x.Answer. To refuse, return a fault. To see the answer, call x.Watch. Safe for concurrent use.
type Layer interface {
	Name() string
	// Profiles returns the pipeline profiles that run the layer, besides ProfileFull.
	Profiles() []string
	Request(ctx context.Context, x *Exchange) error
}

// Selective is implemented by layers that do not apply to most requests: Request is only called, timed and logged if Applies returns true.
// Applies must be cheap.
type Selective interface {
	Applies(x *Exchange) bool
}

// Budgeted is implemented by optional layers with a time limit, after which the context of Request ends. A layer that returns the context's
// error is skipped, and must not have changed the exchange; a layer may also finish its work.
type Budgeted interface {
	Budget() time.Duration
}

// Timed is implemented by layers that only compute. Expected is the expected maximum duration. A longer run is marked late but used: its changes must
// not depend on the clock, or the provider's prompt cache would miss.
type Timed interface {
	Expected(x *Exchange) time.Duration
}

// Waiting is implemented by layers whose Request may wait for anything but the processor: a local model, a file, another program. Waits must be
// cheap, and may be true for a request that Applies then rejects. In Envoy's process such a request moves off the worker's thread.
type Waiting interface {
	Waits(x *Exchange) bool
}

// Stepped is implemented by layers with steps that can be disabled one by one, to measure their value.
type Stepped interface {
	Steps() []string
	WithoutStep(name string) Layer
}

// Protecting is implemented by layers that run for every request, even if the others are skipped (Exchange.ProtectOnly).
type Protecting interface {
	Protects()
}

// Demanding is implemented by layers that must see every request, or every answer, of some callers. Demands returns what an exchange's caller or request
// demands of it, as in "personal data is masked"; "" for nothing. Such an exchange must not be served in a form that the layer cannot read.
type Demanding interface {
	Demands(x *Exchange) string
}

// Forbidding is implemented by layers that know texts which must not leave this gateway, whatever they are part of. Forbids returns a fault if the
// exchange's request has one.
type Forbidding interface {
	Forbids(ctx context.Context, x *Exchange) error
}

// Guarding is implemented by layers for which keys may have their own policies (policy.Guards). Guard returns the name of such a policy, and its
// effect on a caller's requests of a security class.
type Guarding interface {
	Guard(p *policy.Principal, class policy.SecurityClass) (name, does string)
}

// Finisher is implemented by layers that need to know which provider and key gave a complete answer. Finish is not called for stored answers
// and must not block.
type Finisher interface {
	Finish(x *Exchange, by policy.ProviderID, key keyring.ID)
}

// Responder is implemented by layers that process the events of answers. Response appends the events that replace ev to out. It gets the events
// of every attempt: each starts with Start, and only a complete answer has End. Events are valid during the call.
type Responder interface {
	Response(ctx context.Context, x *Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error)
}

// Restorer changes a byte stream that is split arbitrarily. Feed appends what is complete after a chunk, Close what was held back.
type Restorer interface {
	Feed(out, chunk []byte) []byte
	Close(out []byte) []byte
}

type watcher struct {
	name string
	Responder
}

// laterHeader is a header of the answer whose value is determined after the request is sent.
type laterHeader struct {
	name  string
	value func(answered bool) string
}

// Announce adds a header to the answer, or to the error. value is called when the headers are sent, and must not block; "" omits the header.
func (x *Exchange) Announce(name string, value func() string) {
	x.later = append(x.later, laterHeader{name, func(bool) string { return value() }})
}

// AnnounceAnswer is Announce; value's argument reports whether the headers are those of an answer, or of an error. It may be called again, with an
// error after an answer that was not sent.
func (x *Exchange) AnnounceAnswer(name string, value func(answered bool) string) {
	x.later = append(x.later, laterHeader{name, value})
}

// Announced appends the announced headers to those of an answer, with their current values.
func (x *Exchange) Announced(h header.List) header.List { return x.announced(h, true) }

// AnnouncedError is Announced for an error.
func (x *Exchange) AnnouncedError(h header.List) header.List { return x.announced(h, false) }

func (x *Exchange) announced(h header.List, answered bool) header.List {
	for _, l := range x.later {
		if v := l.value(answered); v != "" {
			h = append(h, header.Field{Name: l.name, Value: v})
		}
	}
	return h
}

// KeepsNothing reports whether nothing of the request may be written to disk: it is confidential or private, or its provider must not log it. The
// privacy tier of its task class counts if the operator's mode enforces it: the intent has it then.
func (x *Exchange) KeepsNothing() bool {
	return x.Hints.SecurityClass != policy.SecurityStandard || x.Intent.IsPrivate()
}

// MayShare reports whether data learned from the request may be kept in memory for other requests of the same account. Callers without a key are one
// account (D-05).
func (x *Exchange) MayShare() bool { return x.Principal.Account != "" || !x.KeepsNothing() }

// KeepsToPrivate reports whether services other than providers must not see the request, unless the operator declares that they keep nothing: the
// request is private, has a privacy tier, or is for an enclave (D-05).
func (x *Exchange) KeepsToPrivate() bool {
	return x.Intent.Security == policy.SecurityPrivate || x.Hints.SecurityClass == policy.SecurityPrivate || x.Intent.PrivacyTier != policy.PrivacyUnset || x.ForEnclave()
}

// CacheTenant returns the tenant whose stored answers the request uses and adds to: its account, or with pooled the pool that keys of the free plan
// share (D-31). Requests of agents, confidential or private ones, those with personal data, and those that a user's own key may serve, whose account at
// the provider may change its answers, do not use the pool.
func (x *Exchange) CacheTenant(pooled bool) policy.Account {
	p := &x.Principal
	if !pooled || p.Tier != policy.TierFree || p.Account == "" || p.Anonymous || x.CallersKey || x.Hints.GolemID != "" || x.Hints.Subsystem != "" || x.KeepsNothing() || slices.ContainsFunc(x.Log, isPersonal) {
		return p.Account // "" is the tenant of clients without a key
	}
	return policy.FreePool
}

// isPersonal reports whether a log entry reports personal data.
func isPersonal(e Entry) bool { return e.Layer == "l7" && e.Note != "" }

// Transcript returns the request's turns, texts and tools with their positions. Layers share it until one changes the request.
func (x *Exchange) Transcript() (*transcript.Transcript, error) {
	if x.transcript == nil || !x.transcript.Is(x.Request) {
		t, err := transcript.Of(x.Request)
		if err != nil {
			return nil, fmt.Errorf("reading the request again: %w", err)
		}
		x.transcript = t
	}
	return x.transcript, nil
}

// Change applies a transcript to the request. If that fails the request is unchanged.
func (x *Exchange) Change(t *transcript.Transcript) error {
	r, err := t.Request()
	if err != nil {
		return fmt.Errorf("changing the request: %w", err)
	}
	x.Request = r
	return nil
}

// Watch registers a layer for this exchange's answer. Without watchers an answer may be forwarded without parsing.
func (x *Exchange) Watch(name string, r Responder) {
	x.watchers = append(x.watchers, watcher{name, r})
}

// Replay answers the exchange with a stored entry. The layer that stored it, and those after it, do not process it again: the entry is
// their output.
func (x *Exchange) Replay(e *cache.Entry) {
	x.Answer = e
	if i := slices.IndexFunc(x.watchers, func(w watcher) bool { return w.name == x.CacheLayer }); i >= 0 {
		x.watchers = x.watchers[:i]
	}
}

// Tag adds a decision of the operator's rules. Decisions beyond a record's maximum are dropped.
func (x *Exchange) Tag(t policy.Tag) {
	if len(x.Tags) < policy.MaxTags {
		x.Tags = append(x.Tags, t)
	}
}

// Untag removes a layer's decisions about an answer, when another attempt begins.
func (x *Exchange) Untag(by string) {
	x.Tags = slices.DeleteFunc(x.Tags, func(t policy.Tag) bool {
		return t.By == by && (t.Stage == policy.StageCall || t.Stage == policy.StageResponse)
	})
}

// Watched reports whether any layer processes the answer.
func (x *Exchange) Watched() bool { return len(x.watchers) > 0 }

// Pipeline is a list of layers. The zero value has none. Safe for concurrent use.
type Pipeline struct{ layers []stage }

// stage is a layer, and the optional interfaces that it implements; nil for the others.
type stage struct {
	Layer
	profiles  []string
	protects  bool
	selective Selective
	waiting   Waiting
	finisher  Finisher
}

// New returns a pipeline of layers in the order of execution.
func New(layers ...Layer) *Pipeline {
	p := &Pipeline{}
	for _, l := range layers {
		s := stage{Layer: l, profiles: l.Profiles()}
		_, s.protects = l.(Protecting)
		s.selective, _ = l.(Selective)
		s.waiting, _ = l.(Waiting)
		s.finisher, _ = l.(Finisher)
		p.layers = append(p.layers, s)
	}
	return p
}

// Demands returns what the layers that an exchange's profile runs must do with it; "" for nothing. Call it for a request that they cannot read.
func (p *Pipeline) Demands(x *Exchange) string {
	for i := range p.layers {
		if d, ok := p.layers[i].Layer.(Demanding); ok && p.layers[i].runs(x) {
			if what := d.Demands(x); what != "" {
				return what
			}
		}
	}
	return ""
}

// Request runs the layers until one answers or returns an error, or the client has disconnected.
func (p *Pipeline) Request(ctx context.Context, x *Exchange) error {
	for i := range p.layers {
		s := &p.layers[i]
		if !s.runs(x) || s.selective != nil && !s.selective.Applies(x) {
			continue
		}
		l := s.Layer
		started, entries, tokens := time.Now(), len(x.Log), x.inputTokens()
		budget, skipped, err := runBudgeted(ctx, l, x)
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.Name(), err)
		}
		if len(x.Log) == entries {
			x.Log = append(x.Log, Entry{Layer: l.Name()})
		}
		e := &x.Log[len(x.Log)-1]
		e.Began, e.Took, e.Budget, e.TimedOut = started, time.Since(started), budget, skipped
		if e.Saved > 0 {
			e.Removed = max(0, tokens-x.inputTokens())
		}
		if errors.Is(ctx.Err(), context.Canceled) { // even if the layer can continue without what it waited for
			return context.Cause(ctx)
		}
		if x.Answer != nil {
			return nil
		}
	}
	return nil
}

// Recalled records that a part that a layer omitted was fetched again.
func (x *Exchange) Recalled(layer string) {
	for i := range x.Log {
		if x.Log[i].Layer == layer {
			x.Log[i].Recalled++
		}
	}
}

// inputTokens returns the estimate of the request's current length.
func (x *Exchange) inputTokens() int64 {
	if x.Request == nil {
		return 0
	}
	return x.Request.InputTokens
}

// Forbids returns a fault if a request has a text that must not leave this gateway. Nothing else is done with the request. A nil pipeline forbids nothing.
func (p *Pipeline) Forbids(ctx context.Context, x *Exchange) error {
	if p == nil {
		return nil
	}
	for i := range p.layers {
		if l, ok := p.layers[i].Layer.(Forbidding); ok {
			if err := l.Forbids(ctx, x); err != nil {
				return fmt.Errorf("layer %s: %w", p.layers[i].Name(), err)
			}
		}
	}
	return nil
}

// Guards returns what layers do by policy to a caller's requests of a security class, by the policy's name. A nil pipeline does nothing.
func (p *Pipeline) Guards(who *policy.Principal, class policy.SecurityClass) map[string]string {
	if p == nil {
		return nil
	}
	out := make(map[string]string)
	for _, l := range p.layers {
		if g, ok := l.Layer.(Guarding); ok {
			name, does := g.Guard(who, class)
			out[name] = does
		}
	}
	return out
}

// Waits reports whether a layer that runs for an exchange may wait.
func (p *Pipeline) Waits(x *Exchange) bool {
	for i := range p.layers {
		if s := &p.layers[i]; s.waiting != nil && s.runs(x) && s.waiting.Waits(x) {
			return true
		}
	}
	return false
}

// runBudgeted runs a layer within its budget, if it has one. skipped is true if it exceeded the budget and is skipped.
func runBudgeted(ctx context.Context, l Layer, x *Exchange) (budget time.Duration, skipped bool, err error) {
	b, ok := l.(Budgeted)
	if !ok {
		if t, ok := l.(Timed); ok {
			budget = t.Expected(x)
		}
		return budget, false, l.Request(ctx, x)
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

// Finish calls Finish of the layers that ran for an exchange.
func (p *Pipeline) Finish(x *Exchange, by policy.ProviderID, key keyring.ID) {
	if len(x.Log) == 0 {
		return
	}
	for i := range p.layers {
		s := &p.layers[i]
		if s.finisher != nil && slices.ContainsFunc(x.Log, func(e Entry) bool { return e.Layer == s.Name() && !e.TimedOut }) {
			s.finisher.Finish(x, by, key)
		}
	}
}

// Response passes an event through the watching layers, last layer first. The events are valid until the next call.
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
