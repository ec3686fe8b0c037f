package extproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
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

	contentType string // of the body, as it was read
}

// passOn serves a request about what a provider keeps.
func (x *exchange) passOn(ctx context.Context, d stream.Client, bodyless bool) error {
	path, _ := readKept(x.head.Path)
	switch {
	case !path.wellFormed():
		return fault.Newf(fault.NotFound, "there is no endpoint %s %s", fault.Clip(x.head.Method), fault.Clip(x.head.Path))
	case x.ownKey.IsSet():
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: only generations take a key of the request's own, %s does not", path.collection)
	case !plainQuery(x.head.Query):
		return fault.Newf(fault.InvalidRequest, "the query must not hold parameters that begin with $: they are another request in this one")
	}
	g := passing{x: x, path: path}
	if err := g.choose(ctx); err != nil {
		return err
	}
	if err := g.read(d, bodyless); err != nil {
		return err
	}
	if err := g.checkBody(ctx); err != nil {
		return err
	}
	order, done := x.gw.Health.Plan([]policy.ProviderID{g.id})
	x.tried = done
	if len(order) == 0 {
		return fault.Newf(fault.NoProvider, "the provider %s is disabled", g.id)
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
	id := directSection + vendor
	if named := g.x.head.Header.Get(headerProvider); named != "" {
		id = policy.ProviderID(named)
	}
	if name := g.path.name(); name != "" {
		k, ok, err := g.x.gw.Ledger.Kept(ctx, name)
		if err != nil {
			return err
		}
		if !ok || k.Account != g.x.Principal.Account {
			if err := g.use(id, vendor); err != nil {
				return err
			}
			return fault.Newf(fault.NotFound, "there is no %q that this key made through the gateway", fault.Clip(name))
		}
		id = k.Provider
	}
	return g.use(id, vendor)
}

// use takes a provider's key, if it is a user's own at the vendor whose API the request speaks.
func (g *passing) use(id, vendor policy.ProviderID) error {
	p, ok := g.x.rt.Providers[id]
	if !ok || !p.Direct || p.Adapter.Name() != string(vendor) {
		return fault.Newf(fault.RequiresDirectKey, "%s %s is about what a provider keeps, which takes a key of your own there (providers.direct)",
			g.x.head.Method, fault.Clip(g.x.head.Path))
	}
	g.id, g.p = id, p
	return nil
}

// read takes in the body, whatever it is.
func (g *passing) read(d stream.Client, bodyless bool) (err error) {
	if !bodyless {
		g.body, err = g.x.receive(d)
	}
	return err
}

// checkBody refuses a body that cannot be read, and one that names what is not the caller's. What it names says which key the request goes
// to, unless its path does.
func (g *passing) checkBody(ctx context.Context) error {
	if len(g.body) == 0 {
		return nil
	}
	refs, err := g.readBody()
	if err != nil {
		return err
	}
	known, err := g.x.gw.Ledger.KeptOf(ctx, idsOf(refs))
	if err != nil {
		return err
	}
	at := g.id
	for i := range refs {
		r := &refs[i]
		k, made := known[r.ID]
		switch mine := made && k.Account == g.x.Principal.Account; {
		case r.Kind == stored.URL, r.Kind == stored.Copy && !made:
			continue
		case !mine, k.Provider != at && (i > 0 || g.path.id != ""):
			return notTheirs(r)
		}
		at = k.Provider
	}
	if at == g.id {
		return nil
	}
	return g.use(at, g.path.vendor(&g.x.head))
}

// readBody reads a body, a form for an upload and JSON for everything else, and says what it names.
func (g *passing) readBody() (refs []stored.Ref, err error) {
	h := g.x.head.Header
	if enc := h.Get("content-encoding"); enc != "" && enc != "identity" {
		return nil, fault.Newf(fault.UnsupportedMedia, "content-encoding %q is not supported: send the body uncompressed", fault.Clip(enc))
	}
	if g.path.collection == "/v1/files" && g.path.id == "" {
		u, err := stored.ReadUpload(h.Get("content-type"), g.body)
		if err != nil {
			return nil, fault.Newf(fault.InvalidRequest, "%s", err)
		}
		g.contentType = u.ContentType
		return u.Refs, nil
	}
	if kind := h.Get("content-type"); kind != "" && !isPlainJSON(kind) {
		return nil, fault.Newf(fault.InvalidRequest, "content-type %q: %s takes application/json in UTF-8", fault.Clip(kind), g.path.collection)
	}
	g.contentType = header.JSON
	doc, err := jsonx.Unique.Scan(g.body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	return readRefs(&doc)
}

// isPlainJSON reports whether a content type is JSON, in no other charset than UTF-8.
func isPlainJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	return err == nil && kind == header.JSON && (charset == "" || charset == "utf-8" || charset == "us-ascii")
}

// plainQuery reports whether a query holds no parameters by which Google's API takes another method, other headers or another body than the
// request's own.
func plainQuery(query string) bool {
	for field := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(field, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || strings.HasPrefix(name, "$") && name != "$alt" && name != "$prettyPrint" {
			return false
		}
	}
	return true
}

// handed are the client's headers that the provider gets to see.
var handed = []string{"accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta", "idempotency-key"}

// ask sends the request, and passes the answer on.
func (g *passing) ask(client context.Context, d stream.Client) error {
	x := g.x
	ctx, cancel := context.WithTimeoutCause(client, x.rt.Timeouts.Total, errTotal)
	defer cancel()
	req, err := g.request(ctx)
	if err != nil {
		return err
	}
	resp, err := x.gw.Egress.Do(req)
	if err == nil {
		defer closeBody(resp)
	}
	if client.Err() != nil { // it disconnected, which says nothing about the provider
		g.record(record.Disconnected, record.StatusClientClosed, nil)
		return context.Cause(client)
	}
	if f := g.failure(ctx, resp, err); f != nil {
		g.attempted(f.String(), f.Result())
		return g.refuse(f)
	}
	g.attempted(record.OK, policy.Result{Provider: g.id, Outcome: policy.Succeeded, Latency: time.Since(x.started)})
	return g.answer(ctx, d, resp)
}

// attempted notes how the provider answered.
func (g *passing) attempted(outcome string, r policy.Result) {
	g.x.attempts = append(g.x.attempts, record.Attempt{Provider: g.id, Outcome: outcome})
	g.x.gw.Health.Report(r)
}

func (g *passing) request(ctx context.Context) (*http.Request, error) {
	x := g.x
	req, err := http.NewRequestWithContext(ctx, x.head.Method, "http://egress"+g.p.Endpoint.BasePath+g.path.below(), bytes.NewReader(g.body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = x.head.Query
	req.Host = g.p.Endpoint.Authority
	for _, f := range g.credentials() {
		req.Header.Set(f.Name, f.Value)
	}
	for _, name := range handed {
		if v := x.head.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	if len(g.body) > 0 {
		req.Header.Set("Content-Type", g.contentType)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(g.p.Cluster))
	req.Header.Set(state.HeaderExchange, x.rt.EgressSecret+"."+x.ID)
	return req, nil
}

// credentials are those of the provider's first key: what is kept belongs to its account.
func (g *passing) credentials() header.List { return g.p.Adapter.Ping(g.p.Endpoint).Header }

// failure is why there is no answer that concerns the caller; nil if there is one.
func (g *passing) failure(ctx context.Context, resp *http.Response, err error) *upstream.Failure {
	switch {
	case err != nil && ctx.Err() != nil:
		return &upstream.Failure{Provider: g.id, Kind: upstream.TimedOut, Cause: context.Cause(ctx)}
	case err != nil:
		return &upstream.Failure{Provider: g.id, Kind: upstream.Reset, Cause: err}
	case resp.Header.Get(state.HeaderFailure) != "":
		return upstream.Local(g.id, resp.StatusCode, resp.Header.Get(state.HeaderFailure))
	}
	f := &upstream.Failure{Provider: g.id, Kind: upstream.ByStatus, Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	if f.Status/100 == 2 || f.Status == http.StatusGone || !f.Retriable() { // what is gone there is no model
		return nil
	}
	return f
}

// refuse tells the caller what a provider's own failure means, without its words: they may speak of the key's account.
func (g *passing) refuse(f *upstream.Failure) error {
	err := upstream.Exhausted([]*upstream.Failure{f})
	g.record(record.Failed, err.HTTPStatus(), err)
	return err
}

// answer passes an answer on: as it is, but for lists, which hold only what the caller made.
func (g *passing) answer(ctx context.Context, d stream.Client, resp *http.Response) error {
	h := g.headers(resp)
	if g.x.head.Method == http.MethodHead {
		g.record(record.OK, resp.StatusCode, nil)
		return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h})
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return g.refused(d, resp, h)
	}
	if g.isList() || isJSON(resp.Header.Get("Content-Type")) && !g.isContent() {
		return g.whole(ctx, d, resp, h)
	}
	return g.stream(ctx, d, resp, h)
}

// refused passes on what a provider says of the caller's own mistake, without credentials.
func (g *passing) refused(d stream.Client, resp *http.Response, h header.List) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, stream.MaxPiece))
	if err != nil {
		return g.refuse(&upstream.Failure{Provider: g.id, Kind: upstream.Reset, Cause: err})
	}
	g.record(record.OK, resp.StatusCode, nil)
	return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h, Body: g.x.redactor().Bytes(body)})
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
			h = append(h, header.Field{Name: name, Value: g.x.redactor().String(v)})
		}
	}
	return h
}

// whole passes on a JSON answer, once it is known whose the things in it are.
func (g *passing) whole(ctx context.Context, d stream.Client, resp *http.Response, h header.List) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, g.x.rt.MaxAnswer+1))
	switch {
	case err != nil:
		return g.refuse(&upstream.Failure{Provider: g.id, Kind: upstream.Reset, Cause: err})
	case int64(len(body)) > g.x.rt.MaxAnswer:
		return g.refuse(&upstream.Failure{Provider: g.id, Kind: upstream.Reset, Cause: upstream.ErrTooLong})
	}
	if body, err = g.settle(context.WithoutCancel(ctx), body); err != nil {
		return err
	}
	body = g.x.redactor().Bytes(body) // a batch or a response says in it why it failed
	g.record(record.OK, resp.StatusCode, nil)
	if len(body) <= stream.MaxPiece {
		return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h, Body: body})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	return d.StreamBody(body, true)
}

// stream passes on a file's content or a batch's results as they come. An answer that is too long for a client that does not read is
// broken off, so that nobody takes a part of it for the whole.
func (g *passing) stream(ctx context.Context, d stream.Client, resp *http.Response, h header.List) error {
	if resp.ContentLength > g.x.rt.MaxAnswer {
		return g.refuse(&upstream.Failure{Provider: g.id, Kind: upstream.Reset, Cause: upstream.ErrTooLong})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	buf := make([]byte, stream.MaxPiece)
	var sent int64
	for {
		n, err := resp.Body.Read(buf)
		end := errors.Is(err, io.EOF)
		if sent += int64(n); sent > g.x.rt.MaxAnswer {
			err = upstream.ErrTooLong
		}
		switch {
		case end:
			g.record(record.OK, resp.StatusCode, nil)
		case errors.Is(context.Cause(ctx), context.Canceled): // the client disconnected
			g.record(record.Cancelled, resp.StatusCode, nil)
			return context.Cause(ctx)
		case err != nil:
			g.record(record.Cut, resp.StatusCode, nil)
			return errors.Join(errCut, err)
		}
		if err := d.StreamBody(buf[:n], end); err != nil || end {
			if err != nil && !end {
				g.record(record.Cancelled, resp.StatusCode, nil)
			}
			return err
		}
	}
}

// errCut ends an answer that is not complete and cannot say so: Envoy resets it.
var errCut = errors.New("the answer broke off")

func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), header.JSON)
}
