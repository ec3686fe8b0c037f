package extproc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/ledger"
)

// Users' own keys serve all callers of the gateway, and can reach what any of them made. So the gateway remembers who made what: what
// another account made is not found, and lists show only what the caller made.

// settle notes whose the things in a good answer are, and returns it as the caller may see it. What was made here is remembered before
// its maker hears of it.
func (g *passing) settle(ctx context.Context, body []byte) ([]byte, error) {
	if g.x.head.Method == http.MethodDelete && g.path.rest == "" {
		return body, g.x.gw.Ledger.Drop(ctx, g.path.name())
	}
	doc, err := jsonx.Scan(body)
	switch {
	case err != nil && g.isList():
		return nil, g.unreadable(err)
	case err != nil:
		return body, nil //nolint:nilerr // nothing that the gateway knows
	case g.isList():
		return g.ownOnly(ctx, &doc)
	}
	members := []string{"output_file_id", "error_file_id"}
	if g.x.head.Method == http.MethodPost && g.path.id == "" {
		name, _ := g.path.members()
		members = append(members, name)
	}
	err = g.keep(ctx, &doc, members...)
	return g.here(body, &doc), err
}

// isList reports whether the request is for all things of a kind, which the key's other users made as well.
func (g *passing) isList() bool {
	return (g.x.head.Method == http.MethodGet || g.x.head.Method == http.MethodHead) && g.path.id == ""
}

// unreadable refuses to pass on a list of which the gateway cannot tell whose things it holds.
func (g *passing) unreadable(err error) error {
	f := fault.New(fault.Upstream, fmt.Sprintf("the list of provider %s cannot be read", g.id), err)
	g.record(record.Failed, f.HTTPStatus(), f)
	return f
}

// keep remembers the things that some members of an answer name, and the items that it made in what is the caller's.
func (g *passing) keep(ctx context.Context, doc *jsonx.Doc, members ...string) error {
	var ids []string
	for _, m := range members {
		ids = appendID(ids, doc.Get(m).Raw)
	}
	if g.x.head.Method == http.MethodPost {
		for _, list := range [...]string{"data", "output"} {
			for _, item := range doc.Get(list).Each {
				ids = appendID(ids, item.Get("id").Raw)
			}
		}
	}
	return g.x.gw.Ledger.Keep(ctx, g.x.made(g.id, ids)...)
}

// ownOnly leaves out of a list what the caller did not make. The cursors of its pages stay, so that the next page can be asked for; of what
// else it says, nothing does.
func (g *passing) ownOnly(ctx context.Context, doc *jsonx.Doc) ([]byte, error) {
	name, list := g.path.members()
	data := doc.Get(list)
	if data.Kind() != jsonx.Array && data.Exists() {
		return nil, g.unreadable(fmt.Errorf("%s is %s", list, data.Kind()))
	}
	var ids []string
	for _, v := range data.Each {
		ids = appendID(ids, v.Get(name).Raw)
	}
	known, err := g.x.gw.Ledger.KeptOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	own := []byte{'['}
	for _, v := range data.Each {
		id, _ := v.Get(name).Str()
		if k, ok := known[id]; !ok || k.Account != g.x.Principal.Account {
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

// here makes the one address in an answer that clients follow lead through the gateway: the vendor would not know the key that they
// send to it, and must not see it.
func (g *passing) here(body []byte, doc *jsonx.Doc) []byte {
	if at, ok := doc.Get("results_url").Str(); !ok || at == "" {
		return body
	}
	scheme := g.x.head.Header.Get("x-forwarded-proto")
	if scheme != "https" {
		scheme = "http"
	}
	id, _ := doc.Get("id").Str()
	var e jsonx.Edits
	e.Set(doc, "results_url", jsonx.AppendString(nil, scheme+"://"+g.x.head.Host+g.path.collection+"/"+id+"/results"))
	return e.AppendTo(nil, doc)
}

// record leaves the request's record: what it was about, and nothing of what it held. It also says how the request is counted.
func (g *passing) record(outcome string, status int, why *fault.Fault) {
	x := g.x
	x.unmetered = &unmetered{status: status, outcome: outcome, provider: g.id}
	switch {
	case status == record.StatusClientClosed:
		x.unmetered.code = record.CodeClientClosed
	case status >= http.StatusBadRequest:
		x.unmetered.code = string(upstream.CallerKind(status))
	}
	r := record.Request{
		RequestID: x.ID, CreatedAt: x.started.UTC(), Status: outcome, HTTPStatus: status, Dialect: x.head.Dialect(), Path: g.path.collection,
		Provider: g.id, Attempts: 1, AttemptLog: x.attempts, Degraded: []string{}, PriceKnown: true, Cache: x.known.orMiss(),
		LatencyMS: time.Since(x.started).Milliseconds(),
	}
	if why != nil {
		r.Error = why.CodeString()
	}
	b, err := json.Marshal(r)
	if err == nil {
		err = x.gw.Ledger.Record(ledger.Charge{
			RequestID: x.ID, Account: x.Principal.Account, Provider: g.id, Status: outcome, Record: b, At: x.started,
		})
	}
	if err != nil {
		x.gw.Log.Error("a request about what a provider keeps has no record", "request", x.ID, "error", err)
	}
}
