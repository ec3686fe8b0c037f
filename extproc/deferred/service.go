package deferred

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/batch"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
)

// Runner serves requests. Safe for concurrent use.
type Runner interface {
	// Plan returns the first call of a request; nil if it is not to be made in a batch. The error means that the request will not be served; Answer
	// returns why.
	Plan(ctx context.Context, r *Request) (*Planned, error)
	// Answer serves a request to its end, or until ctx is done. If the cause is ErrCancelled, the request is booked: what it has used is charged.
	Answer(ctx context.Context, r *Request, run *Run) Served
	// Expired returns the answer to a request that was not answered in time.
	Expired(r *Request) stream.Reply
	// Target returns a provider's batch API, with the key of a fingerprint; ok is false if it is no longer configured.
	Target(provider policy.ProviderID, key string) (t batch.Target, ok bool)
	// Idle reports whether no client's request is in flight.
	Idle() bool
	// Draining reports whether no new work may begin.
	Draining() bool
}

// Planned is a call that may be part of a batch.
type Planned struct {
	Provider policy.ProviderID
	Key      string // fingerprint of the provider's key
	Path     string // relative to the provider's base URL
	Model    string // provider and model, as in the catalog
	Beta     string
	Digest   []byte
	Masked   bool
	Body     []byte
}

// Run is one attempt to answer a request.
type Run struct {
	Calls []Call            // stored calls, which are not made again
	Keep  func(*Call) error // stores the answer of a call before it is used; safe for concurrent use
	Last  bool              // there is no time for another run
	// Cancelled: the request was cancelled. No further provider is called; earlier answers are charged, and discarded.
	Cancelled bool
}

// Served is the result of a run.
type Served struct {
	Reply  stream.Reply
	Booked bool // the request was charged, or booked without a charge: it must not run again
	Again  bool // it failed for a temporary reason, and was not booked
}

// Books reserve the money of requests. Safe for concurrent use.
type Books interface {
	ReleaseStandingHold(ctx context.Context, requestID string) error
	RequestsWithStandingHold(ctx context.Context, owner string) ([]string, error)
	Charged(ctx context.Context, account policy.Account, requestID string) (bool, error)
	// ReserveStandingHold makes a standing reservation for a request, on behalf of owner.
	ReserveStandingHold(ctx context.Context, account policy.Account, requestID string, amount policy.Micro, owner string) error
}

// Options are the times and limits of deferred requests. All are positive.
type Options struct {
	Batches       bool          // use batch APIs
	Gather        time.Duration // how long requests are collected for a batch
	Poll          time.Duration // interval of polling a batch
	Fallback      time.Duration // time before the deadline from which a request no longer waits for a batch
	Keep          time.Duration // retention of an unread answer
	KeepDelivered time.Duration // retention of an answer that was read
	PerAccount    Limits
}

// Event is a change of a request's state.
type Event struct {
	RequestID string    `json:"request_id"`
	Subsystem string    `json:"subsystem,omitempty"`
	State     string    `json:"state"` // accepted, batched, answered, failed, expired, cancelled
	Status    int       `json:"status,omitempty"`
	Batch     bool      `json:"batch,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Events are the kinds of events, by state.
var Events = map[string]event.Kind[Event]{
	"accepted":  event.Declare[Event]("inference:deferred_accepted", "A request is answered later."),
	"batched":   event.Declare[Event]("inference:deferred_batched", "A deferred request was given to a provider in a batch."),
	"answered":  event.Declare[Event]("inference:deferred_answered", "A deferred request has its answer."),
	"failed":    event.Declare[Event]("inference:deferred_failed", "A deferred request has an error in place of an answer."),
	"expired":   event.Declare[Event]("inference:deferred_expired", "A deferred request was not answered in time.").Audited(),
	"cancelled": event.Declare[Event]("inference:deferred_cancelled", "A deferred request was cancelled by its client.").Audited(),
}

// Service stores deferred requests and has them answered. Safe for concurrent use.
type Service struct {
	Path   string    // the store's file, created with the first request
	Keys   seal.Keys // keys for encrypting content
	Runner Runner
	Books  Books
	Log    *slog.Logger
	Emit   func(account policy.Account, e *Event) // may be nil
	Now    func() time.Time                       // nil means time.Now

	options atomic.Pointer[Options]
	store   atomic.Pointer[Store]
	opening sync.Mutex
	wake    chan struct{}

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // cancels the current work on a request
}

// NewService initialises a service.
func NewService(s *Service, o Options) *Service {
	s.wake, s.running = make(chan struct{}, 1), map[string]context.CancelCauseFunc{}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Emit == nil {
		s.Emit = func(policy.Account, *Event) {}
	}
	s.Use(o)
	return s
}

// Use changes the options.
func (s *Service) Use(o Options) { s.options.Store(&o) }

// Open opens the store, if its file exists, before requests are accepted.
func (s *Service) Open(ctx context.Context) error {
	if _, err := os.Stat(s.Path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	st, err := s.opened(ctx)
	if err != nil {
		return err
	}
	return s.reconcile(ctx, st, true)
}

// opened returns the store, and creates it if there is none.
func (s *Service) opened(ctx context.Context) (*Store, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if st := s.store.Load(); st != nil {
		return st, nil
	}
	st, err := OpenStore(context.WithoutCancel(ctx), s.Path, s.Keys, s.Now)
	if err == nil {
		s.store.Store(st)
	}
	return st, err
}

// Close closes the store. Run must have ended.
func (s *Service) Close() error {
	if st := s.store.Load(); st != nil {
		return st.Close()
	}
	return nil
}

// Encrypts reports whether content is encrypted with the operator's own key, which is not stored beside it.
func (s *Service) Encrypts() bool { return s.Keys.Set != "" }

// Owner returns the name under which requests' reservations stand in the ledger.
func (s *Service) Owner(ctx context.Context) (string, error) {
	st, err := s.opened(ctx)
	if err != nil {
		return "", err
	}
	return st.Owner(), nil
}

// Add stores a request. The error is ErrFull, or the store's.
func (s *Service) Add(ctx context.Context, r *Request) error {
	st, err := s.opened(ctx)
	if err != nil {
		return err
	}
	if err := st.Add(ctx, r, s.options.Load().PerAccount); err != nil {
		return err
	}
	s.emit(r, "accepted", 0)
	s.poke()
	return nil
}

func (s *Service) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Service) emit(r *Request, state string, status int) {
	s.Emit(r.Account, &Event{RequestID: r.ID, Subsystem: r.Subsystem, State: state, Status: status, Batch: r.state == fetched || state == "batched", ExpiresAt: r.Deadline.UTC()})
}

// ErrCancelled is the cause of a context that ended because the request was cancelled.
var ErrCancelled = errors.New("the deferred request was cancelled")

// Errors of Answer and Cancel.
var (
	// ErrUnknown means that the account has no such request.
	ErrUnknown = errors.New("there is no such deferred request")
	// ErrGone means that it was cancelled, or that its answer was deleted.
	ErrGone = errors.New("the answer is gone")
)

// Status is the state of a request.
type Status struct {
	Request Request
	Batched bool
	Answer  *stream.Reply // nil until there is one
}

// Answer returns the status of an account's request. read: the caller gets the answer, which is deleted a while later.
func (s *Service) Answer(ctx context.Context, account policy.Account, id string, read bool) (Status, error) {
	st := s.store.Load()
	if st == nil {
		return Status{}, ErrUnknown
	}
	r, err := st.find(ctx, account, id)
	switch {
	case err != nil:
		return Status{}, err
	case r.state == gone || r.Cancelled:
		return Status{}, ErrGone
	case r.state != over:
		return Status{Request: r, Batched: r.state == grouped}, nil
	}
	a, err := st.answer(ctx, id, read)
	return Status{Request: r, Answer: a}, err
}

// find reads a request of an account.
func (s *Store) find(ctx context.Context, account policy.Account, id string) (Request, error) {
	r, err := scanRequest(s.db.QueryRowContext(ctx, selectRequest+`WHERE id = ? AND account = ?`, id, account))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknown
	}
	return r, err
}

// answer reads a stored answer. read marks it as delivered.
func (s *Store) answer(ctx context.Context, id string, read bool) (*stream.Reply, error) {
	var b []byte
	if err := s.db.QueryRowContext(ctx, `SELECT answer FROM request WHERE id = ?`, id).Scan(&b); err != nil {
		return nil, err
	}
	if b == nil {
		return nil, ErrGone
	}
	text, err := s.seal.Open("answer "+id, b)
	if err != nil {
		return nil, err
	}
	var a stream.Reply
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, err
	}
	if read {
		_, err = s.exec(ctx, `UPDATE request SET delivered = coalesce(delivered, ?) WHERE id = ?`, s.now().UnixMicro(), id)
	}
	return &a, err
}

// Cancel ends a request, or deletes its answer. A call in flight is cancelled, and what it has used is charged, as after a client's disconnect
// (D-81). A request in a submitted batch is charged for the batch's result. The answer is discarded.
func (s *Service) Cancel(ctx context.Context, account policy.Account, id string) error {
	st := s.store.Load()
	if st == nil {
		return ErrUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := st.find(ctx, account, id)
	if err != nil {
		return err
	}
	switch {
	case r.state == gone || r.Cancelled:
		return ErrGone
	case r.state == over:
		return st.erase(ctx, id)
	}
	stop := s.running[id]
	ended, err := st.cancel(ctx, &r, stop == nil)
	if err != nil {
		return err
	}
	if stop != nil {
		stop(ErrCancelled)
	}
	s.emit(&r, "cancelled", 0)
	if ended {
		s.release(ctx, id)
	}
	s.poke()
	return nil
}

// cancel marks a request as cancelled. ended: nothing had begun, so it is over; may is false if something has.
func (s *Store) cancel(ctx context.Context, r *Request, may bool) (ended bool, err error) {
	err = s.atomically(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE request SET cancelled = 1, due = ? WHERE id = ?`, s.now().UnixMicro(), r.ID); err != nil {
			return err
		}
		if ended, err = cancellable(ctx, tx, r); err != nil || !ended || !may {
			ended = false
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE batch SET input = ? || input WHERE id = ? AND input <> ''`, outdated, r.batch); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE request SET state = ?, done = ?, size = 0, head = NULL, body = NULL WHERE id = ?`, gone, s.now().UnixMicro(), r.ID); err != nil {
			return err
		}
		return dropWork(ctx, tx, r.ID)
	})
	return ended, err
}

// cancellable reports whether no work on a request has begun.
func cancellable(ctx context.Context, tx *sql.Tx, r *Request) (bool, error) {
	var calls, submitted int64
	err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM call WHERE request = ?), (SELECT count(*) FROM batch WHERE id = ? AND state <> ?)`, r.ID, r.batch, gathering).Scan(&calls, &submitted)
	return calls == 0 && submitted == 0, err
}

// erase deletes an answer.
func (s *Store) erase(ctx context.Context, id string) error {
	if _, err := s.exec(ctx, `UPDATE request SET state = ?, size = 0, answer = NULL WHERE id = ?`, gone, id); err != nil {
		return err
	}
	return s.truncate(ctx)
}

// truncate also removes deleted data from the journal.
func (s *Store) truncate(ctx context.Context) error {
	_, err := s.exec(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

// claim reserves a request, so that nothing else works on it until it is released. own ends with ctx, or when the request is cancelled. ok is false
// if it is claimed already, or its state has changed.
func (s *Service) claim(ctx context.Context, st *Store, r *Request) (own context.Context, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[r.ID] != nil {
		return nil, false
	}
	now, err := st.find(ctx, r.Account, r.ID)
	if err != nil || now.state != r.state {
		return nil, false
	}
	*r = now
	own, s.running[r.ID] = context.WithCancelCause(ctx)
	return own, true
}

func (s *Service) drop(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[r.ID](nil)
	delete(s.running, r.ID)
}

// release releases a request's standing reservation. If that fails, reconcile does it later.
func (s *Service) release(ctx context.Context, id string) {
	if err := s.Books.ReleaseStandingHold(context.WithoutCancel(ctx), id); err != nil {
		s.Log.Warn("what was held for a deferred request was not given back yet", "request", id, "error", err)
	}
}
