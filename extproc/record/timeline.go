package record

import "time"

// Timeline holds the times of a request's steps, for its trace.
type Timeline struct {
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took_ns"`
	First    time.Duration `json:"first_token_ns,omitempty"` // from the start to the first content of a stream
	Parent   string        `json:"parent,omitempty"`         // the client's traceparent, if it is valid
	Attempts []Interval    `json:"attempts"`                 // of the attempts of the log, in their order
	Layers   []LayerRun    `json:"layers,omitempty"`
}

// Interval is a time range from the start of its request; Took is 0 if unknown.
type Interval struct {
	From time.Duration `json:"from_ns"`
	Took time.Duration `json:"took_ns"`
}

// LayerRun is one run of a layer.
type LayerRun struct {
	Layer string `json:"layer"`
	Note  string `json:"note,omitempty"` // as in X-Bardo-Pipeline
	Interval
	TimedOut bool  `json:"timed_out,omitempty"`
	Saved    int64 `json:"saved_tokens,omitempty"`
}

// finish completes the timeline of a finished request that began at began.
func (l *Timeline) finish(t *Trace, began time.Time, took time.Duration) {
	l.Began, l.Took, l.First = began.UTC(), took, t.FirstToken
	l.Attempts = make([]Interval, len(t.Attempts))
	for i := range t.Attempts {
		if a := &t.Attempts[i]; !a.Began.IsZero() {
			l.Attempts[i] = Interval{From: a.Began.Sub(began), Took: a.Took}
		}
	}
}
