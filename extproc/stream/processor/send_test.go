package processor

import (
	"bytes"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
)

// generated is what the generated code has for a response: the tags around it say where it goes.
func generated(r *response) *ep.ProcessingResponse {
	common := &ep.CommonResponse{}
	piece := &ep.StreamedBodyResponse{Body: r.body, EndOfStream: r.end}
	headers := &core.HeaderMap{}
	switch r.what {
	case aPiece:
		common.BodyMutation = &ep.BodyMutation{Mutation: &ep.BodyMutation_StreamedResponse{StreamedResponse: piece}}
	case someHeaders:
		for _, f := range r.set {
			headers.Headers = append(headers.Headers, &core.HeaderValue{Key: f.Name, RawValue: []byte(f.Value)})
		}
	case changes, rerouting:
		common.HeaderMutation, common.ClearRouteCache = mutation(r.set, r.remove), r.what == rerouting
	}
	out := requestHeaders(common)
	switch &r.around[0] {
	case &inResponseHeaders[0]:
		out.Response = &ep.ProcessingResponse_ResponseHeaders{ResponseHeaders: &ep.HeadersResponse{Response: common}}
	case &inRequestBody[0]:
		out.Response = &ep.ProcessingResponse_RequestBody{RequestBody: &ep.BodyResponse{Response: common}}
	case &inResponseBody[0]:
		out.Response = &ep.ProcessingResponse_ResponseBody{ResponseBody: &ep.BodyResponse{Response: common}}
	case &inStreamHead[0]:
		out.Response = immediately(&ep.StreamedImmediateResponse{Response: &ep.StreamedImmediateResponse_HeadersResponse{HeadersResponse: &ep.HttpHeaders{Headers: headers}}})
	case &inStreamBody[0]:
		out.Response = immediately(&ep.StreamedImmediateResponse{Response: &ep.StreamedImmediateResponse_BodyResponse{BodyResponse: piece}})
	case &inStreamTrailers[0]:
		out.Response = immediately(&ep.StreamedImmediateResponse{Response: &ep.StreamedImmediateResponse_TrailersResponse{TrailersResponse: headers}})
	}
	if r.metadata != nil {
		out.DynamicMetadata = encoded(r.metadata)
	}
	return out
}

func immediately(r *ep.StreamedImmediateResponse) *ep.ProcessingResponse_StreamedImmediateResponse {
	return &ep.ProcessingResponse_StreamedImmediateResponse{StreamedImmediateResponse: r}
}

func TestAResponseIsWrittenAsTheGeneratedCodeWritesIt(t *testing.T) {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("long", 5000)
	headers := header.List{{Name: ":status", Value: "200"}, {Name: "x-long", Value: long}, {Name: long, Value: "\xff"}}
	remove := []string{"authorization", long}
	metadata := orderMetadata("req_1", []string{"p:a", "p:b"})
	for name, r := range map[string]response{
		"a request's head":                {around: inRequestHeaders, what: rerouting, set: headers, remove: remove, metadata: metadata},
		"one without changes":             {around: inRequestHeaders, what: rerouting},
		"an answer's head":                {around: inResponseHeaders, what: changes, set: headers, remove: remove},
		"one that stays as it is":         {around: inResponseHeaders, what: changes},
		"a piece of a request":            {around: inRequestBody, body: []byte("{}")},
		"the end of a request":            {around: inRequestBody, end: true},
		"a large piece of an answer":      {around: inResponseBody, body: bytes.Repeat([]byte("x"), stream.MaxPiece), end: true},
		"nothing":                         {around: inResponseBody},
		"the head of an answer of ours":   {around: inStreamHead, what: someHeaders, set: headers},
		"a piece of one":                  {around: inStreamBody, body: []byte("data: {}\n\n")},
		"the end of one":                  {around: inStreamBody, body: []byte("data: [DONE]\n\n"), end: true},
		"the trailers of one":             {around: inStreamTrailers, what: someHeaders, set: headers},
		"trailers without a single field": {around: inStreamTrailers, what: someHeaders},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := c.Marshal(&r)
			if err != nil {
				t.Fatal(err)
			}
			defer data.Free()
			want := generated(&r)
			got := &ep.ProcessingResponse{}
			if err := proto.Unmarshal(data.Materialize(), got); err != nil {
				t.Fatal(err)
			}
			raw, err := proto.Marshal(want) // the metadata lie in it as they are
			if err != nil {
				t.Fatal(err)
			}
			read := &ep.ProcessingResponse{}
			if err := proto.Unmarshal(raw, read); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, read) || data.Len() != len(raw) || r.size() != len(raw) {
				t.Errorf("%d bytes, announced as %d, want %d:\n%v\n%v", data.Len(), r.size(), len(raw), got, read)
			}
		})
	}
}

func BenchmarkWriteHead(b *testing.B) {
	c, err := newCodec()
	if err != nil {
		b.Fatal(err)
	}
	var set header.List
	for range 14 {
		set = append(set, header.Field{Name: "x-bardo-something", Value: "a value"})
	}
	r := response{around: inResponseHeaders, what: changes, set: set, remove: []string{"x-one", "x-two"}}
	for name, m := range map[string]func() any{"ours": func() any { return &r }, "generated": func() any { return generated(&r) }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := c.Marshal(m())
				if err != nil {
					b.Fatal(err)
				}
				data.Free()
			}
		})
	}
}
