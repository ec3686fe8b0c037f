package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// scrapeTime is the timeout of the other process.
const scrapeTime = 5 * time.Second

// HandlerWith serves these metrics together with those of the process that serves requests. scrape reads the latter in a given format. If both
// processes have a family, the other process's is served; families about the process itself are served for both, the other's with the label process.
// If the other process does not answer, only this one's metrics are served.
func (m *Metrics) HandlerWith(scrape Scrape) http.Handler {
	return promhttp.HandlerFor(m.with(scrape), promhttp.HandlerOpts{})
}

// Scrape reads the metrics of another process in a format.
type Scrape func(ctx context.Context, accept string) (io.ReadCloser, error)

// with gathers these metrics and those of another process.
func (m *Metrics) with(scrape Scrape) prometheus.GathererFunc {
	return func() ([]*dto.MetricFamily, error) {
		own, err := m.registry.Gather()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
		defer cancel()
		return merge(own, read(ctx, scrape)), nil
	}
}

// read reads the metrics of another process; none if it does not answer.
func read(ctx context.Context, scrape Scrape) (all []*dto.MetricFamily) {
	format := expfmt.NewFormat(expfmt.TypeProtoDelim)
	body, err := scrape(ctx, string(format))
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }() // it was read
	for decoder := expfmt.NewDecoder(body, format); ; {
		family := &dto.MetricFamily{}
		if err := decoder.Decode(family); err != nil {
			if !errors.Is(err, io.EOF) {
				return nil
			}
			return all
		}
		all = append(all, family)
	}
}

// merge overrides this process's families with those of the serving process.
func merge(own, serving []*dto.MetricFamily) []*dto.MetricFamily {
	out := slices.Clone(own)
	for _, f := range serving {
		at := slices.IndexFunc(out, func(o *dto.MetricFamily) bool { return o.GetName() == f.GetName() })
		switch {
		case at < 0:
			out = append(out, f)
		case ofProcess(f.GetName()):
			labelled(f)
			out[at].Metric = append(out[at].Metric, f.Metric...)
		default:
			out[at] = f
		}
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// ofProcess reports whether a family is about the process itself.
func ofProcess(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_") ||
		name == "bardo_build_info" || name == taskPanics
}

// labelled marks the metrics of a family as those of Envoy's process.
func labelled(f *dto.MetricFamily) {
	name, value := "process", "envoy"
	for _, m := range f.Metric {
		m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
		slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
}
