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

// Serves reports whether a model is called in this format for a client of dialect d, if its provider supports it.
func Serves(to *policy.Resolution, d chat.Dialect) bool {
	return d == chat.Responses || to.ResponsesOnly && d != chat.Embeddings
}

// Options returns the requirements of a model at a provider, from the catalog.
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

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not express. A request in the same
// dialect is spliced: bytes that need no change do not change. A request in another one is written from its conversation, always in the same
// order, and the provider does not store it. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect != chat.Responses {
		return translate(buf, req, o)
	}
	e, d := req.Edit.Clone(), &req.Doc
	if o.Model != "" && !d.Get("model").Equal(o.Model) {
		e.Set(d, "model", jsonx.AppendString(nil, o.Model))
	}
	a := adjuster{edits: &e, doc: d, opts: &o}
	if req.Op == chat.Generate {
		a.adjust(req)
		degraded = a.degraded
	}
	for _, name := range dropGatewayItems(&e, d) {
		degraded = wire.AppendDegraded(degraded, name)
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded, nil
}

func translate(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Op == chat.CountTokens {
		return nil, nil, fault.New(fault.InvalidRequest, "this provider's format cannot count tokens", nil)
	}
	c, err := wire.Target{Dialect: chat.Responses}.Conversation(req)
	if err != nil {
		return nil, nil, err
	}
	w := writer{Writer: wire.Writer{Dst: buf, Conv: c}, req: req, opts: o}
	if err := w.request(); err != nil {
		return nil, nil, err
	}
	return w.Dst, w.Degraded, w.Refused
}

// dropGatewayItems removes the items that the gateway converted from another provider's thinking and images: this provider would not find or could
// not decrypt them, and would refuse the request. It returns their types.
func dropGatewayItems(e *jsonx.Edits, d *jsonx.Doc) (found []string) {
	input := d.Get("input")
	if input.Kind() != jsonx.Array || !mayHaveOwnItems(d) {
		return nil
	}
	end := input.At + 1 // end of the last item that stays
	first, dropped := true, false
	for _, item := range input.Each {
		if isFromGateway(item) {
			kind, _ := item.Get("type").Str()
			found, dropped = append(found, kind), true
			continue
		}
		if dropped { // with the separators around it
			e.Replace(end, item.At, separator(first))
		}
		end, first, dropped = item.At+len(item.Raw), false, false
	}
	if dropped {
		e.Replace(end, input.At+len(input.Raw)-1, nil)
	}
	return found
}

// separator returns the text before an item: nothing before the first.
func separator(first bool) jsonx.Raw {
	if first {
		return nil
	}
	return jsonx.Raw(",")
}

var ownTypes = jsonx.WordsOf("reasoning", pictureItem)

// mayHaveOwnItems reports whether a document may have items that the gateway wrote.
func mayHaveOwnItems(d *jsonx.Doc) bool {
	return d.MayHoldValue(&ownTypes) && (d.MayContain(ownReasoning) || d.MayContain(wire.SealPrefix) || d.MayContain(chat.OwnPicture))
}

// isFromGateway reports whether the gateway wrote an item.
func isFromGateway(item jsonx.Value) bool {
	id, _ := item.Get("id").Str()
	switch kind := item.Get("type"); {
	case kind.Equal(pictureItem):
		return strings.HasPrefix(id, chat.OwnPicture)
	case kind.Equal("reasoning"):
		sealed, _ := item.Get("encrypted_content").Str()
		return strings.HasPrefix(id, ownReasoning) || strings.HasPrefix(sealed, wire.SealPrefix)
	}
	return false
}
