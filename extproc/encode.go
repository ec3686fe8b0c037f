package extproc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// attemptCall is one attempt's request, ready for Envoy.
type attemptCall struct {
	call      *provider.Call
	authority string
	body      []byte
}

// encode writes an attempt's request from the exchange: never from an earlier attempt's.
func (x *exchange) encode(buf []byte, to policy.Resolution) (attemptCall, error) {
	return x.write(buf, x.tryOf(to))
}

// write writes the request of one call.
func (x *exchange) write(buf []byte, t *try) (attemptCall, error) {
	to := t.to
	p, ok := x.rt.Providers[to.Provider]
	if !ok {
		return attemptCall{}, fmt.Errorf("provider %s is not configured", to.Provider)
	}
	x.encodeMu.Lock() // the conversation is parsed at most once, by whichever attempt needs it first
	defer x.encodeMu.Unlock()
	if x.closed {
		return attemptCall{}, fmt.Errorf("exchange %s is over", x.ID)
	}
	var err error
	if t.req, err = x.shaped(t); err != nil {
		return attemptCall{}, err
	}
	if t.req, err = t.req.In(x.spokenTo(&to)); err != nil {
		return attemptCall{}, err
	}
	req, lost, err := x.inWords(t.req, to, p.Adapter.Dialect(to, p.Endpoint, x.Request.Dialect))
	if err != nil {
		return attemptCall{}, err
	}
	req = x.formless(req)
	left := to.Without.Params
	if x.mayNotSearch(req, &to) {
		left = append(slices.Clip(left), lostSearch)
	}
	if len(left) > 0 {
		less := *req
		less.Profile, req = req.Profile.Without(left), &less
		lost = named(lost, left)
	}
	if member := x.refusesTier(&to); member != "" {
		req = withoutTier(req, member)
		lost = named(lost, []string{member})
	}
	at, took := x.endpoint(to.Provider, &p)
	call, err := p.Adapter.Encode(buf, req, to, at)
	if err != nil {
		if took {
			x.dropKey()
		}
		return attemptCall{}, err
	}
	if instead := x.formSubstitute(t.plan); instead != "" {
		lost = named(lost, []string{instead})
	}
	call.Degraded = t.said(named(call.Degraded, lost))
	x.note(to.Provider, call.Degraded)
	x.tellProfile(call.Degraded)
	return attemptCall{call: call, authority: p.Endpoint.Authority, body: call.Body}, nil
}

// note keeps what a provider's format could not say, for the answer's headers.
func (x *exchange) note(p policy.ProviderID, lost []string) {
	if len(lost) == 0 {
		return
	}
	if x.lost == nil {
		x.lost = map[policy.ProviderID][]string{}
	}
	x.lost[p] = lost
}

// lostAt is what a provider's format could not say.
func (x *exchange) lostAt(p policy.ProviderID) []string {
	x.encodeMu.Lock()
	defer x.encodeMu.Unlock()
	return x.lost[p]
}

// passed are the headers that an attempt keeps: what a provider may see of the client's, and what Envoy's router does not work
// without (the provider clusters drop it).
var passed = map[string]bool{"user-agent": true, "accept-language": true, "x-forwarded-proto": true}

// headers are the changes to the client's headers h that make them this attempt's. Whatever an earlier attempt set is
// overwritten or removed: header changes of one attempt outlive it in Envoy.
func (c attemptCall) headers(h header.List) (set header.List, remove []string) {
	set = make(header.List, 0, len(c.call.Header)+8)
	set = append(set,
		header.Field{Name: ":method", Value: "POST"},
		header.Field{Name: ":path", Value: c.call.Path},
		header.Field{Name: ":authority", Value: c.authority},
		header.Field{Name: "content-type", Value: header.JSON},
		header.Field{Name: "content-length", Value: strconv.Itoa(len(c.body))},
		header.Field{Name: "accept", Value: "*/*"},
		header.Field{Name: "accept-encoding", Value: "identity"},
	)
	set = append(set, c.call.Header...)
	for _, f := range h {
		if !passed[f.Name] && f.Name != "" && f.Name[0] != ':' && !set.Has(f.Name) && !strings.HasPrefix(f.Name, "x-envoy-") {
			remove = append(remove, f.Name)
		}
	}
	for _, name := range provider.CredentialHeaders {
		if !set.Has(name) && !h.Has(name) {
			remove = append(remove, name)
		}
	}
	return set, remove
}

// newAnswer prepares to read a provider's answer for this exchange's client.
func (x *exchange) newAnswer(t *try, status int, h header.List) *answer {
	to := t.to
	p := x.rt.Providers[to.Provider]
	spoken := p.Adapter.Dialect(to, p.Endpoint, x.Request.Dialect)
	dec, stages := x.newDecoder(t, status, h)
	a := &answer{
		x:      x,
		res:    to,
		spoken: spoken,
		dec:    dec,
		stages: stages,
		stream: x.Request.Stream,
		enc:    x.newEncoder(to, spoken),
		shown:  x.newShown(&to, spoken),
	}
	if status/100 == 2 && t.plan != nil {
		a.form, a.holds = &formed{plan: t.plan}, x.holdsBack(t.plan)
	}
	a.holds = a.holds || status/100 == 2 && x.reconsiders()
	return a
}

// newDecoder reads a provider's answer, and what stands in its text.
func (x *exchange) newDecoder(t *try, status int, h header.List) (provider.Decoder, []stage) {
	x.encodeMu.Lock() // a decoder looks at the conversation, which an attempt's own stream may have parsed
	defer x.encodeMu.Unlock()
	req := x.Request
	if t.req != nil {
		req = t.req
	}
	p := x.rt.Providers[t.to.Provider]
	if in, err := req.In(x.spokenTo(&t.to)); err == nil { // its request could be written
		req = in
	}
	return p.Adapter.NewDecoder(req, t.to, p.Endpoint, status, h), x.stages(t, status)
}

// newEncoder writes, for this exchange's client, an answer that was given in some dialect.
func (x *exchange) newEncoder(by policy.Resolution, spoken chat.Dialect) wire.Encoder {
	same := spoken == x.Request.Dialect
	model := ""
	if by.Upstream != string(by.Model) || !same {
		model = string(by.Model)
	}
	return x.dialect.NewEncoder(wire.Options{
		Same: same, Stream: x.Request.Stream, Model: model, RequestID: x.ID,
		ShowUsage: x.Request.StreamUsage, Created: x.started.Unix(), Request: x.Request,
	})
}

// outputTokens is how long the answer may become: what the caller said, else the configured reserve, within the model's limit.
func (x *exchange) outputTokens(to policy.Resolution) int {
	n := x.maxTokens()
	if to.MaxOutput > 0 && n > to.MaxOutput {
		n = to.MaxOutput
	}
	return int(policy.TimesTokens(int64(n), int64(max(1, x.Request.Choices))))
}

// maxTokens is how long each choice of the answer may become, if the model has no limit.
func (x *exchange) maxTokens() int {
	switch p := x.Request.Profile; {
	case x.Request.Op == chat.Embed: // there is no text in the answer
		return 0
	case x.Request.MaxTokens > 0:
		return x.Request.MaxTokens
	case p != nil && p.MaxTokens > 0:
		return p.MaxTokens
	}
	return x.rt.ReserveOutput
}

// lostUnlimited is what X-Bardo-Degraded says of a request that named no limit for its answer, and got the one that its balance reserves.
const lostUnlimited = "max_tokens"

// limitOutput has providers told how long an answer may become that a prepaid key pays for, where nobody says it: as long as is reserved.
// Without that, an answer may cost many times its reservation.
func (x *exchange) limitOutput() {
	if !x.Principal.Prepaid || x.Request.Op != chat.Generate || !slices.ContainsFunc(x.Order, x.unlimited) {
		return
	}
	limit := func(r *chat.Request) {
		if r == nil || r.MaxTokens > 0 || r.Dialect == chat.Completions && !r.Doc.Get("max_tokens").IsNull() || r.Profile != nil && r.Profile.MaxTokens > 0 {
			return
		}
		var p chat.Profile
		if r.Profile != nil {
			p = *r.Profile
		}
		p.MaxTokens = x.rt.ReserveOutput
		r.Profile, r.Lost = &p, wire.Named(slices.Clip(r.Lost), lostUnlimited)
	}
	limit(x.Request)
	limit(x.Request.Turn)
	if e := x.escalation; e != nil {
		limit(e.request)
	}
}

// unlimited reports whether an answer of a candidate, which the caller pays for here, may become longer than what is reserved.
func (x *exchange) unlimited(to policy.Resolution) bool {
	return !x.free(&to) && (to.MaxOutput == 0 || to.MaxOutput > x.rt.ReserveOutput)
}

// isTokenCount reports whether the request only asks how long it is.
func (x *exchange) isTokenCount() bool { return x.Request.Op == chat.CountTokens }
