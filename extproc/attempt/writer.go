package attempt

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Writer encodes the attempts of one request (Write), and makes those that Envoy does not make by itself (Do). Safe for concurrent use: each
// of Envoy's retries is encoded on a stream of its own.
type Writer struct {
	Client *http.Client // client of Envoy's egress listener, or of its clusters
	Owner  Owner
	// Listener is always the client of the egress listener, for calls that need its features; nil: Client is it.
	Listener *http.Client

	mu                sync.Mutex // also guards the parsing of the conversation, which happens at most once
	closed            bool       // the request's body was returned to its pool
	degraded          map[policy.ProviderID][]string
	degradedForOthers map[policy.ProviderID][]string // degraded as shown to others than the client
	keys              []TakenKey                     // of providers with several keys
}

// Owner is the exchange that the attempts belong to. Its methods are called from several goroutines.
type Owner interface {
	// Written is called for each attempt, with the parts of the request that the provider's format cannot express. It must not block.
	Written(degraded []string)
	// Panicked logs a panic; the error is the client's.
	Panicked(value any) error
}

// Call is an encoded attempt.
type Call struct {
	*provider.Call

	authority string
}

// Write encodes an attempt into buf, which may grow.
func (w *Writer) Write(buf []byte, t *Attempt) (Call, error) {
	v, to := t.View, t.To
	p, ok := v.Config.Find(to.Provider)
	if !ok {
		return Call{}, fmt.Errorf("provider %s is not configured", to.Provider)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return Call{}, fmt.Errorf("exchange %s is over", v.ID)
	}
	req, degraded, err := t.prepare(p.Adapter.Dialect(to, p.Endpoint, v.Request.Dialect))
	if err != nil {
		return Call{}, err
	}
	at, acquired := w.endpointFor(v, to.Provider, p)
	call, err := p.Adapter.Encode(buf, req, to, at)
	if err != nil {
		if acquired {
			w.dropKey()
		}
		return Call{}, err
	}
	if t.Substituted != "" {
		degraded = request.MergeDegraded(degraded, []string{t.Substituted})
	}
	if v.Unattested(&to) {
		degraded = request.MergeDegraded(degraded, []string{request.DegradedAttestation})
	}
	t.askForProof(call)
	if p.Traced {
		t.addTrace(call)
	}
	more, err := v.ForGateway(to.Provider)
	if err == nil {
		call.Header = append(call.Header, more...)
		err = t.seal(call)
	}
	if err != nil {
		if acquired {
			w.dropKey()
		}
		return Call{}, err
	}
	call.Degraded = t.withoutNote(request.MergeDegraded(call.Degraded, degraded))
	redacted := wire.RedactNames(call.Degraded, undocumentedMembers(req), undocumentedMembers(t.Sent), undocumentedMembers(v.Request))
	w.noteDegraded(to.Provider, call.Degraded, redacted)
	w.Owner.Written(redacted)
	return Call{call, p.Endpoint.Authority}, nil
}

// prepare returns the client's request as changed for the candidate, before its adapter encodes it in a dialect; degraded lists what is omitted or
// replaced. It sets t.Sent.
func (t *Attempt) prepare(as chat.Dialect) (req *chat.Request, degraded []string, err error) {
	v, to := t.View, t.To
	if t.Sent, err = t.shaped(); err != nil {
		return nil, nil, err
	}
	if t.Sent, err = t.Sent.In(v.DialectAt(&to)); err != nil {
		return nil, nil, err
	}
	if req, degraded, err = v.WithToolsInPrompt(t.Sent, to, as); err != nil {
		return nil, nil, err
	}
	req = t.withoutProfileSchema(req)
	removed := to.Without.Params
	if v.RemovesSearch(req, &to) {
		removed = append(slices.Clip(removed), request.DegradedSearch)
	}
	if len(removed) > 0 {
		less := *req
		less.Profile, req = req.Profile.Without(removed), &less
		degraded = request.MergeDegraded(degraded, removed)
	}
	if member := v.RemovesTier(&to); member != "" {
		req = request.WithoutTier(req, member)
		degraded = request.MergeDegraded(degraded, []string{member})
	}
	return t.inEnclave(req), degraded, nil
}

// addTrace adds the request's trace context to the call, unless nothing of the request may be kept, or its user pays the provider.
func (t *Attempt) addTrace(call *provider.Call) {
	v := t.View
	if v.KeepsNothing() || v.OwnKey.IsSet() {
		return
	}
	c := record.TraceOf(v.ID, v.Header.Get(record.TraceParent))
	call.Header = append(call.Header, header.Field{Name: record.TraceParent, Value: c.Header()})
}

// undocumentedMembers returns the request's members that no API documents, as far as it was parsed.
func undocumentedMembers(req *chat.Request) []string {
	if req == nil || req.Conv == nil {
		return nil
	}
	return req.Conv.Strange
}

// noteDegraded stores an attempt's degraded entries: for X-Bardo-Degraded, and as shown to others than the client.
func (w *Writer) noteDegraded(p policy.ProviderID, degraded, forOthers []string) {
	if len(degraded) == 0 {
		return
	}
	if w.degraded == nil {
		w.degraded, w.degradedForOthers = map[policy.ProviderID][]string{}, map[policy.ProviderID][]string{}
	}
	w.degraded[p], w.degradedForOthers[p] = degraded, forOthers
}

// maxDegraded bounds what another gateway reports.
const maxDegraded = 64

// Relayed adds what another gateway reports as degraded in its answer, the value of its X-Bardo-Degraded.
func (w *Writer) Relayed(p policy.ProviderID, degraded string) {
	if degraded == "" {
		return
	}
	list := strings.SplitN(degraded, ",", maxDegraded+1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.degraded == nil {
		w.degraded, w.degradedForOthers = map[policy.ProviderID][]string{}, map[policy.ProviderID][]string{}
	}
	w.degraded[p] = request.MergeDegraded(slices.Clone(w.degraded[p]), list[:min(len(list), maxDegraded)])
}

// DegradedForOthers is Degraded for others than the client: it omits names that the client chose.
func (w *Writer) DegradedForOthers(p policy.ProviderID) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.degradedForOthers[p]
}

// Degraded returns the parts of the request that a provider's format could not express, in the last attempt at it.
func (w *Writer) Degraded(p policy.ProviderID) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.degraded[p]
}

// Answered releases the keys: the request has its answer, which the client may read slowly.
func (w *Writer) Answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releaseKeys()
}

// Close releases the keys and makes later calls of Write fail, because the request's body returns to its pool.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.releaseKeys()
	w.keys = nil
}

// keptHeaders are the client's headers that an attempt keeps: those that a provider may see, and one that Envoy's router needs (the provider clusters
// drop it).
var keptHeaders = map[string]bool{"user-agent": true, "accept-language": true, "x-forwarded-proto": true}

// usualHeaders is the usual number of headers of an attempt besides its adapter's: those that Headers sets, and those that choose a route.
const usualHeaders = 14

// Headers returns the changes that turn the headers h of a stream into this attempt's. Headers of an earlier attempt are overwritten or removed: in
// Envoy, header changes of one attempt persist in the next.
func (c Call) Headers(h header.List) (set header.List, remove []string) {
	set = make(header.List, 0, len(c.Header)+usualHeaders)
	remove = make([]string, 0, len(h)+len(provider.RemovedHeaders))
	set = append(set,
		header.Field{Name: ":method", Value: "POST"},
		header.Field{Name: ":path", Value: c.Path},
		header.Field{Name: ":authority", Value: c.authority},
		header.Field{Name: "content-type", Value: header.JSON},
		header.Field{Name: "content-length", Value: strconv.Itoa(len(c.Body))},
		header.Field{Name: "accept", Value: "*/*"},
		header.Field{Name: "accept-encoding", Value: "identity"},
	)
	set = append(set, c.Header...)
	for _, f := range h {
		if !keptHeaders[f.Name] && f.Name != "" && f.Name[0] != ':' && !set.Has(f.Name) && !strings.HasPrefix(f.Name, "x-envoy-") {
			remove = append(remove, f.Name)
		}
	}
	for _, name := range provider.RemovedHeaders {
		if !set.Has(name) && !h.Has(name) {
			remove = append(remove, name)
		}
	}
	return set, remove
}
