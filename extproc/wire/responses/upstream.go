package responses

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Serves reports whether a model is asked in this format for a client of dialect d, where its provider speaks it.
func Serves(to *policy.Resolution, d chat.Dialect) bool {
	return d == chat.Responses || to.ResponsesOnly && d != chat.Embeddings
}

// Options are what a model at a provider wants to read, as the catalog says of it.
func Options(to policy.Resolution) RequestOptions {
	return RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), Reasons: to.Control == policy.ControlEffort, Efforts: to.Efforts,
		FixedSampling: to.FixedSampling, Unknown: to.Control == policy.ControlUsual,
		NoSummary: to.Without.Summary, NoThinking: to.Without.Thinking,
	}
}

// NewCall writes one attempt at a provider that speaks this format. The error is a fault.
func NewCall(buf []byte, req *chat.Request, at provider.Endpoint, o RequestOptions) (*provider.Call, error) {
	body, degraded, err := EncodeRequest(buf, req, o)
	if err != nil {
		return nil, err
	}
	call := &provider.Call{Path: at.BasePath + "/responses", Body: body, Degraded: degraded}
	if req.Op == chat.CountTokens {
		call.Path += "/input_tokens"
	}
	if at.Key.IsSet() {
		call.Header = header.List{{Name: "authorization", Value: "Bearer " + at.Key.Reveal()}}
	}
	return call, nil
}

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not say. A request in the same
// dialect is spliced: what need not change does not. One in another is written from its conversation, always in the same order, and is not
// kept by the provider. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect != chat.Responses {
		return translate(buf, req, o)
	}
	e, d := req.Edit.Clone(), &req.Doc
	if o.Model != "" && !d.Get("model").Equal(o.Model) {
		e.Set(d, "model", jsonx.AppendString(nil, o.Model))
	}
	a := adjuster{e: &e, d: d, o: &o}
	if req.Op == chat.Generate {
		a.adjust(req)
		degraded = a.lost
	}
	if dropOurs(&e, d) {
		degraded = append(degraded, "reasoning")
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded, nil
}

func translate(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Op == chat.CountTokens {
		return nil, nil, fault.New(fault.InvalidRequest, "this provider's format cannot count tokens", nil)
	}
	c, err := req.Conversation()
	if err != nil {
		return nil, nil, err
	}
	if err := wire.CheckCalls(c); err != nil {
		return nil, nil, err
	}
	if err := (wire.Target{Dialect: chat.Responses}).CheckContent(c, req.Dialect); err != nil {
		return nil, nil, err
	}
	w := writer{Writer: wire.Writer{Dst: buf, Conv: c}, req: req, opts: o}
	if err := w.request(); err != nil {
		return nil, nil, err
	}
	return w.Dst, w.Degraded, w.Refused
}

// dropOurs takes out the reasoning items that the gateway made of another provider's thinking: this one would look for them, or for
// what it encrypted, and refuse the request.
func dropOurs(e *jsonx.Edits, d *jsonx.Doc) (some bool) {
	input := d.Get("input")
	if input.Kind() != jsonx.Array || !d.MayHold(ownReasoning) && !d.MayHold(sealPrefix) {
		return false
	}
	kept := input.At + 1 // where what stays ends
	first, dropped := true, false
	for _, item := range input.Each {
		if item.Get("type").Equal("reasoning") && madeHere(item) {
			some, dropped = true, true
			continue
		}
		if dropped { // with what stood between it and the one before that stays
			e.Replace(kept, item.At, between(first))
		}
		kept, first, dropped = item.At+len(item.Raw), false, false
	}
	if dropped {
		e.Replace(kept, input.At+len(input.Raw)-1, nil)
	}
	return some
}

// between is what stands before an item: nothing before the first.
func between(first bool) jsonx.Raw {
	if first {
		return nil
	}
	return jsonx.Raw(",")
}

// madeHere reports whether a reasoning item is one that the gateway made.
func madeHere(item jsonx.Value) bool {
	id, _ := item.Get("id").Str()
	sealed, _ := item.Get("encrypted_content").Str()
	return strings.HasPrefix(id, ownReasoning) || strings.HasPrefix(sealed, sealPrefix)
}
