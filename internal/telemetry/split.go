package telemetry

import "github.com/prometheus/client_golang/prometheus"

// ControlPlane are the numbers of a control plane.
type ControlPlane struct {
	Nodes, Feeds                int   // connected Envoys and sidecars
	Pushes, Rejections, Results int64 // configurations sent and refused; results reported
}

// WatchControlPlane has a control plane's numbers read at every scrape. Call it once.
func (m *Metrics) WatchControlPlane(read func() ControlPlane) {
	m.registry.MustRegister(controlPlane(read))
}

type controlPlane func() ControlPlane

var (
	planeNodes   = prometheus.NewDesc("bardo_xds_nodes", "Connected Envoys.", nil, nil)
	planeFeeds   = prometheus.NewDesc("bardo_xds_feed_streams", "Connected sidecars.", nil, nil)
	planePushes  = prometheus.NewDesc("bardo_xds_pushes_total", "Configurations sent to Envoys.", nil, nil)
	planeNacks   = prometheus.NewDesc("bardo_xds_nacks_total", "Configurations that Envoys refused.", nil, nil)
	planeResults = prometheus.NewDesc("bardo_xds_results_total", "Results and pings that sidecars reported.", nil, nil)
)

// Describe implements prometheus.Collector.
func (controlPlane) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{planeNodes, planeFeeds, planePushes, planeNacks, planeResults} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c controlPlane) Collect(ch chan<- prometheus.Metric) {
	n := c()
	ch <- prometheus.MustNewConstMetric(planeNodes, prometheus.GaugeValue, float64(n.Nodes))
	ch <- prometheus.MustNewConstMetric(planeFeeds, prometheus.GaugeValue, float64(n.Feeds))
	ch <- prometheus.MustNewConstMetric(planePushes, prometheus.CounterValue, float64(n.Pushes))
	ch <- prometheus.MustNewConstMetric(planeNacks, prometheus.CounterValue, float64(n.Rejections))
	ch <- prometheus.MustNewConstMetric(planeResults, prometheus.CounterValue, float64(n.Results))
}

// WatchFeed has a sidecar's link to its control plane read at every scrape. Call it once.
func (m *Metrics) WatchFeed(read func() (connected bool, dropped uint64)) {
	m.registry.MustRegister(feed(read))
}

type feed func() (connected bool, dropped uint64)

var (
	feedConnected = prometheus.NewDesc("bardo_feed_connected", "1 while the control plane is there, else 0.", nil, nil)
	feedDropped   = prometheus.NewDesc("bardo_feed_dropped_results_total", "Results that never reached the control plane.", nil, nil)
)

// Describe implements prometheus.Collector.
func (feed) Describe(ch chan<- *prometheus.Desc) {
	ch <- feedConnected
	ch <- feedDropped
}

// Collect implements prometheus.Collector.
func (f feed) Collect(ch chan<- prometheus.Metric) {
	connected, dropped := f()
	value := 0.0
	if connected {
		value = 1
	}
	ch <- prometheus.MustNewConstMetric(feedConnected, prometheus.GaugeValue, value)
	ch <- prometheus.MustNewConstMetric(feedDropped, prometheus.CounterValue, float64(dropped))
}
