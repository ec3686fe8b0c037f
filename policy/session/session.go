// Package session manages agents' sessions: the limits and the budget of their requests, their keys, and what agents store in them: checkpoints of
// their state, and a scratchpad. A sub-agent's session has a share of its parent's budget. It does not know HTTP, requests or prices.
package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
)

// idPrefix is the prefix of sessions' ids: a session_id of another form only groups requests.
const idPrefix = "ses_"

// idBytes is the number of random bytes in an id.
const idBytes = 15

// IsID reports whether a session_id has the form of a session's id.
func IsID(id string) bool {
	rest, ok := strings.CutPrefix(id, idPrefix)
	return ok && len(rest) == 2*idBytes && strings.Trim(rest, "0123456789abcdef") == ""
}

// Session is a session.
type Session struct {
	ID         string
	Account    policy.Account
	Parent     string // "" for none
	Golem      string
	Models     []string      // that its requests may use; none: any
	Subsystems []string      // whose requests it serves; none: any
	Tools      []string      // that its requests may offer and call; nil: any
	Budget     *policy.Micro // nil: none of its own
	At         time.Time
	Expires    time.Time
	Closed     bool

	depth  int
	secret []byte
	used   policy.Micro // by its own requests, and by deleted sub-sessions
	kept   policy.Micro // reserved for requests that are answered later
}

// Ended reports whether the session has ended.
func (s *Session) Ended(now time.Time) bool { return s.Closed || !now.Before(s.Expires) }

// Allows reports whether its requests may use a model.
func (s *Session) Allows(m policy.ModelID) bool {
	return len(s.Models) == 0 || slices.Contains(s.Models, string(m))
}

// AllowsSubsystem reports whether it serves the requests of a subsystem; "" is a request that names none.
func (s *Session) AllowsSubsystem(name string) bool {
	return len(s.Subsystems) == 0 || slices.Contains(s.Subsystems, name)
}

// Checkpoint is a stored state of an agent.
type Checkpoint struct {
	ID    string
	At    time.Time
	Bytes int
	State []byte // nil in lists
}

// Entry is an entry of a scratchpad.
type Entry struct {
	Key     string
	Version int64 // from 1
	Bytes   int
	Value   []byte // nil in lists
}

// Limits of what is stored.
const (
	maxSessions    = 1000 // of one account, not ended
	maxDepth       = 4
	maxCheckpoints = 100
	MaxState       = 256 << 10 // bytes of a checkpoint
	maxEntries     = 256
	maxBytes       = 256 << 20 // of all sessions of one account together
	MaxValue       = 64 << 10  // bytes of an entry
	MaxKey         = 128
	MaxLife        = 30 * 24 * time.Hour
	retention      = 7 * 24 * time.Hour // how long an ended session is kept
	maxEnded       = 1000               // of one account, besides those that ended in the last hour
	endedRecently  = time.Hour
	maxStored      = 10 * maxSessions // of one account, ended or not
)

// Errors.
var (
	// ErrUnknown means that the account has no such session, or the session no such item.
	ErrUnknown = errors.New("there is no such session")
	// ErrEnded means that the session was closed or has expired.
	ErrEnded = errors.New("the session is over")
	// ErrFull means that a limit is reached.
	ErrFull = errors.New("there is no room for more")
	// ErrConflict means that an entry has another version.
	ErrConflict = errors.New("the entry has another version")
	// ErrShare means that a sub-session requests what its parent does not have.
	ErrShare = errors.New("the parent session does not have that")
)

// ErrKey means that a stored value is encrypted with another key than the store's.
var ErrKey = seal.ErrKey

// SpentError means that a budget has less left than an amount.
type SpentError struct{ Left policy.Micro }

// Error returns the message for logs.
func (e *SpentError) Error() string {
	return fmt.Sprintf("the session's budget has %s USD left", e.Left)
}

// Store stores sessions. Safe for concurrent use. Errors are those of this package, or the store's.
type Store interface {
	Memory

	// Create stores a session.
	Create(ctx context.Context, s *Session) error
	// Find reads a session of any account.
	Find(ctx context.Context, id string) (Session, error)
	// Children returns the sessions directly below one.
	Children(ctx context.Context, id string) ([]Session, error)
	// Close ends a session and all below it.
	Close(ctx context.Context, id string) error
	// Tree returns a session and all below it, parents before their children.
	Tree(ctx context.Context, id string) ([]Session, error)
	// Spend adds a request's cost, once, and ends its reservation.
	Spend(ctx context.Context, id, request string, amount policy.Micro) error
	// StoreHold reserves an amount of a session's budget for a request, until it is spent or freed, or until a time.
	StoreHold(ctx context.Context, id, request string, amount policy.Micro, until time.Time) error
	// Free ends a request's reservation.
	Free(ctx context.Context, request string) error

	// AddCheckpoint stores a state; Checkpoints lists them, the latest first; Checkpoint reads one.
	AddCheckpoint(ctx context.Context, session string, c *Checkpoint) error
	Checkpoints(ctx context.Context, session string) ([]Checkpoint, error)
	Checkpoint(ctx context.Context, session, id string) (Checkpoint, error)

	// Put sets an entry if its version is as expected: 0 for one that is not there, below 0 for any. It returns the new version.
	Put(ctx context.Context, session, key string, expected int64, value []byte) (version int64, err error)
	Entry(ctx context.Context, session, key string) (Entry, error)
	Entries(ctx context.Context, session string) ([]Entry, error)
	// Remove deletes an entry; expected is as for Put.
	Remove(ctx context.Context, session, key string, expected int64) error
}

// Book manages sessions and their requests' reservations. Safe for concurrent use.
type Book struct {
	Store

	// Owner returns the principal of an account's key; ok is false for one that was revoked.
	Owner func(ctx context.Context, account policy.Account) (p policy.Principal, ok bool, err error)
	now   func() time.Time

	mu   sync.Mutex
	held map[string]policy.Micro // reserved by requests in flight
}

// New returns a book. now may be nil.
func New(s Store, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{Store: s, now: now, held: map[string]policy.Micro{}}
}

// newID returns an unguessable id.
func newID(prefix string) string {
	var b [idBytes]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return prefix + hex.EncodeToString(b[:])
}

// keyPrefix is the prefix of session keys: bardo_ss_<id without its prefix>_<secret>.
const keyPrefix = "bardo_ss_"

// Create creates a session with its own key, which is not stored. parent is nil for none. Unset fields are inherited from the parent; the error is
// ErrShare for what the parent does not have.
func (b *Book) Create(ctx context.Context, s *Session, parent *Session) (key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.ID, s.At = newID(idPrefix), b.now()
	if latest := s.At.Add(MaxLife); s.Expires.After(latest) {
		s.Expires = latest
	}
	if parent != nil {
		if err := b.share(ctx, s, parent); err != nil {
			return "", err
		}
	}
	secret := rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(secret))
	s.secret = sum[:]
	if err := b.Store.Create(ctx, s); err != nil {
		return "", err
	}
	return keyPrefix + strings.TrimPrefix(s.ID, idPrefix) + "_" + secret, nil
}

// Begin creates a session of a given id, without a key: its requests are authenticated otherwise. The error is the store's.
func (b *Book) Begin(ctx context.Context, s *Session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.At = b.now()
	sum := sha256.Sum256([]byte(rand.Text() + rand.Text())) // of a secret that is discarded
	s.secret = sum[:]
	return b.Store.Create(ctx, s)
}

// share sets what a sub-session gets from its parent. b.mu is locked.
func (b *Book) share(ctx context.Context, s, parent *Session) error {
	if parent.Ended(b.now()) {
		return ErrEnded
	}
	if s.depth = parent.depth + 1; s.depth > maxDepth {
		return fmt.Errorf("%w: sub-sessions are at most %d levels deep", ErrFull, maxDepth)
	}
	s.Parent = parent.ID
	if s.Expires.After(parent.Expires) {
		s.Expires = parent.Expires
	}
	if s.Golem == "" {
		s.Golem = parent.Golem
	}
	if err := s.narrow(parent); err != nil {
		return err
	}
	if parent.Budget == nil {
		return nil
	}
	left, err := b.left(ctx, parent)
	if err != nil {
		return err
	}
	if s.Budget == nil || *s.Budget > left {
		return fmt.Errorf("%w: a share of its budget, of which %s USD are left, has to be named", ErrShare, left)
	}
	return nil
}

// narrow copies the parent's restrictions to a sub-session's unset fields, and refuses what the parent may not use.
func (s *Session) narrow(parent *Session) error {
	if len(s.Models) == 0 {
		s.Models = parent.Models
	}
	if len(s.Subsystems) == 0 {
		s.Subsystems = parent.Subsystems
	}
	if s.Tools == nil {
		s.Tools = parent.Tools
	}
	for _, m := range s.Models {
		if !parent.Allows(policy.ModelID(m)) {
			return fmt.Errorf("%w: the model %q", ErrShare, m)
		}
	}
	for _, name := range s.Subsystems {
		if !parent.AllowsSubsystem(name) {
			return fmt.Errorf("%w: the subsystem %q", ErrShare, name)
		}
	}
	for _, name := range s.Tools {
		if parent.Tools != nil && !slices.Contains(parent.Tools, name) {
			return fmt.Errorf("%w: the tool %q", ErrShare, name)
		}
	}
	return nil
}

// left returns what a session with a budget may still spend or share. b.mu is locked.
func (b *Book) left(ctx context.Context, s *Session) (policy.Micro, error) {
	used, kept, err := b.used(ctx, s.ID)
	return max(*s.Budget-used-kept-b.held[s.ID], 0), err
}

// used returns the cost of a session's requests, including the shares of running sub-sessions and the cost of ended ones. kept is the reservation of
// its own requests that are answered later. b.mu is locked.
func (b *Book) used(ctx context.Context, id string) (used, kept policy.Micro, err error) {
	tree, err := b.Tree(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	now, sums := b.now(), make(map[string]policy.Micro, len(tree))
	for _, s := range slices.Backward(tree) { // children before their parents
		sum := sums[s.ID].Plus(s.used)
		if s.ID == id {
			return sum, s.kept, nil
		}
		sum = sum.Plus(s.kept).Plus(b.held[s.ID])
		if s.Budget != nil && !s.Ended(now) {
			sum = max(sum, *s.Budget)
		}
		sums[s.Parent] = sums[s.Parent].Plus(sum)
	}
	return 0, 0, ErrUnknown
}

// BudgetState is the state of a session's budget.
type BudgetState struct {
	Used, Held, Left policy.Micro // Left is zero without a budget
}

// BudgetState returns the state of a session's budget.
func (b *Book) BudgetState(ctx context.Context, s *Session) (st BudgetState, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var kept policy.Micro
	if st.Used, kept, err = b.used(ctx, s.ID); err != nil {
		return st, err
	}
	st.Held = kept.Plus(b.held[s.ID])
	if s.Budget != nil {
		st.Left = max(*s.Budget-st.Used-st.Held, 0)
	}
	return st, nil
}

// Use returns the session that an account's request names. bound is the session that the request's key is bound to, "" for none: the named one must
// be the same or below it.
func (b *Book) Use(ctx context.Context, account policy.Account, bound, id string) (Session, error) {
	s, err := b.Find(ctx, id)
	switch {
	case err != nil:
		return s, err
	case s.Account != account:
		return Session{}, ErrUnknown
	}
	for above := s; bound != "" && above.ID != bound; {
		if above.Parent == "" {
			return Session{}, ErrUnknown
		}
		if above, err = b.Find(ctx, above.Parent); err != nil {
			return Session{}, err
		}
	}
	return s, nil
}

// Hold is a request's reservation of its session's budget. A nil one reserves nothing.
type Hold struct {
	book    *Book
	session string
	amount  policy.Micro
	ended   bool
}

// Reserve reserves an amount of a session's budget, if it has one. The error is ErrEnded, a *SpentError, or the store's.
func (b *Book) Reserve(ctx context.Context, s *Session, amount policy.Micro) (*Hold, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Ended(b.now()) {
		return nil, ErrEnded
	}
	if s.Budget != nil {
		left, err := b.left(ctx, s)
		if err != nil {
			return nil, err
		}
		if amount > left {
			return nil, &SpentError{left}
		}
	}
	b.held[s.ID] += amount
	return &Hold{book: b, session: s.ID, amount: amount}, nil
}

// Persist stores the reservation, so that it survives a restart, for a request that is answered later: until its cost is added, it is freed, or until a
// time.
func (h *Hold) Persist(ctx context.Context, request string, until time.Time) error {
	if h == nil || h.ended {
		return nil
	}
	defer h.Release()
	return h.book.StoreHold(ctx, h.session, request, h.amount, until)
}

// Release ends the reservation.
func (h *Hold) Release() {
	if h == nil || h.ended {
		return
	}
	h.ended = true
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if h.book.held[h.session] -= h.amount; h.book.held[h.session] <= 0 {
		delete(h.book.held, h.session)
	}
}

// Principal returns the principal of a session's key; ok is false for a key of another kind. The error is ErrUnknown, ErrEnded, or the store's.
func (b *Book) Principal(ctx context.Context, key string) (p policy.Principal, ok bool, err error) {
	rest, ok := strings.CutPrefix(key, keyPrefix)
	if !ok {
		return p, false, nil
	}
	id, secret, _ := strings.Cut(rest, "_")
	if !IsID(idPrefix + id) {
		return p, true, ErrUnknown
	}
	s, err := b.Find(ctx, idPrefix+id)
	if err != nil {
		return p, true, err
	}
	if sum := sha256.Sum256([]byte(secret)); subtle.ConstantTimeCompare(sum[:], s.secret) != 1 {
		return p, true, ErrUnknown
	}
	if s.Ended(b.now()) {
		return p, true, ErrEnded
	}
	p, valid, err := b.Owner(ctx, s.Account)
	if err == nil && !valid {
		err = ErrEnded
	}
	p.Session = s.ID
	return p, true, err
}

// NewCheckpoint returns a checkpoint of a state, now.
func (b *Book) NewCheckpoint(state []byte) Checkpoint {
	return Checkpoint{ID: newID("chk_"), At: b.now(), Bytes: len(state), State: state}
}
