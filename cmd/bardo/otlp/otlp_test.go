package otlp

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/telemetry"
)

// spansOf returns the spans of a request, its own first.
func spansOf(t *testing.T, f *record.Finished, sampler sdk.Sampler) []tracetest.SpanStub {
	t.Helper()
	out := tracetest.NewInMemoryExporter()
	p := sdk.NewTracerProvider(sdk.WithIDGenerator(ids{}), sdk.WithSyncer(out), sdk.WithSampler(sampler))
	redact := func(s string) string { return strings.ReplaceAll(s, "sk-secret", "***") }
	(&writer{tracer: p.Tracer("t"), redact: redact, f: f}).write()
	spans := out.GetSpans()
	if n := len(spans); n > 1 { // a span is exported when it ends
		spans = append(tracetest.SpanStubs{spans[n-1]}, spans[:n-1]...)
	}
	return spans
}

func value(s *tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

var began = time.Date(2026, 8, 5, 12, 0, 0, 0, time.UTC)

// failedOver is a request whose first provider failed.
func failedOver() *record.Finished {
	return &record.Finished{
		ID: "req_1", Operation: "chat", RequestedModel: "m", Model: "m-1", Provider: "b", Status: 200, Outcome: record.OK, Cache: "miss", InputTokens: 7, CachedTokens: 2,
		OutputTokens: 5, Cost: 1_500_000, Account: "key_1",
		Attempts: []record.Attempt{
			{Provider: "a", Model: "m-1", Outcome: "status_503", Reason: "it said 503", Next: "next_candidate", NextWhy: "another candidate may do better"},
			{Provider: "b", Model: "m-1", Outcome: record.OK},
		},
		Timeline: record.Timeline{
			Began: began, Took: 4 * time.Second, First: time.Second,
			Attempts: []record.Interval{{From: time.Second, Took: time.Second}, {From: 2 * time.Second, Took: 2 * time.Second}},
			Layers:   []record.LayerRun{{Layer: "l3", Note: "miss", Interval: record.Interval{From: 10, Took: 20}}, {Layer: "l7"}},
		},
	}
}

func TestB06ATraceOfAFailoverShowsBothAttempts(t *testing.T) {
	f := failedOver()
	spans := spansOf(t, f, sdk.AlwaysSample())
	if len(spans) != 5 {
		t.Fatalf("%d spans", len(spans))
	}
	root := &spans[0]
	at := record.TraceOf("req_1", "")
	if root.Name != "chat m" || root.SpanKind != trace.SpanKindServer || root.SpanContext.TraceID() != at.TraceID || root.SpanContext.SpanID() != at.SpanID ||
		root.Parent.IsValid() || !root.StartTime.Equal(began) || !root.EndTime.Equal(began.Add(4*time.Second)) || root.Status.Code == codes.Error {
		t.Errorf("the request: %+v", root)
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1", "gen_ai.provider.name": "b", "gen_ai.usage.input_tokens": "7",
		"gen_ai.usage.output_tokens": "5", "gen_ai.usage.cache_read.input_tokens": "2", "openinference.span.kind": "LLM", "llm.model_name": "m-1",
		"llm.token_count.total": "12", "llm.cost.total": "1.5", "gen_ai.response.time_to_first_chunk": "1", "bardo.account": "key_1", "http.response.status_code": "200",
	} {
		if got := value(root, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for i := range spans[1:] {
		if s := &spans[i+1]; s.Parent.SpanID() != root.SpanContext.SpanID() || s.SpanContext.TraceID() != at.TraceID {
			t.Errorf("%s is not below the request", s.Name)
		}
	}
	if s := &spans[1]; s.Name != "cache lookup l3" || value(s, "bardo.layer.note") != "miss" || !s.EndTime.Equal(began.Add(30)) {
		t.Errorf("the cache: %+v", s)
	}
	if s := &spans[2]; s.Name != "layer l7" || value(s, "openinference.span.kind") != "GUARDRAIL" {
		t.Errorf("a layer: %+v", s)
	}
	first, second := &spans[3], &spans[4]
	if first.Status.Code != codes.Error || value(first, "error.type") != "status_503" || value(first, "gen_ai.provider.name") != "a" || first.SpanKind != trace.SpanKindClient ||
		value(first, "bardo.attempt.next") != "next_candidate" || value(first, "bardo.attempt.next_reason") == "" || !first.EndTime.Equal(second.StartTime) {
		t.Errorf("the first attempt: %+v", first)
	}
	if second.Status.Code == codes.Error || value(second, "gen_ai.provider.name") != "b" || value(second, "error.type") != "" || value(second, "gen_ai.usage.input_tokens") != "" {
		t.Errorf("the second attempt: %+v", second)
	}
}

func TestATraceGoesOnWhereItsClientBeganIt(t *testing.T) {
	f := failedOver()
	f.Parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, s := range spansOf(t, f, sdk.AlwaysSample()) {
		if s.SpanContext.TraceID().String() != f.Parent[3:35] {
			t.Errorf("%s is in another trace", s.Name)
		}
		if s.SpanKind == trace.SpanKindServer && s.Parent.SpanID().String() != f.Parent[36:52] {
			t.Error("the request is not below the client's span")
		}
	}
	if spans := spansOf(t, f, sdk.TraceIDRatioBased(0)); len(spans) != 0 {
		t.Errorf("%d spans of a trace that is not sampled", len(spans))
	}
}

// TestOddRequestsHaveSpans: without an answer, without times, with a secret in a client's text.
func TestOddRequestsHaveSpans(t *testing.T) {
	f := &record.Finished{
		ID: "req_2", Operation: "chat", RequestedModel: "sk-secret", Status: 502, Code: "upstream_error", Attempts: []record.Attempt{{Provider: "a", Outcome: "connect"}},
		Timeline: record.Timeline{Began: began, Took: time.Second, Attempts: []record.Interval{{}}},
	}
	spans := spansOf(t, f, sdk.AlwaysSample())
	if len(spans) != 2 || spans[0].Name != "chat ***" || spans[0].Status.Code != codes.Error || spans[0].Status.Description != "upstream_error" ||
		value(&spans[0], "gen_ai.usage.input_tokens") != "" || !spans[1].EndTime.Equal(began.Add(time.Second)) {
		t.Errorf("%+v", spans)
	}
	for _, operation := range []struct{ name, kind string }{{"embeddings", "EMBEDDING"}, {"passthrough", "CHAIN"}} {
		got := spansOf(t, &record.Finished{ID: "r", Operation: operation.name, Timeline: record.Timeline{Began: began}}, sdk.AlwaysSample())
		if len(got) != 1 || got[0].Name != operation.name || value(&got[0], "openinference.span.kind") != operation.kind {
			t.Errorf("%+v", got)
		}
	}
}

// TestB06MetricsHaveTheNamesOfTheConventions, and the gateway's own metrics keep theirs.
func TestB06MetricsHaveTheNamesOfTheConventions(t *testing.T) {
	m := telemetry.New(telemetry.Build{})
	m.SetModels([]string{"m"})
	m.RequestDone(&telemetry.Request{Provider: "p", Model: "m", Status: 200, Streamed: true, Duration: time.Second, FirstToken: time.Millisecond, Tokens: telemetry.Tokens{Input: 3, Output: 2}})
	m.AttemptDone(&telemetry.Attempt{Provider: "p", Model: "m", Outcome: telemetry.Served, Duration: time.Second})
	reader := metric.NewManualReader(metric.WithProducer(newProducer(m.Gatherer(nil))))
	metric.NewMeterProvider(metric.WithReader(reader))
	var got metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Metrics{}
	for _, s := range got.ScopeMetrics {
		for _, one := range s.Metrics {
			found[one.Name] = one
		}
	}
	for _, c := range conventional {
		one, ok := found[c.name]
		if !ok || one.Unit != c.unit {
			t.Errorf("no %s in %s: %q", c.name, c.unit, one.Unit)
			continue
		}
		h, ok := one.Data.(metricdata.Histogram[float64])
		if !ok || len(h.DataPoints) == 0 {
			t.Errorf("%s: %T", c.name, one.Data)
			continue
		}
		if v, ok := h.DataPoints[0].Attributes.Value(attribute.Key("gen_ai.provider.name")); !ok || v.AsString() != "p" {
			t.Errorf("%s: %v", c.name, h.DataPoints[0].Attributes)
		}
		if v, ok := h.DataPoints[0].Attributes.Value("error.type"); ok {
			t.Errorf("%s: an error %v", c.name, v)
		}
	}
	if _, ok := found["bardo_requests_total"]; !ok {
		t.Error("no bardo_requests_total")
	}
}
