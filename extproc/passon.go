package extproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Requests about what a provider keeps pass through the egress listener as they come, with a user's own key for the caller's. They cost
// nothing here.

// passing is such a request.
type passing struct {
	x    *exchange
	path keptPath
	id   policy.ProviderID // who has the key
	p    Provider
	body []byte
}

// passOn serves a request about what a provider keeps.
func (x *exchange) passOn(ctx context.Context, d door, bodyless bool) error {
	path, _ := readKept(x.head.path)
	if !path.wellFormed() {
		return fault.Newf(fault.NotFound, "there is no endpoint %s %s", clipped(x.head.method), clipped(x.head.path))
	}
	if x.head.method == http.MethodPost {
		if err := x.enter(ctx, 0, 0); err != nil {
			return err
		}
	}
	g := passing{x: x, path: path}
	if err := g.choose(ctx); err != nil {
		return err
	}
	order, done := x.gw.Health.Plan([]policy.ProviderID{g.id})
	x.tried = done
	if len(order) == 0 {
		return fault.Newf(fault.NoProvider, "the provider %s is disabled", g.id)
	}
	if err := g.read(d, bodyless); err != nil {
		return err
	}
	if err := g.mayName(ctx); err != nil {
		return err
	}
	return g.ask(ctx, d)
}

// directSection begins the names of the providers of users' own keys.
const directSection = "direct/"

// headerProvider chooses among users' own keys of one vendor.
const headerProvider = "x-bardo-provider"

// choose finds the key: the one that a known thing was made under, the one that the request names, or the vendor's first.
func (g *passing) choose(ctx context.Context) error {
	vendor := g.path.vendor(&g.x.head)
	g.id = directSection + vendor
	if named := g.x.head.h.Get(headerProvider); named != "" {
		g.id = policy.ProviderID(named)
	}
	known, err := g.x.owned(ctx, g.path.name())
	if err != nil {
		return err
	}
	if known != "" {
		g.id = known
	}
	p, ok := g.x.rt.Providers[g.id]
	if !ok || !p.Direct || p.Adapter.Name() != string(vendor) {
		return fault.Newf(fault.RequiresDirectKey, "%s %s is about what a provider keeps, which takes a key of your own there (providers.direct)",
			g.x.head.method, clipped(g.x.head.path))
	}
	g.p = p
	return nil
}

// owned is the provider of a thing that the caller made, "" for one that nobody made here. What another account made is not found.
func (x *exchange) owned(ctx context.Context, id string) (policy.ProviderID, error) {
	if id == "" {
		return "", nil
	}
	k, ok, err := x.gw.Ledger.Kept(ctx, id)
	switch {
	case err != nil:
		return "", err
	case ok && k.Account != x.Principal.Account:
		return "", fault.Newf(fault.NotFound, "there is no %q of this key", clipped(id))
	}
	return k.Provider, nil
}

// read takes in the body, whatever it is.
func (g *passing) read(d door, bodyless bool) error {
	x := g.x
	if bodyless {
		return nil
	}
	if int64(x.announced()) > x.rt.MaxBody {
		return x.tooLarge()
	}
	x.body = takeBody()
	body, tooLarge, err := d.RequestBody((*x.body)[:0], x.rt.MaxBody)
	*x.body = body
	if tooLarge {
		return x.tooLarge()
	}
	g.body = body
	return err
}

// mayName refuses a body that names another account's file.
func (g *passing) mayName(ctx context.Context) error {
	if !isJSON(g.x.head.h.Get("content-type")) {
		return nil
	}
	doc, err := jsonx.Scan(g.body)
	if err != nil {
		return nil //nolint:nilerr // the provider says what is wrong with it
	}
	for _, name := range []string{"input_file_id", "previous_response_id"} {
		if id, ok := doc.Get(name).Str(); ok {
			if _, err := g.x.owned(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// handed are the client's headers that the provider gets to see.
var handed = []string{"content-type", "accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta", "idempotency-key"}

// ask sends the request, and passes the answer on.
func (g *passing) ask(ctx context.Context, d door) error {
	x := g.x
	ctx, cancel := context.WithTimeoutCause(ctx, x.rt.Timeouts.Total, errTotal)
	defer cancel()
	req, err := g.request(ctx)
	if err != nil {
		return err
	}
	resp, err := x.gw.Egress.Do(req)
	if err == nil {
		defer closeBody(resp)
	}
	if f := g.failure(ctx, resp, err); f != nil {
		g.attempted(f.String(), f.result())
		return g.refuse(f)
	}
	g.attempted(outcomeOK, policy.Result{Provider: g.id, Outcome: policy.Succeeded, Latency: time.Since(x.started)})
	return g.answer(ctx, d, resp)
}

// attempted notes how the provider answered.
func (g *passing) attempted(outcome string, r policy.Result) {
	g.x.attempts = append(g.x.attempts, attemptRecord{Provider: g.id, Outcome: outcome})
	g.x.gw.Health.Report(r)
}

func (g *passing) request(ctx context.Context) (*http.Request, error) {
	x := g.x
	req, err := http.NewRequestWithContext(ctx, x.head.method, "http://egress"+g.p.Endpoint.BasePath+g.path.below(), bytes.NewReader(g.body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = x.head.query
	req.Host = g.p.Endpoint.Authority
	for _, f := range g.credentials() {
		req.Header.Set(f.Name, f.Value)
	}
	for _, name := range handed {
		if v := x.head.h.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(g.p.Cluster))
	req.Header.Set(state.HeaderExchange, x.rt.EgressSecret+"."+x.ID)
	return req, nil
}

// credentials are those of the provider's first key: what is kept belongs to its account.
func (g *passing) credentials() header.List { return g.p.Adapter.Ping(g.p.Endpoint).Header }

// failure is why there is no answer that concerns the caller; nil if there is one.
func (g *passing) failure(ctx context.Context, resp *http.Response, err error) *failure {
	switch {
	case err != nil && ctx.Err() != nil:
		return &failure{provider: g.id, kind: failTimeout, cause: context.Cause(ctx)}
	case err != nil:
		return &failure{provider: g.id, kind: failReset, cause: err}
	case resp.Header.Get(state.HeaderFailure) != "":
		return localFailure(g.id, resp.StatusCode, resp.Header.Get(state.HeaderFailure))
	}
	f := &failure{provider: g.id, kind: failStatus, status: resp.StatusCode, retryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	if !f.retriable() {
		return nil
	}
	return f
}

// refuse tells the caller what a provider's own failure means, without its words: they may speak of the key's account.
func (g *passing) refuse(f *failure) error {
	err := exhausted([]*failure{f})
	g.record(outcomeFailed, err.HTTPStatus(), err)
	return err
}

// answer passes an answer on: as it is, but for lists, which hold only what the caller made.
func (g *passing) answer(ctx context.Context, d door, resp *http.Response) error {
	h := g.headers(resp)
	if g.x.head.method == http.MethodHead {
		g.record(outcomeOK, resp.StatusCode, nil)
		return d.Reply(reply{status: resp.StatusCode, header: h})
	}
	if isJSON(resp.Header.Get("Content-Type")) && !g.isContent() {
		return g.whole(ctx, d, resp, h)
	}
	return g.stream(d, resp, h)
}

// isContent reports whether the request is for what a thing holds, rather than for what is known of it.
func (g *passing) isContent() bool { return g.path.rest == "content" || g.path.rest == "results" }

// headers are those of the answer that the client gets to see.
func (g *passing) headers(resp *http.Response) header.List {
	h := append(g.x.idHeaders(),
		header.Field{Name: "x-bardo-provider", Value: string(g.id)},
		header.Field{Name: "x-bardo-attempts", Value: "1"},
		header.Field{Name: "x-bardo-cost", Value: costDirect},
	)
	for _, name := range []string{"content-type", "content-disposition"} {
		if v := resp.Header.Get(name); v != "" {
			h = append(h, header.Field{Name: name, Value: v})
		}
	}
	return h
}

// whole passes on a JSON answer, once it is known whose the things in it are.
func (g *passing) whole(ctx context.Context, d door, resp *http.Response, h header.List) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, g.x.rt.MaxAnswer+1))
	switch {
	case err != nil:
		return g.refuse(&failure{provider: g.id, kind: failReset, cause: err})
	case int64(len(body)) > g.x.rt.MaxAnswer:
		return g.refuse(&failure{provider: g.id, kind: failReset, cause: errTooLong})
	}
	if resp.StatusCode/100 == 2 {
		if body, err = g.settle(context.WithoutCancel(ctx), body); err != nil {
			return err
		}
	}
	g.record(outcomeOK, resp.StatusCode, nil)
	if len(body) <= bodyChunk {
		return d.Reply(reply{status: resp.StatusCode, header: h, body: body})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	return d.StreamBody(body, true)
}

// stream passes on a file's content or a batch's results as they come. An answer that is too long for a client that does not read is
// broken off, so that nobody takes a part of it for the whole.
func (g *passing) stream(d door, resp *http.Response, h header.List) error {
	if resp.ContentLength > g.x.rt.MaxAnswer {
		return g.refuse(&failure{provider: g.id, kind: failReset, cause: errTooLong})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	buf := make([]byte, bodyChunk)
	var sent int64
	for {
		n, err := resp.Body.Read(buf)
		end := errors.Is(err, io.EOF)
		if sent += int64(n); sent > g.x.rt.MaxAnswer {
			err = errTooLong
		}
		switch {
		case end:
			g.record(outcomeOK, resp.StatusCode, nil)
		case err != nil:
			g.record(outcomeCut, resp.StatusCode, nil)
			return errors.Join(errCut, err)
		}
		if err := d.StreamBody(buf[:n], end); err != nil || end {
			return err
		}
	}
}

// errCut ends an answer that is not complete and cannot say so: Envoy resets it.
var errCut = errors.New("the answer broke off")

func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), contentTypeJSON)
}
