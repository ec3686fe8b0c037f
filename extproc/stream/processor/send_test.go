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

// generated returns the generated code's form of a response, by the tags around it.
func generated(r *response) *ep.ProcessingResponse {
	common := &ep.CommonResponse{}
	piece := &ep.StreamedBodyResponse{Body: r.body, EndOfStream: r.end}
	headers := &core.HeaderMap{}
	switch r.what {
	case bodyPiece:
		common.BodyMutation = &ep.BodyMutation{Mutation: &ep.BodyMutation_StreamedResponse{StreamedResponse: piece}}
	case headerMap:
		for _, f := range r.set {
			headers.Headers = append(headers.Headers, &core.HeaderValue{Key: f.Name, RawValue: []byte(f.Value)})
		}
	case headerChanges, headerChangesReroute:
		common.HeaderMutation, common.ClearRouteCache = mutation(r.set, r.remove), r.what == headerChangesReroute
	}
	out := requestHeaders(common)
	switch &r.envelope[0] {
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

func TestResponsesEqualTheGeneratedCodes(t *testing.T) {
	long := strings.Repeat("long", 5000)
	headers := header.List{{Name: ":status", Value: "200"}, {Name: "x-long", Value: long}, {Name: long, Value: "\xff"}}
	remove := []string{"authorization", long}
	metadata := orderMetadata("req_1", []string{"p:a", "p:b"})
	for name, r := range map[string]response{
		"a request's head":                {envelope: inRequestHeaders, what: headerChangesReroute, set: headers, remove: remove, metadata: metadata},
		"one without changes":             {envelope: inRequestHeaders, what: headerChangesReroute},
		"an answer's head":                {envelope: inResponseHeaders, what: headerChanges, set: headers, remove: remove},
		"one that stays as it is":         {envelope: inResponseHeaders, what: headerChanges},
		"a piece of a request":            {envelope: inRequestBody, body: []byte("{}")},
		"the end of a request":            {envelope: inRequestBody, end: true},
		"a large piece of an answer":      {envelope: inResponseBody, body: bytes.Repeat([]byte("x"), stream.MaxPiece), end: true},
		"nothing":                         {envelope: inResponseBody},
		"the head of an answer of ours":   {envelope: inStreamHead, what: headerMap, set: headers},
		"a piece of one":                  {envelope: inStreamBody, body: []byte("data: {}\n\n")},
		"the end of one":                  {envelope: inStreamBody, body: []byte("data: [DONE]\n\n"), end: true},
		"the trailers of one":             {envelope: inStreamTrailers, what: headerMap, set: headers},
		"trailers without a single field": {envelope: inStreamTrailers, what: headerMap},
	} {
		t.Run(name, func(t *testing.T) {
			data := r.appendTo(nil)
			want := generated(&r)
			got := &ep.ProcessingResponse{}
			if err := proto.Unmarshal(data, got); err != nil {
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
			if !proto.Equal(got, read) || len(data) != len(raw) || r.size() != len(raw) {
				t.Errorf("%d bytes, announced as %d, want %d:\n%v\n%v", len(data), r.size(), len(raw), got, read)
			}
		})
	}
}

func BenchmarkWriteHead(b *testing.B) {
	var set header.List
	for range 14 {
		set = append(set, header.Field{Name: "x-bardo-something", Value: "a value"})
	}
	r := response{envelope: inResponseHeaders, what: headerChanges, set: set, remove: []string{"x-one", "x-two"}}
	buf := make([]byte, 0, r.size())
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.appendTo(buf)
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (proto.MarshalOptions{}).MarshalAppend(buf, generated(&r)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
