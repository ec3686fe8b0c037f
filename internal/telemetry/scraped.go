package telemetry

import "github.com/prometheus/client_golang/prometheus"

// scraped are samples that are read at every scrape. read returns one value per description, in their order.
type scraped struct {
	samples []sample
	read    func() []float64
}

// sample describes one value of a scrape.
type sample struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string) sample {
	return sample{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue}
}

func counter(name, help string) sample {
	return sample{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue}
}

// Describe implements prometheus.Collector.
func (s scraped) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range s.samples {
		ch <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (s scraped) Collect(ch chan<- prometheus.Metric) {
	for i, value := range s.read() {
		ch <- prometheus.MustNewConstMetric(s.samples[i].desc, s.samples[i].kind, value)
	}
}

// boolean is 1 for true.
func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
