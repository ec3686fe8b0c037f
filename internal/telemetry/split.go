package telemetry

// ControlPlane are the metrics of a control plane.
type ControlPlane struct {
	Nodes, Feeds                int   // connected Envoys and sidecars
	Pushes, Rejections, Results int64 // configurations sent and refused; results reported
}

var planeSamples = []sample{
	gauge("bardo_xds_nodes", "Connected Envoys."),
	gauge("bardo_xds_feed_streams", "Connected sidecars."),
	counter("bardo_xds_pushes_total", "Configurations sent to Envoys."),
	counter("bardo_xds_nacks_total", "Configurations that Envoys refused."),
	counter("bardo_xds_results_total", "Results and pings that sidecars reported."),
}

// WatchControlPlane registers a function that every scrape calls for a control plane's numbers. Call it once.
func (m *Metrics) WatchControlPlane(read func() ControlPlane) {
	m.registry.MustRegister(scraped{planeSamples, func() []float64 {
		n := read()
		return []float64{float64(n.Nodes), float64(n.Feeds), float64(n.Pushes), float64(n.Rejections), float64(n.Results)}
	}})
}

var feedSamples = []sample{
	gauge("bardo_feed_connected", "1 while the control plane is there, else 0."),
	counter("bardo_feed_dropped_results_total", "Results that never reached the control plane."),
}

// WatchFeed registers a function that every scrape calls: whether a sidecar is connected to its control plane, and how many of its results
// were dropped. Call it once.
func (m *Metrics) WatchFeed(read func() (connected bool, dropped uint64)) {
	m.registry.MustRegister(scraped{feedSamples, func() []float64 {
		connected, dropped := read()
		return []float64{boolean(connected), float64(dropped)}
	}})
}
