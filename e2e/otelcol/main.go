// Command otelcol is an OpenTelemetry Collector for tests: the real one, with its OTLP receiver, and an exporter that appends what it gets to a file as JSON.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
)

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "OpenTelemetry Collector for tests", Version: "test"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "yaml",
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func factories() (f otelcol.Factories, err error) {
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Telemetry = telemetry.NewFactory(func() component.Config { return &struct{}{} }) // it tells nothing of itself
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](exporter.NewFactory(component.MustNewType("lines"), func() component.Config { return &config{} },
		exporter.WithTraces(newTraces, component.StabilityLevelStable), exporter.WithMetrics(newMetrics, component.StabilityLevelStable)))
	return f, err
}

// config is that of the exporter: the folder of its files.
type config struct {
	Dir string `mapstructure:"dir"`
}

// writing keeps lines whole: several exports may write at once.
var writing sync.Mutex

func newTraces(ctx context.Context, s exporter.Settings, c component.Config) (exporter.Traces, error) {
	return exporterhelper.NewTraces(ctx, s, c, func(_ context.Context, t ptrace.Traces) error {
		b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(t)
		return add(c, "traces", b, err)
	})
}

func newMetrics(ctx context.Context, s exporter.Settings, c component.Config) (exporter.Metrics, error) {
	return exporterhelper.NewMetrics(ctx, s, c, func(_ context.Context, m pmetric.Metrics) error {
		b, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(m)
		return add(c, "metrics", b, err)
	})
}

// add appends a line to a file.
func add(c component.Config, name string, line []byte, err error) error {
	if err != nil {
		return err
	}
	writing.Lock()
	defer writing.Unlock()
	f, err := os.OpenFile(c.(*config).Dir+"/"+name+".jsonl", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(append(bytes.Clone(line), '\n')); err != nil {
		return err
	}
	return f.Close()
}
