package api

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Endpoints that show a key its balance, limits and requests.

// Balance is GET /v1/balance.
func (s *Server) Balance(ctx context.Context, c *Caller) (stream.Reply, error) {
	if c.Principal.Account == "" {
		return stream.Reply{}, fault.Newf(fault.InvalidAPIKey, "a balance belongs to an API key: send one")
	}
	b, err := s.Ledger.Balance(ctx, c.Principal.Account)
	if err != nil {
		return stream.Reply{}, err
	}
	limits, err := s.limitsOf(ctx, &c.Principal, time.Now())
	if err != nil {
		return stream.Reply{}, err
	}
	st := s.Limiter.Standing(time.Now(), c.Principal, c.Head.Peer)
	body := jsonx.AppendString([]byte(`{"account":`), string(c.Principal.Account))
	body = jsonx.AppendString(append(body, `,"tier":`...), string(c.Principal.Tier))
	body = append(append(body, `,"balance_usd":`...), jsonx.OrNull(c.Principal.Prepaid, b.Amount.String())...)
	body = append(append(body, `,"held_usd":`...), b.Held.String()...)
	body = append(append(body, `,"remaining_tokens":`...), jsonx.OrNull(st.TokensPerHour > 0, strconv.FormatInt(st.RemainingTokens, 10))...)
	if len(limits) > 0 {
		list, err := json.Marshal(limits)
		if err != nil {
			return stream.Reply{}, err
		}
		body = append(append(body, `,"limits":`...), list...)
	}
	return c.Head.JSON(append(body, '}')), nil
}

// spendLimit is a key's own daily or monthly limit, and what was spent of it, without reservations of requests in flight.
type spendLimit struct {
	Period string       `json:"period"`
	Limit  policy.Micro `json:"limit_usd"`
	Spent  policy.Micro `json:"spent_usd"`
	Resets time.Time    `json:"resets_at"`
}

// limitsOf returns the limits of the key itself. Those of its project and owner also concern other keys, and are not shown.
func (s *Server) limitsOf(ctx context.Context, p *policy.Principal, now time.Time) (list []spendLimit, err error) {
	now = now.UTC()
	day, month := now.Truncate(24*time.Hour), time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	add := func(period string, limit policy.Micro, since, resets time.Time) {
		if limit <= 0 || err != nil {
			return
		}
		l := spendLimit{Period: period, Limit: limit, Resets: resets}
		l.Spent, err = s.Ledger.SpentSince(ctx, p.Account, since)
		list = append(list, l)
	}
	add("day", p.Limits.SpendPerDay, day, day.AddDate(0, 0, 1))
	for _, b := range p.Budgets {
		if b.Holder == policy.OfKey {
			add("day", b.PerDay, day, day.AddDate(0, 0, 1))
			add("month", b.PerMonth, month, month.AddDate(0, 1, 0))
		}
	}
	return list, err
}

// Records of this gateway's requests are available immediately. Those of a request that another gateway on the same ledger answered, and whose key
// has no balance, follow within a moment, as do those of a client that has just disconnected.
const (
	recordPatience = time.Second
	recordPoll     = 20 * time.Millisecond
)

// Request is GET /v1/requests/{id}: a request's full routing and cost record, with the state of its payment and the caller's feedback. A payer of a
// single request has no key, so anyone who knows its unguessable id may read it.
func (s *Server) Request(ctx context.Context, c *Caller) (stream.Reply, error) {
	id := c.Head.Arg("/v1/requests/")
	payment, paid, err := s.payment(ctx, id)
	if err != nil {
		return stream.Reply{}, err
	}
	if !paid && c.Principal.Anonymous && !c.Head.Peer.IsLoopback() {
		return stream.Reply{}, unknownRequest(id)
	}
	caller := c.Principal.Account
	find := func(ctx context.Context) (ledger.Request, error) { return s.Ledger.Request(ctx, caller, id) }
	if paid {
		find = func(ctx context.Context) (ledger.Request, error) { return s.Ledger.AnyRequest(ctx, id) }
	}
	r, err := record(ctx, id, find)
	if err != nil {
		return stream.Reply{}, err
	}
	updated := withCharge(r.Record, r.Charged)
	if paid {
		updated = withPayment(updated, payment)
	}
	f, ok, err := s.Ledger.FeedbackOn(ctx, r.RequestID)
	if err != nil {
		return stream.Reply{}, err
	}
	if ok && f.Account == c.Principal.Account {
		updated = withFeedback(updated, &f)
	}
	return c.Head.JSON(updated), nil
}

// payment returns the state of a request's payment; ok is false if there is none.
func (s *Server) payment(ctx context.Context, id string) (state []byte, ok bool, err error) {
	if s.Paid == nil {
		return nil, false, nil
	}
	if state, ok, err = s.Paid.Of(ctx, id); err != nil {
		return nil, false, fault.New(fault.Unavailable, "payments cannot be read at the moment", err)
	}
	return state, ok, nil
}

// withPayment adds the state of the payment to a record.
func withPayment(record, state []byte) []byte {
	doc, err := jsonx.Scan(record)
	if err != nil {
		return record
	}
	var e jsonx.Edits
	e.Set(&doc, "payment", jsonx.Raw(string(state)))
	return e.AppendTo(nil, &doc)
}

// record calls find, and waits briefly for a record that does not exist yet.
func record(ctx context.Context, id string, find func(ctx context.Context) (ledger.Request, error)) (ledger.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	tick := time.NewTicker(recordPoll)
	defer tick.Stop()
	for {
		r, err := find(ctx)
		if err == nil || !errors.Is(err, ledger.ErrUnknownRequest) && ctx.Err() == nil {
			return r, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r, unknownRequest(id)
		}
	}
}

func unknownRequest(id string) error {
	return fault.Newf(fault.NotFound, "there is no request %q of this key; of requests that were refused before a provider was called only the latest are kept, the others are counted in /v1/usage", fault.Clip(id))
}

// record waits briefly for the record of a caller's own request.
func (s *Server) record(ctx context.Context, c *Caller, id string) (ledger.Request, error) {
	return record(ctx, id, func(ctx context.Context) (ledger.Request, error) {
		return s.Ledger.Request(ctx, c.Principal.Account, id)
	})
}

// withCharge replaces the charge in a record, which was written before the final charge was known.
func withCharge(record []byte, charged policy.Micro) []byte {
	doc, err := jsonx.Scan(record)
	if err != nil {
		return record
	}
	var e jsonx.Edits
	e.Set(&doc, "cost_usd", jsonx.Raw(charged.String()))
	return e.AppendTo(nil, &doc)
}
