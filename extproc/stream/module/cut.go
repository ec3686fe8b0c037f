package module

// Cut ends every request in flight, as if its client had disconnected. It returns before they have ended.
func Cut() {
	for i := range workers {
		for _, d := range workers[i].clients() {
			d.post(posted{run: func(int) { d.f.reset() }})
		}
	}
}

// clients returns the clients of a worker.
func (w *worker) clients() (out []*client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.filters {
		if f.client != nil {
			out = append(out, f.client)
		}
	}
	return out
}
