package extproc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Requests that are answered later (X-Bardo-Defer). Such a request is validated, authenticated, routed, and reserved for as any other, and then stored in
// place of its call. A run answers it later (deferred_run.go): the same request again, from its stored bytes, with a client that only keeps the answer.

// headerDefer says by when a request is to be answered, and that it need not be before.
const headerDefer = "x-bardo-defer"

// How long a request may be deferred.
const (
	leastDefer = time.Minute
	mostDefer  = 24 * time.Hour
)

// parseDefer reads X-Bardo-Defer.
func (x *exchange) parseDefer() error {
	said := x.Head.Header.Get(headerDefer)
	if said == "" || x.later != nil {
		return nil
	}
	d, err := time.ParseDuration(said)
	if err != nil || d < leastDefer || d > mostDefer {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: expected a duration from 1m to 24h, such as 24h, not %q", fault.Clip(said))
	}
	switch {
	case x.gw.Deferred == nil:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: this gateway answers no requests later (deferred.mode)")
	case x.Principal.Account == "":
		return fault.Newf(fault.InvalidAPIKey, "X-Bardo-Defer: an answer that comes later belongs to an API key: send one")
	case x.OwnKey.IsSet():
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a request with X-Bardo-Upstream-Key is answered now, because the key is not stored")
	}
	x.deferral.by = d
	return nil
}

// checkDeferrable refuses a request at an endpoint whose answers do not come later.
func (x *exchange) checkDeferrable(e *endpoint.Endpoint) error {
	if x.deferral.by == 0 || !e.Stored && e.Modality == nil && e.Op == chat.Generate {
		return nil
	}
	return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: requests to %s are answered now", fault.Clip(x.Head.Path))
}

// mayDefer refuses a request whose answer is of no use later, or must not be stored.
func (x *exchange) mayDefer() error {
	sub := x.Hints.Subsystem
	switch secret := x.isSecret(); {
	case x.Request.Stream:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: an answer that comes later is not streamed: leave out stream")
	case sub != "" && !intent.Offline(sub):
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: the subsystem %s needs its answers now; dreams, and the other subsystems that work offline, may wait", fault.Clip(sub))
	case x.Intent.PrivacyTier >= policy.PrivacyTEE:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: requests to enclaves are not stored")
	case secret && !x.gw.Deferred.Encrypts():
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a %s request is stored only where the operator has it encrypted (deferred.key)", max(x.Hints.SecurityClass, x.Intent.Security))
	}
	return nil
}

// isSecret reports whether the request is stored encrypted or not at all, and is never part of a batch: its provider would store it, too.
func (x *exchange) isSecret() bool {
	return x.Hints.SecurityClass != policy.SecurityStandard || x.Intent.Security != policy.SecurityStandard || x.Intent.PrivacyTier > policy.PrivacyUnsaid
}

// putOff stores the request, and answers that it is going to be answered.
func (x *exchange) putOff(ctx context.Context, d stream.Client) error {
	s := x.gw.Deferred
	if err := x.mayDefer(); err != nil {
		return err
	}
	owner, err := s.Owner(ctx)
	if err != nil {
		return fault.New(fault.Unavailable, "requests cannot be stored at the moment", err)
	}
	held := x.bill.Held()
	if err := x.bill.Stand(ctx, owner, x.Request.InputTokens); err != nil {
		return err
	}
	r := deferred.Request{
		ID: x.ID, Account: x.Principal.Account, Dialect: x.Head.Dialect(), Subsystem: x.Hints.Subsystem, Prepaid: x.Principal.Prepaid, Held: held, Secret: x.isSecret(),
		Deadline: x.Started.Add(x.deferral.by), Head: x.storedHead(), Body: x.deferral.body,
	}
	if err := s.Add(ctx, &r); err != nil {
		return errors.Join(x.notStored(err), x.gw.Ledger.ReleaseStanding(context.WithoutCancel(ctx), x.ID))
	}
	h := append(x.idHeaders(), header.Field{Name: "content-type", Value: header.JSON}, header.Field{Name: "cache-control", Value: "no-store"})
	return x.reply(d, stream.Reply{Status: http.StatusAccepted, Header: h, Body: api.DeferredBody(r.Dialect, r.ID, "deferred", r.Deadline)})
}

// notStored is what the client is told of a request that could not be stored.
func (x *exchange) notStored(err error) error {
	if !errors.Is(err, deferred.ErrFull) {
		return fault.New(fault.Unavailable, "requests cannot be stored at the moment", err)
	}
	f := fault.New(fault.RateLimited, "this key has as many deferred requests, or bytes of them, as it may have (deferred.max_requests, deferred.max_bytes): read their answers, or cancel some", err)
	f.RetryAfter, f.Final = time.Minute, true
	return f
}

// notStoredHeaders are headers of the client that are not stored: credentials, and what holds for the first answer alone.
var notStoredHeaders = []string{
	"authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "cookie", "x-bardo-upstream-key", headerDefer, "te", "expect", "origin",
}

// storedHead is the request's head without credentials. Nor is the cache used: a run may read the answer of a batch that was paid for.
func (x *exchange) storedHead() stream.Head {
	hd := x.Head
	hd.Header = slices.DeleteFunc(slices.Clone(hd.Header), func(f header.Field) bool { return slices.Contains(notStoredHeaders, f.Name) })
	hd.Header = append(hd.Header, header.Field{Name: "x-bardo-cache", Value: "off"})
	hd.Forged = nil
	return hd
}

// detached is the client of a run: nobody. It keeps the answer.
type detached struct {
	body  []byte
	reply *stream.Reply
}

var _ stream.Client = (*detached)(nil)

// errNobody is returned for what only a client that is there can get.
var errNobody = errors.New("nobody waits for the answer to a deferred request")

// RequestBody implements stream.Client.
func (d *detached) RequestBody(u stream.RequestBody) error { return u.Add(d.body) }

// Reply implements stream.Client.
func (d *detached) Reply(r stream.Reply) error {
	r.Body = bytes.Clone(r.Body)
	d.reply = &r
	return nil
}

// Forward implements stream.Client.
func (*detached) Forward(stream.Forward) error { return errNobody }

// Next implements stream.Client.
func (*detached) Next() (stream.Piece, error) { return stream.Piece{}, errNobody }

// Answer implements stream.Client.
func (*detached) Answer(stream.Reply, []string) error { return errNobody }

// StreamHead implements stream.Client.
func (*detached) StreamHead(int, header.List) error { return errNobody }

// StreamBody implements stream.Client.
func (*detached) StreamBody([]byte, bool) error { return errNobody }

// StreamTrailers implements stream.Client.
func (*detached) StreamTrailers(header.List) error { return errNobody }

// Leave implements stream.Client.
func (*detached) Leave(f func() error) error { return f() }

// isMasked reports whether a layer replaced values of the request: an answer to it can be understood with the same replacements alone.
func (x *exchange) isMasked() bool {
	return slices.ContainsFunc(x.Log, func(e pipelineEntry) bool { return strings.HasPrefix(e.Note, "masked") })
}

// egressClient is the client of Envoy's egress listener, for calls outside of a client's exchange.
func (g *Gateway) egressClient() *http.Client { return cmp.Or(g.Listener, g.Egress) }
