package governor

// The compression trigger is judged by the layer's effect on requests of different lengths: for each request it is known with which values the layer
// would have run. So each value is compared on all requests, not only on those that tried it.

// gap is the statistics of requests that are at least as long as one value of the trigger, and shorter than the next one.
type gap struct {
	requests int64
	ran      arm // gain where the layer ran, without penalties
	with     arm // penalties where it ran
	without  arm // penalties where it did not run
}

// gapOf returns the index of a request's gap; -1 if it is shorter than every value.
func gapOf(values []int, size int) int {
	i := len(values) - 1
	for i >= 0 && size < values[i] {
		i--
	}
	return i
}

// gain returns the layer's mean gain on a request of the gap.
func (g *gap) gain() float64 {
	m := g.ran.mean()
	if g.without.trials >= leastTrials {
		m -= g.with.mean() - g.without.mean()
	}
	return m
}

// creditTrigger counts a request for the trigger; false if it says nothing about it.
func (g *Governor) creditTrigger(t *task, tried int, l *LayerOutcome, o *Outcome) bool {
	values := g.values[Compression]
	at := gapOf(values, o.Size)
	runs := o.Size >= values[tried]
	if at < 0 || runs && l == nil { // the layer does not apply to it
		return false
	}
	gap := &t.gaps[at]
	gap.requests++
	if !runs {
		gap.without.add(o.trouble())
		return true
	}
	gap.ran.add(o.gain(l))
	gap.with.add(o.trouble())
	if gap.requests >= maxTrials {
		gap.requests /= 2
	}
	return true
}

// mean returns the mean reward of a value of a knob.
func (t *task) mean(k Knob, i int) (m float64) {
	if k != Compression {
		return t.arms[k][i].mean()
	}
	all := 0.0
	for at := range t.gaps {
		g := &t.gaps[at]
		all += float64(g.requests)
		if at >= i {
			m += float64(g.requests) * g.gain()
		}
	}
	if all == 0 {
		return 0
	}
	return m / all
}

// trials returns the number of requests on which a value of a knob was tried.
func (t *task) trials(k Knob, i int) (n int64) {
	if k != Compression {
		return t.arms[k][i].trials
	}
	for at := i; at < len(t.gaps); at++ {
		n += t.gaps[at].ran.trials
	}
	return n
}

// known reports whether there are enough trials to compare two values of a knob.
func (t *task) known(k Knob, i, j int) bool {
	if k != Compression {
		return t.arms[k][i].trials >= leastTrials && t.arms[k][j].trials >= leastTrials
	}
	some := false
	for at := min(i, j); at < max(i, j); at++ {
		g := &t.gaps[at]
		if g.requests >= leastTrials && g.ran.trials < leastTrials {
			return false
		}
		some = some || g.ran.trials >= leastTrials
	}
	return some
}
