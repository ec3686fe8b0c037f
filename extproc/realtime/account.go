package realtime

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"

	"bardo.money/gateway/internal/fault"
)

// Host is the gateway of a session. Its methods, and those of its turns, are called one at a time, except Inspect, which one goroutine calls beside them. Their
// errors are faults.
type Host interface {
	// Inspect searches the texts of a client's event, {"input":["…"]}, before it is sent. If it returns an error the event is not sent.
	Inspect(ctx context.Context, texts []byte) error
	// NewTurn returns the turn of one response. It holds nothing yet.
	NewTurn() Turn
	// Check returns why the session must end now, or nil.
	Check(ctx context.Context) error
	// Error returns the object of an error in the format of the API.
	Error(f *fault.Fault) json.RawMessage
}

// Turn is what the gateway does for one response: limits, reservation, charge and record. A turn ends with Settle or Release, or when Reserve fails.
type Turn interface {
	// Reserve reserves the highest cost of a response. The first call also admits it; later ones replace the reservation. If it fails the turn has ended.
	Reserve(ctx context.Context, n Need) error
	// Owe is Reserve for a response that began without a reservation: it reserves what it can, and its cost is charged in any case.
	Owe(ctx context.Context, n Need)
	// Begin notes that the response began.
	Begin()
	// Settle charges for the response, which has begun.
	Settle(ctx context.Context, u *Usage, how Outcome) error
	// Release ends a turn whose response did not begin.
	Release()
}

// Outcome is how a response ended.
type Outcome uint8

// The outcomes.
const (
	Complete  Outcome = iota // the provider reported its end
	Failed                   // the provider reported that it failed
	Cancelled                // the session ended during it
	Cut                      // the provider's connection broke during it
)

// Need is what a response may use at most, in tokens: of input, and of output. Output is Unlimited if only the model limits it.
type Need struct{ Context, Output int64 }

// Unlimited is the output of a response without a limit of its own.
const Unlimited = math.MaxInt64

// account reserves and charges the responses of one session. Not safe for concurrent use.
type account struct {
	host    Host
	window  int64       // the model's context window in tokens; 0: unknown
	ready   []*prepared // not begun
	begun   map[string]Turn
	refused error // the last failure of prepare
}

// prepared is a turn with a reservation.
type prepared struct {
	Turn
	Need
}

// leastContext is the number of tokens of input that a reservation covers at least.
const leastContext = 4096

// roundedContext returns the number of tokens to reserve for a context: more than it has, so that not every event changes the reservation.
func (a *account) roundedContext(context int64) int64 {
	n := int64(leastContext)
	for n < context && n < math.MaxInt64/2 {
		n *= 2
	}
	return min(n, max(a.limit(), context))
}

// limit returns the model's context window.
func (a *account) limit() int64 {
	if a.window <= 0 {
		return math.MaxInt64
	}
	return a.window
}

// prepare reserves responses that read at most context tokens each, in addition to those that have begun: one for each limit of its output. Others that
// were prepared are released. If it fails, fewer may be prepared.
func (a *account) prepare(ctx context.Context, outputs []int64, context int64) (err error) {
	defer func() { a.refused = err }()
	context = min(context, a.limit())
	slices.SortFunc(outputs, func(x, y int64) int { return cmp.Compare(y, x) })
	slices.SortStableFunc(a.ready, func(x, y *prepared) int { return cmp.Compare(y.Output, x.Output) })
	for i, output := range outputs {
		if i < len(a.ready) && a.ready[i].Context >= context && a.ready[i].Output == output {
			continue
		}
		n := Need{a.roundedContext(context), output}
		if i == len(a.ready) {
			a.ready = append(a.ready, &prepared{Turn: a.host.NewTurn()})
		}
		if err := a.ready[i].Reserve(ctx, n); err != nil {
			a.ready = slices.Delete(a.ready, i, i+1)
			return err
		}
		a.ready[i].Need = n
	}
	for _, p := range a.ready[len(outputs):] {
		p.Release()
	}
	a.ready = a.ready[:len(outputs)]
	return nil
}

// begin notes that a response with a limit of its output began, which uses up a prepared turn. If none is prepared it returns an error, and the response is
// charged nonetheless.
func (a *account) begin(ctx context.Context, id string, n Need) (err error) {
	t := a.take(ctx, n)
	if t == nil {
		if err = a.refused; err == nil {
			err = fault.Newf(fault.InsufficientFunds, "a response began that was not paid for")
		}
		n.Context = a.roundedContext(n.Context)
		t = a.host.NewTurn()
		t.Owe(ctx, n)
	}
	t.Begin()
	a.begun[id] = t
	return err
}

// take removes the smallest prepared turn that covers a response; else the largest, whose reservation is raised. It returns nil if there is none.
func (a *account) take(ctx context.Context, n Need) Turn {
	if len(a.ready) == 0 {
		return nil
	}
	at, covers := 0, false
	for i, p := range a.ready {
		enough := p.Output >= n.Output
		if best := a.ready[at]; i == 0 || enough && (!covers || p.Output < best.Output) || !enough && !covers && p.Output > best.Output {
			at, covers = i, enough
		}
	}
	p := a.ready[at]
	a.ready = slices.Delete(a.ready, at, at+1)
	if covers {
		return p.Turn
	}
	n.Context = p.Context
	if a.refused = p.Reserve(ctx, n); a.refused != nil {
		return nil
	}
	return p.Turn
}

// done charges for a response that has begun.
func (a *account) done(ctx context.Context, id string, u *Usage, how Outcome) error {
	t := a.begun[id]
	if t == nil {
		return nil
	}
	delete(a.begun, id)
	return t.Settle(ctx, u, how)
}

// release ends what is prepared and was not used.
func (a *account) release() {
	for _, p := range a.ready {
		p.Release()
	}
	a.ready = nil
}
