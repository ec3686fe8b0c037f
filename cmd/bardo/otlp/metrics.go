package otlp

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// conventional are the metrics of the semantic conventions, by Prometheus name.
var conventional = map[string]struct{ name, unit string }{
	"gen_ai_client_token_usage":                   {"gen_ai.client.token.usage", "{token}"},
	"gen_ai_client_operation_duration_seconds":    {"gen_ai.client.operation.duration", "s"},
	"gen_ai_server_request_duration_seconds":      {"gen_ai.server.request.duration", "s"},
	"gen_ai_server_time_to_first_token_seconds":   {"gen_ai.server.time_to_first_token", "s"},
	"gen_ai_server_time_per_output_token_seconds": {"gen_ai.server.time_per_output_token", "s"},
}

// labels are the attributes of these metrics, by Prometheus label.
var labels = map[attribute.Key]attribute.Key{
	"gen_ai_operation_name": operationName, "gen_ai_provider_name": providerName, "gen_ai_request_model": requestModel,
	"gen_ai_token_type": "gen_ai.token.type", "error_type": errorType,
}

// producer converts the gateway's metrics to OpenTelemetry.
type producer struct{ metric.Producer }

func newProducer(g prometheus.Gatherer) producer {
	return producer{bridge.NewMetricProducer(bridge.WithGatherer(g))}
}

// Produce implements metric.Producer.
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := p.Producer.Produce(ctx)
	for i := range scopes {
		for j := range scopes[i].Metrics {
			rename(&scopes[i].Metrics[j])
		}
	}
	return scopes, err
}

// rename changes a conventional metric's name, unit and attribute names to those of the conventions.
func rename(m *metricdata.Metrics) {
	c, ok := conventional[m.Name]
	if !ok {
		return
	}
	m.Name, m.Unit = c.name, c.unit
	h, ok := m.Data.(metricdata.Histogram[float64])
	if !ok {
		return
	}
	for i := range h.DataPoints {
		h.DataPoints[i].Attributes = renamed(h.DataPoints[i].Attributes)
	}
}

func renamed(s attribute.Set) attribute.Set {
	list := s.ToSlice()
	for i := range list {
		if key, ok := labels[list[i].Key]; ok {
			list[i].Key = key
		}
	}
	return attribute.NewSet(withoutEmpty(list)...)
}

// withoutEmpty drops attributes with an empty value: Prometheus has every label on every series.
func withoutEmpty(list []attribute.KeyValue) []attribute.KeyValue {
	out := list[:0]
	for _, a := range list {
		if strings.TrimSpace(a.Value.AsString()) != "" {
			out = append(out, a)
		}
	}
	return out
}
