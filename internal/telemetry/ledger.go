package telemetry

var ledgerSamples = []sample{
	gauge("bardo_ledger_writable", "1 while charges can be written, else 0."),
	gauge("bardo_ledger_unwritten_charges", "Charges in the charge log that are not in the store yet."),
}

// WatchLedger registers a function that every scrape calls: whether the ledger can be written, and how many charges are not written yet. Call it
// once.
func (m *Metrics) WatchLedger(read func() (writable bool, unwritten int)) {
	m.registry.MustRegister(scraped{ledgerSamples, func() []float64 {
		writable, unwritten := read()
		return []float64{boolean(writable), float64(unwritten)}
	}})
}
