package passthrough

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Users' own keys serve all callers of the gateway, and can access what any of them created. So the gateway records owners: resources of other
// accounts are not found, and lists contain only the caller's own.

// settle records the owner of the resources in a successful answer, and returns the answer for the caller. New resources are recorded before their
// creator gets the answer.
func (c *call) settle(ctx context.Context, body []byte) ([]byte, error) {
	if c.Head.Method == http.MethodDelete && c.path.rest == "" {
		return body, c.s.Ledger.RemoveStoredResource(ctx, c.path.name())
	}
	doc, err := jsonx.Scan(body)
	switch {
	case err != nil && c.isList():
		return nil, c.unreadable(err)
	case err != nil:
		return body, nil //nolint:nilerr // nothing that the gateway knows
	case c.isList():
		return c.filterOwned(ctx, &doc)
	}
	members := []string{"output_file_id", "error_file_id"}
	if c.Head.Method == http.MethodPost && c.path.id == "" {
		name, _ := c.path.members()
		members = append(members, name)
	}
	err = c.recordOwner(ctx, &doc, members...)
	return c.rewriteURL(body, &doc), err
}

// isList reports whether the request is for all resources of a kind, including those of the key's other users.
func (c *call) isList() bool {
	return (c.Head.Method == http.MethodGet || c.Head.Method == http.MethodHead) && c.path.id == ""
}

// unreadable refuses to pass on a list whose resources cannot be determined.
func (c *call) unreadable(err error) error {
	f := fault.New(fault.Upstream, fmt.Sprintf("the list of provider %s cannot be read", c.id), err)
	c.ended(record.Failed, f.HTTPStatus(), f)
	return f
}

// recordOwner records the caller as owner of the resources that some members of an answer name, and of the items created in the caller's resources.
func (c *call) recordOwner(ctx context.Context, doc *jsonx.Doc, members ...string) error {
	var ids []string
	for _, m := range members {
		ids = stored.AppendID(ids, doc.Get(m).Raw)
	}
	if c.Head.Method == http.MethodPost {
		for _, list := range [...]string{"data", "output"} {
			for _, item := range doc.Get(list).Each {
				ids = stored.AppendID(ids, item.Get("id").Raw)
			}
		}
	}
	return c.s.Ledger.AddStoredResources(ctx, Owned(c.Account, c.id, ids)...)
}

// filterOwned removes resources of others from a list. Only the page cursors are kept besides, so that the next page can be requested.
func (c *call) filterOwned(ctx context.Context, doc *jsonx.Doc) ([]byte, error) {
	name, list := c.path.members()
	data := doc.Get(list)
	if data.Kind() != jsonx.Array && data.Exists() {
		return nil, c.unreadable(fmt.Errorf("%s is %s", list, data.Kind()))
	}
	var ids []string
	for _, v := range data.Each {
		ids = stored.AppendID(ids, v.Get(name).Raw)
	}
	known, err := c.s.Ledger.StoredResources(ctx, ids)
	if err != nil {
		return nil, err
	}
	own := []byte{'['}
	for _, v := range data.Each {
		id, _ := v.Get(name).Str()
		if k, ok := known[id]; !ok || k.Account != c.Account {
			continue
		}
		if len(own) > 1 {
			own = append(own, ',')
		}
		own = append(own, v.Raw...)
	}
	var e jsonx.Edits
	for i := range doc.Members {
		if m := &doc.Members[i]; m.Key != list && (m.Kind == jsonx.Object || m.Kind == jsonx.Array) {
			e.Delete(doc, m.Key)
		}
	}
	if data.Exists() {
		e.Set(doc, list, jsonx.Raw(append(own, ']')))
	}
	return e.AppendTo(nil, doc), nil
}

// rewriteURL rewrites the one address in an answer that clients follow to the gateway: the vendor would not accept the client's key, and must not see it.
func (c *call) rewriteURL(body []byte, doc *jsonx.Doc) []byte {
	if at, ok := doc.Get("results_url").Str(); !ok || at == "" {
		return body
	}
	scheme := c.Head.Header.Get("x-forwarded-proto")
	if scheme != "https" {
		scheme = "http"
	}
	id, _ := doc.Get("id").Str()
	var e jsonx.Edits
	e.Set(doc, "results_url", jsonx.AppendString(nil, scheme+"://"+c.Head.Host+c.path.collection+"/"+id+"/results"))
	return e.AppendTo(nil, doc)
}

// ended writes the request's record, without content.
func (c *call) ended(outcome string, status int, failure *fault.Fault) {
	e := record.End{Provider: c.id, Outcome: outcome, Status: status}
	switch {
	case status == record.StatusClientClosed:
		e.Code = record.CodeClientClosed
	case status >= http.StatusBadRequest:
		e.Code = string(upstream.CallerKind(status))
	}
	c.Sink.Ended(e)
	r := record.Request{
		RequestID: c.ID, CreatedAt: c.Started.UTC(), Status: outcome, HTTPStatus: status, Dialect: c.Head.Dialect(), Path: c.path.collection,
		Provider: c.id, Attempts: 1, AttemptLog: c.attempts, Degraded: []string{}, PriceKnown: true, Cache: "miss",
		LatencyMS: time.Since(c.Started).Milliseconds(),
	}
	if failure != nil {
		r.Error = failure.Recorded()
	}
	b, err := r.JSON()
	if err == nil {
		err = c.s.Ledger.Record(ledger.Charge{
			RequestID: c.ID, Account: c.Account, Provider: c.id, Status: outcome, Record: b, At: c.Started,
		})
	}
	if err != nil {
		c.s.Log.Error("a request about a stored resource has no record", "request", c.ID, "error", err)
	}
}

// NotOwned returns the caller's fault for a resource that its account did not create, without revealing whether another one did.
func NotOwned(r *stored.Ref) error {
	f := fault.Newf(fault.NotFound, "%s: there is no %q that this key made through the gateway", r.At, fault.Clip(r.ID))
	f.Param = r.At
	return f
}

// ReadRefs returns the resources that a body names. The error is a fault.
func ReadRefs(doc *jsonx.Doc) ([]stored.Ref, error) {
	refs, err := stored.Refs(doc)
	if invalid, ok := errors.AsType[*stored.InvalidError](err); ok {
		return nil, wire.Invalid(invalid.At, "%s", invalid.Error())
	}
	return refs, err
}

// Owned returns the ledger entries for resources that an account created at a provider.
func Owned(account policy.Account, at policy.ProviderID, ids []string) []ledger.StoredResource {
	resources := make([]ledger.StoredResource, len(ids))
	for i, id := range ids {
		resources[i] = ledger.StoredResource{ID: id, Account: account, Provider: at}
	}
	return resources
}
