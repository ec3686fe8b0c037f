package processor

import (
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
)

// mutation sets and removes headers. Sets overwrite.
func mutation(set header.List, remove []string) *ep.HeaderMutation {
	vals := make([]core.HeaderValue, len(set))
	opts := make([]core.HeaderValueOption, len(set))
	out := make([]*core.HeaderValueOption, len(set))
	for i, f := range set {
		vals[i].Key, vals[i].RawValue = f.Name, []byte(f.Value)
		opts[i].Header = &vals[i]
		opts[i].AppendAction = core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		out[i] = &opts[i]
	}
	return &ep.HeaderMutation{SetHeaders: out, RemoveHeaders: remove}
}

func requestHeaders(c *ep.CommonResponse) *ep.ProcessingResponse {
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_RequestHeaders{RequestHeaders: &ep.HeadersResponse{Response: c}}}
}

// responseTrailers ends an answer's body, removing the named trailers.
func responseTrailers(remove []string) *ep.ProcessingResponse {
	t := &ep.TrailersResponse{HeaderMutation: mutation(nil, remove)}
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_ResponseTrailers{ResponseTrailers: t}}
}

func immediate(r stream.Reply) *ep.ProcessingResponse {
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_ImmediateResponse{ImmediateResponse: &ep.ImmediateResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(r.Status)}, Headers: mutation(r.Header, nil), Body: r.Body, Details: "bardo", //nolint:gosec // a status
	}}}
}
