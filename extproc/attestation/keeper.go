package attestation

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/attestation"
	"bardo.money/gateway/policy/e2ee"
)

// The events of attestations.
var (
	EventVerified = event.Declare[Event]("venice:tee_attestation", "A receipt of an enclave was verified.").Audited()
	EventRefused  = event.Declare[Event]("venice:attestation_error", "An answer was discarded: it is not attested.").Audited()
	EventVoid     = event.Declare[Event]("venice:attestation_void", "A receipt is void: its answer was not used.").Audited()
	EventSealed   = event.Declare[Event]("venice:e2ee_error", "An answer was discarded: it cannot be decrypted.").Audited()
)

// Subject is the request and candidate that a receipt is about.
type Subject struct {
	RequestID, GolemID, Subsystem, TaskClass string

	Tick     int64
	Account  policy.Account
	Provider policy.ProviderID
	Model    policy.ModelID
}

// Event is the event of an attestation. It has no content, and nothing of an untrusted receipt.
type Event struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	TaskClass string            `json:"task_class,omitempty"`
	Tick      int64             `json:"tick,omitempty"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Verified  bool              `json:"verified"`
	Enclave   string            `json:"enclave_measurement,omitempty"`
	Hash      string            `json:"attestation_hash,omitempty"` // of the token
	Error     string            `json:"error,omitempty"`
	Reason    string            `json:"reason,omitempty"` // see attestation.Reason
	Age       int64             `json:"receipt_age_ms,omitempty"`
}

// Keeper stores the tokens of attested answers, and emits events of them and of refused ones. Safe for concurrent use.
type Keeper struct {
	Book   *attestation.Book
	Events *event.Sink
	Plane  *cognition.Bridge // may be nil
	Log    *slog.Logger
}

// StoredToken is a stored token. The zero value is none. Not safe for concurrent use.
type StoredToken struct {
	Token string // its hash

	by    *Keeper
	of    *Subject
	proof *Proof
}

// Void marks the stored token as void, once: its answer is not sent after all.
func (t *StoredToken) Void(ctx context.Context, reason attestation.Reason) {
	if t.by != nil {
		t.by.Void(ctx, t.of, t.proof, reason)
	}
	*t = StoredToken{}
}

// Keep stores the token of a verified answer before the answer is sent. The error is a fault.
func (k *Keeper) Keep(ctx context.Context, s *Subject, p *Proof) (StoredToken, error) {
	t, err := k.add(ctx, s, p, "")
	if err != nil {
		return StoredToken{}, fault.New(fault.Internal, "the proof of this answer could not be stored, so that it is not sent", err)
	}
	e := s.event()
	e.Verified, e.Enclave, e.Hash, e.Age = true, t.Measurement, t.TokenHash, p.At.Sub(time.UnixMilli(p.Receipt.Timestamp)).Milliseconds()
	k.emit(EventVerified, s, &e)
	return StoredToken{Token: t.TokenHash, by: k, of: s, proof: p}, nil
}

// Void stores a verified receipt as void: its answer cannot be used. It does nothing if none was verified; p may be nil.
func (k *Keeper) Void(ctx context.Context, s *Subject, p *Proof, reason attestation.Reason) {
	if p == nil || p.Receipt == nil {
		return
	}
	t, err := k.add(ctx, s, p, reason)
	if err != nil {
		k.Log.Error("a void attestation was not stored", "request", s.RequestID, "error", err)
		return
	}
	e := s.event()
	e.Enclave, e.Hash, e.Reason = t.Measurement, t.TokenHash, string(reason)
	k.emit(EventVoid, s, &e)
}

func (k *Keeper) add(ctx context.Context, s *Subject, p *Proof, void attestation.Reason) (*attestation.Token, error) {
	if p.Receipt == nil {
		return nil, errors.New("the receipt was not verified")
	}
	t := p.Token(void)
	t.RequestID, t.GolemID, t.TaskClass, t.Tick, t.Provider = s.RequestID, s.GolemID, s.TaskClass, s.Tick, string(s.Provider)
	return t, k.Book.Add(context.WithoutCancel(ctx), t)
}

// Refuse emits the event of an answer that was discarded because it is not attested. name is the error's name; cause is an attestation.Reason.
func (k *Keeper) Refuse(s *Subject, name string, cause error) {
	reason, ok := errors.AsType[attestation.Reason](cause)
	if !ok {
		return
	}
	k.Log.Warn("an answer was discarded: it is not attested", "request", s.RequestID, "provider", string(s.Provider), "model", string(s.Model), "reason", string(reason))
	e := s.event()
	e.Error, e.Reason = name, string(reason)
	k.emit(EventRefused, s, &e)
}

// NotOpened emits the event of an answer that was discarded because it cannot be decrypted. name is the error's name; cause is an e2ee.Reason.
func (k *Keeper) NotOpened(s *Subject, name string, cause error) {
	reason, ok := errors.AsType[e2ee.Reason](cause)
	if !ok {
		return
	}
	k.Log.Warn("an answer was discarded: it cannot be decrypted", "request", s.RequestID, "provider", string(s.Provider), "model", string(s.Model), "reason", string(reason))
	e := s.event()
	e.Error, e.Reason = name, string(reason)
	k.emit(EventSealed, s, &e)
}

func (s *Subject) event() Event {
	return Event{RequestID: s.RequestID, Subsystem: s.Subsystem, TaskClass: s.TaskClass, Tick: s.Tick, Provider: s.Provider, Model: s.Model}
}

func (k *Keeper) emit(kind event.Kind[Event], s *Subject, e *Event) {
	if kind != EventSealed {
		k.Plane.Attested(s.Account, cognition.Attestation{Tick: tickOf(s.Tick), Enclave: e.Enclave, Verified: e.Verified, Failure: e.Reason, LatencyMS: e.Age})
	}
	if k.Events.On() {
		kind.Emit(k.Events, s.Account, *e)
	}
}

// tickOf formats a tick for the event; "" for none.
func tickOf(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
