package processor

import (
	"bytes"
	"slices"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// object returns a Struct of strings.
func object(namesAndValues ...string) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := 0; i < len(namesAndValues); i += 2 {
		s.Fields[namesAndValues[i]] = structpb.NewStringValue(namesAndValues[i+1])
	}
	return s
}

// fromEnvoy are messages as Envoy sends them.
func fromEnvoy() []*ep.ProcessingRequest {
	headers := &core.HeaderMap{Headers: []*core.HeaderValue{
		{Key: ":path", RawValue: []byte("/v1/chat/completions")},
		{Key: "x-bytes", RawValue: []byte{0xff, 0xfe}},
		{Key: "x-old", Value: "text"},
		{Key: "x-both", Value: "old", RawValue: []byte("new")},
		{Key: "x-empty"},
		{},
	}}
	own := &core.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"other": object(state.KeyExchange, "wrong"), state.Metadata: object(state.KeyExchange, "req_1", state.KeyAttempt+"1", "p:a;429;7"),
	}}
	attributes := map[string]*structpb.Struct{
		"other": object(attrCluster, "wrong"), filterName: object(attrCluster, "p:a", attrDetails, "via_upstream"),
	}
	return []*ep.ProcessingRequest{
		{Request: &ep.ProcessingRequest_RequestHeaders{RequestHeaders: &ep.HttpHeaders{Headers: headers}}, Attributes: attributes},
		{Request: &ep.ProcessingRequest_ResponseHeaders{ResponseHeaders: &ep.HttpHeaders{Headers: headers, EndOfStream: true}}, MetadataContext: own, Attributes: attributes},
		{Request: &ep.ProcessingRequest_RequestBody{RequestBody: &ep.HttpBody{Body: []byte("{}"), EndOfStream: true}}, MetadataContext: own},
		{Request: &ep.ProcessingRequest_ResponseBody{ResponseBody: &ep.HttpBody{Body: bytes.Repeat([]byte("x"), 70_000)}}, MetadataContext: own},
		{Request: &ep.ProcessingRequest_ResponseBody{ResponseBody: &ep.HttpBody{EndOfStream: true}}},
		{Request: &ep.ProcessingRequest_RequestTrailers{RequestTrailers: &ep.HttpTrailers{Trailers: headers}}},
		{Request: &ep.ProcessingRequest_ResponseTrailers{ResponseTrailers: &ep.HttpTrailers{Trailers: &core.HeaderMap{}}}, MetadataContext: own},
		{ObservabilityMode: true, ProtocolConfig: &ep.ProtocolConfiguration{SendBodyWithoutWaitingForHeaderResponse: true}},
	}
}

func TestMessagesAreParsedAsByTheGeneratedCode(t *testing.T) {
	var m message // one for all, as a stream has
	for _, want := range fromEnvoy() {
		raw, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.read(raw); err != nil {
			t.Fatal(err)
		}
		compare(t, &m, want)
	}
}

// compare reports where m differs from the result of the generated code.
func compare(t *testing.T, m *message, want *ep.ProcessingRequest) {
	t.Helper()
	var kind kind
	var list *core.HeaderMap
	var body []byte
	var end bool
	switch v := want.GetRequest().(type) {
	case *ep.ProcessingRequest_RequestHeaders:
		kind, list, end = kindRequestHeaders, v.RequestHeaders.GetHeaders(), v.RequestHeaders.GetEndOfStream()
	case *ep.ProcessingRequest_ResponseHeaders:
		kind, list, end = kindResponseHeaders, v.ResponseHeaders.GetHeaders(), v.ResponseHeaders.GetEndOfStream()
	case *ep.ProcessingRequest_RequestBody:
		kind, body, end = kindRequestBody, v.RequestBody.GetBody(), v.RequestBody.GetEndOfStream()
	case *ep.ProcessingRequest_ResponseBody:
		kind, body, end = kindResponseBody, v.ResponseBody.GetBody(), v.ResponseBody.GetEndOfStream()
	case *ep.ProcessingRequest_RequestTrailers:
		kind, list = kindRequestTrailers, v.RequestTrailers.GetTrailers()
	case *ep.ProcessingRequest_ResponseTrailers:
		kind, list = kindResponseTrailers, v.ResponseTrailers.GetTrailers()
	}
	if m.kind != kind || m.end != end || !bytes.Equal(m.body, body) {
		t.Errorf("read %s, %d bytes, end %v; want %s, %d bytes, end %v", m.kind, len(m.body), m.end, kind, len(body), end)
	}
	var headers header.List
	for _, h := range list.GetHeaders() {
		f := header.Field{Name: h.GetKey(), Value: h.GetValue()}
		if raw := h.GetRawValue(); len(raw) > 0 {
			f.Value = string(raw)
		}
		headers = append(headers, f)
	}
	if !slices.Equal(m.headers, headers) {
		t.Errorf("%s: headers %q, want %q", kind, m.headers, headers)
	}
	for _, name := range []string{attrCluster, attrDetails, "none"} {
		if got, want := m.attribute(name), want.GetAttributes()[filterName].GetFields()[name].GetStringValue(); got != want {
			t.Errorf("%s: attribute %s is %q, want %q", kind, name, got, want)
		}
	}
	for _, name := range []string{state.KeyExchange, state.KeyAttempt + "1", "none"} {
		if got, want := m.metadataValue(name), want.GetMetadataContext().GetFilterMetadata()[state.Metadata].GetFields()[name].GetStringValue(); got != want {
			t.Errorf("%s: note %s is %q, want %q", kind, name, got, want)
		}
	}
}

func TestATruncatedMessageIsRefused(t *testing.T) {
	for _, full := range fromEnvoy()[:2] {
		raw, err := proto.Marshal(full)
		if err != nil {
			t.Fatal(err)
		}
		var m message
		if err := m.read(raw[:len(raw)-1]); err == nil {
			t.Errorf("%s: half a message was read", m.kind)
		}
	}
}

// FuzzMessage: no input causes a panic; and what the generated code can parse and encode again is parsed alike.
func FuzzMessage(f *testing.F) {
	for _, m := range fromEnvoy() {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m message
		_ = m.read(raw) // it may be an error
		_, _ = m.attribute(attrCluster), m.metadataValue(state.KeyExchange)
		var theirs ep.ProcessingRequest
		if proto.Unmarshal(raw, &theirs) != nil {
			return
		}
		again, err := proto.Marshal(&theirs)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.read(again); err != nil {
			t.Fatalf("refused what the generated code writes: %v", err)
		}
		compare(t, &m, &theirs)
	})
}

func BenchmarkReadHeaders(b *testing.B) {
	raw, err := proto.Marshal(fromEnvoy()[1])
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		var m message
		for b.Loop() {
			if err := m.read(raw); err != nil {
				b.Fatal(err)
			}
			_, _, _ = m.attribute(attrCluster), m.attribute(attrDetails), m.metadataValue(state.KeyAttempt+"1")
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var m ep.ProcessingRequest
			if err := proto.Unmarshal(raw, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
