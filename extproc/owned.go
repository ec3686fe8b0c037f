package extproc

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Users' own keys serve all callers of the gateway, and can reach what any of them made. So the gateway remembers who made what: what
// another account made is not found, and lists show only what the caller made.

// settle notes whose the things in a good answer are, and returns it as the caller may see it. What was made here is remembered before
// its maker hears of it.
func (g *passing) settle(ctx context.Context, body []byte) ([]byte, error) {
	doc, err := jsonx.Scan(body)
	if err != nil {
		return body, nil //nolint:nilerr // nothing that the gateway knows
	}
	name, _ := g.path.members()
	switch method := g.x.head.method; {
	case method == http.MethodGet && g.path.id == "":
		return g.ownOnly(ctx, body, &doc)
	case method == http.MethodDelete && g.path.rest == "":
		return body, g.x.gw.Ledger.Drop(ctx, g.path.name())
	case method == http.MethodPost && g.path.id == "":
		err = g.keep(ctx, &doc, name, "output_file_id", "error_file_id")
	default:
		err = g.keep(ctx, &doc, "output_file_id", "error_file_id")
	}
	return g.here(body, &doc), err
}

// keep remembers the things that some members of an answer name.
func (g *passing) keep(ctx context.Context, doc *jsonx.Doc, members ...string) error {
	var things []ledger.Kept
	for _, m := range members {
		if id, ok := doc.Get(m).Str(); ok && id != "" {
			things = append(things, ledger.Kept{ID: id, Account: g.x.Principal.Account, Provider: g.id})
		}
	}
	return g.x.gw.Ledger.Keep(ctx, things...)
}

// ownOnly leaves out of a list what the caller did not make. The cursors of its pages stay, so that the next page can be asked for.
func (g *passing) ownOnly(ctx context.Context, body []byte, doc *jsonx.Doc) ([]byte, error) {
	name, list := g.path.members()
	data := doc.Get(list)
	if data.Kind() != jsonx.Array {
		return body, nil
	}
	own := []byte{'['}
	for _, v := range data.Each {
		id, _ := v.Get(name).Str()
		k, ok, err := g.x.gw.Ledger.Kept(ctx, id)
		if err != nil {
			return nil, err
		}
		if !ok || k.Account != g.x.Principal.Account {
			continue
		}
		if len(own) > 1 {
			own = append(own, ',')
		}
		own = append(own, v.Raw...)
	}
	var e jsonx.Edits
	e.Set(doc, list, jsonx.Raw(append(own, ']')))
	return e.AppendTo(nil, doc), nil
}

// here makes the one address in an answer that clients follow lead through the gateway: the vendor would not know the key that they
// send to it, and must not see it.
func (g *passing) here(body []byte, doc *jsonx.Doc) []byte {
	if at, ok := doc.Get("results_url").Str(); !ok || at == "" {
		return body
	}
	scheme := g.x.head.h.Get("x-forwarded-proto")
	if scheme != "https" {
		scheme = "http"
	}
	id, _ := doc.Get("id").Str()
	var e jsonx.Edits
	e.Set(doc, "results_url", jsonx.AppendString(nil, scheme+"://"+g.x.head.host+g.path.collection+"/"+id+"/results"))
	return e.AppendTo(nil, doc)
}

// record leaves the request's record: what it was about, and nothing of what it held.
func (g *passing) record(outcome string, status int, why *fault.Fault) {
	x := g.x
	r := requestRecord{
		RequestID: x.ID, CreatedAt: x.started.UTC(), Status: outcome, HTTPStatus: status, Dialect: x.head.dialect(), Path: g.path.collection,
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

// keepResponse remembers who made a response that its provider keeps.
func (x *exchange) keepResponse(ctx context.Context, a *answer) error {
	p := x.rt.Providers[a.res.Provider]
	if a.id == "" || x.Request.Dialect != chat.Responses || a.spoken != chat.Responses || !p.Endpoint.Responses {
		return nil
	}
	if store, said := x.Request.Doc.Get("store").Bool(); said && !store {
		return nil
	}
	return x.gw.Ledger.Keep(ctx, ledger.Kept{ID: a.id, Account: x.Principal.Account, Provider: a.res.Provider})
}

// keptMembers are where clients name what their provider keeps.
func keptMembers(d chat.Dialect) []string {
	switch d { //nolint:exhaustive // the others have nothing of the kind
	case chat.Responses:
		return []string{"previous_response_id", "conversation"}
	case chat.Gemini:
		return []string{"cachedContent", "cached_content"}
	}
	return nil
}

// anywhere reports whether any provider could answer the request: it goes on from nothing that one of them keeps.
func (x *exchange) anywhere() bool {
	for _, m := range keptMembers(x.Request.Dialect) {
		if !x.Request.Doc.Get(m).IsNull() {
			return false
		}
	}
	return true
}

// goesOnFrom keeps a request that goes on from something kept at the provider that has it. What another account made is not found.
func (x *exchange) goesOnFrom(ctx context.Context) error {
	for _, m := range keptMembers(x.Request.Dialect) {
		v := x.Request.Doc.Get(m)
		id, ok := v.Str()
		if !ok {
			id, ok = v.Get("id").Str() // a conversation may be said as an object
		}
		if !ok {
			continue
		}
		at, err := x.owned(ctx, id)
		if err != nil {
			return err
		}
		if at != "" {
			x.Found = onlyAt(x.Found, at)
		}
	}
	return nil
}

// onlyAt are the candidates at a provider, or all if it is none of them.
func onlyAt(found []policy.Resolution, at policy.ProviderID) []policy.Resolution {
	var out []policy.Resolution
	for _, r := range found {
		if r.Provider == at {
			out = append(out, r)
		}
	}
	if out == nil {
		return found
	}
	return out
}
