package otlp

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/layers/guardrail"
	"bardo.money/gateway/extproc/layers/hashcache"
	"bardo.money/gateway/extproc/layers/injection"
	"bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/layers/semcache"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
)

// Attributes of the semantic conventions for generative AI, and of OpenInference.
const (
	operationName  = "gen_ai.operation.name"
	providerName   = "gen_ai.provider.name"
	requestModel   = "gen_ai.request.model"
	responseModel  = "gen_ai.response.model"
	requestStream  = "gen_ai.request.stream"
	firstChunk     = "gen_ai.response.time_to_first_chunk" // seconds
	inputTokens    = "gen_ai.usage.input_tokens"
	outputTokens   = "gen_ai.usage.output_tokens"
	cacheRead      = "gen_ai.usage.cache_read.input_tokens"
	cacheWrite     = "gen_ai.usage.cache_creation.input_tokens"
	reasoning      = "gen_ai.usage.reasoning.output_tokens"
	errorType      = "error.type"
	responseStatus = "http.response.status_code"

	inferenceKind   = "openinference.span.kind"
	llmModel        = "llm.model_name"
	llmProvider     = "llm.provider"
	promptTokens    = "llm.token_count.prompt"
	completion      = "llm.token_count.completion"
	totalTokens     = "llm.token_count.total"
	promptCached    = "llm.token_count.prompt_details.cache_read"
	promptWritten   = "llm.token_count.prompt_details.cache_write"
	completionThink = "llm.token_count.completion_details.reasoning"
	llmCost         = "llm.cost.total"

	kindLLM, kindEmbedding, kindChain, kindGuardrail = "LLM", "EMBEDDING", "CHAIN", "GUARDRAIL"
)

// writer writes the spans of one request.
type writer struct {
	tracer trace.Tracer
	redact func(string) string
	f      *record.Finished
	at     record.TraceContext
	start  time.Time
}

// write writes the request's span, and its child spans for layers and attempts.
func (w *writer) write() {
	f := w.f
	w.at, w.start = record.TraceOf(f.ID, f.Parent), f.Began
	ctx := withIDs(context.Background(), w.at.TraceID, w.at.SpanID)
	if w.at.Parent != [8]byte{} {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: w.at.TraceID, SpanID: w.at.Parent, Remote: true}))
	}
	ctx, span := w.tracer.Start(ctx, w.name(f.Operation, f.RequestedModel), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(w.start))
	if span.IsRecording() {
		span.SetAttributes(w.request()...)
		if f.Code != "" {
			span.SetStatus(codes.Error, f.Code)
		}
		for i := range f.Layers {
			w.layer(ctx, i)
		}
		for i := range f.Attempts {
			w.attempt(ctx, i)
		}
	}
	span.End(trace.WithTimestamp(w.start.Add(f.Took)))
}

// name is the name of the span of a model call.
func (w *writer) name(operation, model string) string {
	if model == "" {
		return operation
	}
	return operation + " " + w.redact(model)
}

// text is an attribute with secrets redacted. Some texts, such as the names of a model and a subsystem, are chosen by clients.
func (w *writer) text(key, value string) attribute.KeyValue {
	return attribute.String(key, w.redact(value))
}

// request returns the attributes of the request's span. Usage is that of all calls together, and only on this span, so that sums over spans count it once.
func (w *writer) request() []attribute.KeyValue {
	f := w.f
	a := []attribute.KeyValue{
		attribute.String(inferenceKind, kindOf(f.Operation)), attribute.String(operationName, f.Operation), attribute.Int(responseStatus, f.Status),
		attribute.Bool(requestStream, f.Stream), attribute.String("bardo.request.id", f.ID), attribute.String("bardo.outcome", f.Outcome),
		attribute.String("bardo.dialect", string(f.Dialect)), attribute.String("bardo.cache.result", f.Cache), attribute.Int("bardo.attempts", len(f.Attempts)),
		attribute.Float64("bardo.cost.usd", dollars(f.Cost)), attribute.Float64("bardo.savings.usd", dollars(f.Savings)),
	}
	for _, t := range []struct{ key, value string }{
		{requestModel, f.RequestedModel},
		{responseModel, string(f.Model)},
		{llmModel, string(f.Model)},
		{providerName, string(f.Provider)},
		{llmProvider, string(f.Provider)},
		{errorType, f.Code},
		{"bardo.account", string(f.Account)},
		{"bardo.subsystem", f.Subsystem},
	} {
		if t.value != "" {
			a = append(a, w.text(t.key, t.value))
		}
	}
	if f.Similarity > 0 {
		a = append(a, attribute.Float64("bardo.cache.similarity", f.Similarity))
	}
	if f.First > 0 {
		a = append(a, attribute.Float64(firstChunk, f.First.Seconds()))
	}
	if f.InputTokens+f.OutputTokens > 0 {
		a = append(a, w.usage()...)
	}
	return a
}

func dollars(m policy.Micro) float64 { return float64(m) / float64(policy.USD) }

func (w *writer) usage() []attribute.KeyValue {
	f := w.f
	return []attribute.KeyValue{
		attribute.Int64(inputTokens, f.InputTokens), attribute.Int64(outputTokens, f.OutputTokens), attribute.Int64(cacheRead, f.CachedTokens),
		attribute.Int64(cacheWrite, f.CacheWriteTokens), attribute.Int64(reasoning, f.ReasoningTokens),
		attribute.Int64(promptTokens, f.InputTokens), attribute.Int64(completion, f.OutputTokens), attribute.Int64(totalTokens, f.InputTokens+f.OutputTokens),
		attribute.Int64(promptCached, f.CachedTokens), attribute.Int64(promptWritten, f.CacheWriteTokens), attribute.Int64(completionThink, f.ReasoningTokens),
		attribute.Float64(llmCost, dollars(f.Cost)),
	}
}

// kindOf is the OpenInference kind of an operation.
func kindOf(operation string) string {
	switch operation {
	case "chat":
		return kindLLM
	case "embeddings":
		return kindEmbedding
	}
	return kindChain
}

// guards are the layers that may refuse a request.
var guards = map[string]bool{pii.Name: true, firewall.Name: true, guardrail.Name: true, injection.Name: true}

// caches are the layers that look up stored answers.
var caches = map[string]bool{semcache.Name: true, hashcache.Name: true}

// layer writes the span of one run of a layer.
func (w *writer) layer(ctx context.Context, i int) {
	run := &w.f.Layers[i]
	name, kind := "layer "+run.Layer, kindChain
	a := []attribute.KeyValue{attribute.String("bardo.layer.name", run.Layer), attribute.Bool("bardo.layer.timed_out", run.TimedOut)}
	switch {
	case guards[run.Layer]:
		kind = kindGuardrail
	case caches[run.Layer]:
		name = "cache lookup " + run.Layer
		a = append(a, attribute.String("bardo.cache.result", w.f.Cache))
	}
	if run.Note != "" {
		a = append(a, w.text("bardo.layer.note", run.Note))
	}
	if run.Saved > 0 {
		a = append(a, attribute.Int64("bardo.layer.saved_tokens", run.Saved))
	}
	w.child(ctx, name, "layer/"+strconv.Itoa(i), trace.SpanKindInternal, run.Interval, append(a, attribute.String(inferenceKind, kind))).End(w.end(run.Interval))
}

// attempt writes the span of one provider call: how it ended, and what was decided next.
func (w *writer) attempt(ctx context.Context, i int) {
	f, t := &w.f.Attempts[i], w.f.Timeline.Attempts[i]
	if t == (record.Interval{}) { // its times are unknown
		t = record.Interval{Took: w.f.Took}
	}
	a := []attribute.KeyValue{
		attribute.String(inferenceKind, kindChain), attribute.String(operationName, w.f.Operation), attribute.String(providerName, string(f.Provider)),
		attribute.Int("bardo.attempt.number", i+1), attribute.String("bardo.attempt.outcome", f.Outcome),
	}
	for _, t := range []struct{ key, value string }{
		{requestModel, string(f.Model)},
		{"bardo.attempt.reason", f.Reason},
		{"bardo.attempt.next", f.Next},
		{"bardo.attempt.next_reason", f.NextWhy},
		{"bardo.attempt.side", f.Side},
	} {
		if t.value != "" {
			a = append(a, w.text(t.key, t.value))
		}
	}
	if f.Outcome != record.OK {
		a = append(a, attribute.String(errorType, f.Outcome))
	}
	span := w.child(ctx, w.name(w.f.Operation, string(f.Model)), "attempt/"+strconv.Itoa(i), trace.SpanKindClient, t, a)
	if f.Outcome != record.OK {
		span.SetStatus(codes.Error, f.Outcome)
	}
	span.End(w.end(t))
}

// child starts a child span of the request's span.
func (w *writer) child(ctx context.Context, name, id string, kind trace.SpanKind, t record.Interval, a []attribute.KeyValue) trace.Span {
	ctx = withIDs(ctx, w.at.TraceID, w.at.ChildSpan(id))
	_, span := w.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(w.start.Add(t.From)), trace.WithAttributes(a...))
	return span
}

func (w *writer) end(t record.Interval) trace.SpanEndEventOption {
	return trace.WithTimestamp(w.start.Add(t.From + t.Took))
}
