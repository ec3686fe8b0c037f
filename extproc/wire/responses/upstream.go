package responses

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// NewCall writes one attempt at a provider that speaks this format, for a client that does. model is the name that the
// provider knows the model by. The error is a fault.
func NewCall(buf []byte, req *chat.Request, at provider.Endpoint, model string) (*provider.Call, error) {
	body, degraded, err := EncodeRequest(buf, req, model)
	if err != nil {
		return nil, err
	}
	call := &provider.Call{Path: at.BasePath + "/responses", Body: body, Degraded: degraded}
	if req.Op == chat.CountTokens {
		call.Path += "/input_tokens"
	}
	if at.Key != "" {
		call.Header = header.List{{Name: "authorization", Value: "Bearer " + string(at.Key)}}
	}
	return call, nil
}

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not say. What need
// not change does not. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, model string) (body []byte, degraded []string, err error) {
	if req.Dialect != chat.Responses {
		return nil, nil, fault.Newf(fault.Internal, "a request in the format %s cannot be written as one of Responses", req.Dialect)
	}
	e, d := req.Edit.Clone(), &req.Doc
	if model != "" && !d.Get("model").Equal(model) {
		e.Set(d, "model", jsonx.AppendString(nil, model))
	}
	if dropOurs(&e, d) {
		degraded = append(degraded, "reasoning")
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded, nil
}

// dropOurs takes out the reasoning items that the gateway made of another provider's thinking: this one would look for them, or for
// what it encrypted, and refuse the request.
func dropOurs(e *jsonx.Edits, d *jsonx.Doc) (dropped bool) {
	input := d.Get("input")
	if input.Kind() != jsonx.Array || !isOurs(string(input.Raw)) {
		return false
	}
	var kept, rest []jsonx.Value
	for _, item := range input.Each {
		if item.Get("type").Equal("reasoning") && madeHere(item) {
			rest = append(rest, item)
			continue
		}
		kept = append(kept, item)
	}
	if len(rest) == 0 {
		return false
	}
	if len(kept) == 0 {
		e.Replace(input.At+1, input.At+len(input.Raw)-1, nil)
		return true
	}
	for _, item := range rest {
		start, end := around(kept, item)
		e.Replace(start, end, nil)
	}
	return true
}

// around is the range of an item with the comma that goes with it: from the end of the one before that stays, or up to the first
// that does.
func around(kept []jsonx.Value, item jsonx.Value) (start, end int) {
	start, end = item.At, item.At+len(item.Raw)
	i, _ := slices.BinarySearchFunc(kept, item.At, func(k jsonx.Value, at int) int { return k.At - at })
	if i == 0 {
		return start, kept[0].At
	}
	before := kept[i-1]
	return before.At + len(before.Raw), end
}

// isOurs reports whether a text may hold what the gateway made.
func isOurs(s string) bool {
	return strings.Contains(s, ownReasoning) || strings.Contains(s, sealPrefix)
}

func madeHere(item jsonx.Value) bool {
	id, _ := item.Get("id").Str()
	sealed, _ := item.Get("encrypted_content").Str()
	return strings.HasPrefix(id, ownReasoning) || strings.HasPrefix(sealed, sealPrefix)
}
