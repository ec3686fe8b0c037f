// Package otlp exports finished requests as traces, and the gateway's metrics, by OTLP. Spans follow the semantic conventions for generative AI, and
// OpenInference. Its input is record.Finished, which has no content. Only the program bardo contains it.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/config"
)

// Limits of the queue and of one export.
const (
	maxQueue   = 2048 // spans
	maxBatch   = 512
	batchTime  = time.Second
	exportTime = 10 * time.Second
)

// serviceName is the service.name of all telemetry.
const serviceName = "bardo"

// Open creates an exporter. It does not connect yet; later failures are counted and logged.
func Open(ctx context.Context, o *export.Options) (export.Exporter, error) {
	to := target{url: o.Telemetry.OTLP, headers: headers(o.Telemetry.OTLPHeaders)}
	to.grpc = o.Telemetry.OTLPProtocol == "grpc" || o.Telemetry.OTLPProtocol == "auto" && to.url.Port() == grpcPort
	spans, err := to.spans(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	readers, err := to.readers(ctx, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), spans.Shutdown(ctx))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Debug("telemetry.otlp", "error", o.Redact(err.Error())) }))
	of := resource.NewSchemaless(
		attribute.String("service.name", serviceName), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance),
	)
	batches := sdk.NewBatchSpanProcessor(&countingExporter{SpanExporter: spans, o: o}, sdk.WithBlocking(), sdk.WithMaxQueueSize(maxQueue),
		sdk.WithMaxExportBatchSize(maxBatch), sdk.WithBatchTimeout(batchTime), sdk.WithExportTimeout(exportTime))
	e := &exporter{redact: o.Redact, traces: sdk.NewTracerProvider(
		sdk.WithIDGenerator(ids{}), sdk.WithResource(of), sdk.WithSpanProcessor(batches), sdk.WithRawSpanLimits(limits()),
		sdk.WithSampler(sdk.TraceIDRatioBased(float64(o.Telemetry.OTLPSamplePct)/100)),
	)}
	e.tracer = e.traces.Tracer("bardo.money/gateway", trace.WithInstrumentationVersion(o.Version))
	e.metrics = metric.NewMeterProvider(append(readers, metric.WithResource(of))...)
	return e, nil
}

// readers returns the reader that exports metrics; none if the interval is 0.
func (t *target) readers(ctx context.Context, o *export.Options) ([]metric.Option, error) {
	every := time.Duration(o.Telemetry.OTLPInterval)
	if every == 0 {
		return nil, nil
	}
	to, err := t.metrics(ctx)
	if err != nil {
		return nil, err
	}
	return []metric.Option{metric.WithReader(metric.NewPeriodicReader(to, metric.WithInterval(every), metric.WithTimeout(exportTime),
		metric.WithProducer(newProducer(o.Metrics))))}, nil
}

// limits bounds the size of a span.
func limits() sdk.SpanLimits {
	l := sdk.NewSpanLimits()
	l.AttributeValueLengthLimit = 1024
	return l
}

func headers(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, s := range secrets {
		out[name] = s.Reveal()
	}
	return out
}

// exporter implements export.Exporter.
type exporter struct {
	redact  func(string) string
	traces  *sdk.TracerProvider
	tracer  trace.Tracer
	metrics *metric.MeterProvider
}

// Take implements export.Exporter.
func (e *exporter) Take(f *record.Finished) {
	(&writer{tracer: e.tracer, redact: e.redact, f: f}).write()
}

// Close implements export.Exporter.
func (e *exporter) Close(ctx context.Context) error {
	return errors.Join(e.traces.Shutdown(ctx), e.metrics.Shutdown(ctx))
}

// countingExporter counts sent spans, and logs failures: a line per failed batch, of which there is at most one per second.
type countingExporter struct {
	sdk.SpanExporter

	o *export.Options
}

// ExportSpans implements sdk.SpanExporter.
func (c *countingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	c.o.Counts().Sent(len(spans), err)
	if err != nil {
		c.o.Log.Warn("traces were not sent", "spans", len(spans), "error", c.o.Redact(err.Error()))
	}
	return err
}

// ids is an ID generator that returns the ids in the context.
type ids struct{}

type idKey struct{}

// spanIDs are the ids of the next span.
type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

func withIDs(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return context.WithValue(ctx, idKey{}, spanIDs{t, s})
}

// NewIDs implements sdk.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	next, _ := ctx.Value(idKey{}).(spanIDs)
	return next.trace, next.span
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	next, _ := ctx.Value(idKey{}).(spanIDs)
	return next.span
}
