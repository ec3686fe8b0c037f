package extproc

import (
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"bardo.money/gateway/internal/header"
)

// headerMap is a list of headers in Envoy's form.
func headerMap(l header.List) *core.HeaderMap {
	vals := make([]core.HeaderValue, len(l))
	out := make([]*core.HeaderValue, len(l))
	for i, f := range l {
		vals[i].Key, vals[i].RawValue = f.Name, []byte(f.Value)
		out[i] = &vals[i]
	}
	return &core.HeaderMap{Headers: out}
}

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

func responseHeaders(c *ep.CommonResponse) *ep.ProcessingResponse {
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_ResponseHeaders{ResponseHeaders: &ep.HeadersResponse{Response: c}}}
}

func streamed(b []byte, end bool) *ep.BodyResponse {
	return &ep.BodyResponse{Response: &ep.CommonResponse{BodyMutation: &ep.BodyMutation{
		Mutation: &ep.BodyMutation_StreamedResponse{StreamedResponse: &ep.StreamedBodyResponse{Body: b, EndOfStream: end}},
	}}}
}

func requestBody(b []byte, end bool) *ep.ProcessingResponse {
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_RequestBody{RequestBody: streamed(b, end)}}
}

func responseBody(b []byte, end bool) *ep.ProcessingResponse {
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_ResponseBody{ResponseBody: streamed(b, end)}}
}

func immediate(r reply) *ep.ProcessingResponse {
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_ImmediateResponse{ImmediateResponse: &ep.ImmediateResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(r.status)}, Headers: mutation(r.header, nil), Body: r.body, Details: "bardo", //nolint:gosec // a status
	}}}
}

func streamedImmediate(r *ep.StreamedImmediateResponse) *ep.ProcessingResponse {
	return &ep.ProcessingResponse{Response: &ep.ProcessingResponse_StreamedImmediateResponse{StreamedImmediateResponse: r}}
}
