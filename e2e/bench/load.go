package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// measurement is what one subject did in one window.
type measurement struct {
	Requests  int           // that ended in the window
	Failures  int           // of the whole run, its ramp included
	Seconds   float64       // of the window
	P50, P99  time.Duration // of the whole answer
	First50   time.Duration // of its first byte
	First99   time.Duration
	EnvoyCPU  time.Duration // in the window, all requests together
	GoCPU     time.Duration
	firstFail error
}

// grace is how long the requests under way at the end of a window may take.
const grace = 20 * time.Second

// worker is one connection's share.
type worker struct {
	totals, firsts []time.Duration
	failures       int
	err            error
}

// load keeps c.conns requests to s under way, until the window is over and the last of them has ended.
func (l *lab) load(ctx context.Context, c testCase, s subject, window time.Duration) (measurement, error) {
	clients, err := dialAll(ctx, s.addr, c.conns, c.ramp+window+grace)
	if err != nil {
		return measurement{}, err
	}
	start := time.Now()
	from := start.Add(c.ramp)
	until := from.Add(window)
	workers := make([]worker, c.conns)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			defer clients[i].close()
			if c.paced { // spread over one stream's time, as if they had come one after the other
				wait(ctx, start.Add(c.ramp*time.Duration(i)/time.Duration(c.conns)))
			}
			workers[i].run(ctx, clients[i], s.request, c.stream, from, until)
		})
	}
	wait(ctx, from)
	before, err1 := usage(s.processes)
	wait(ctx, until)
	after, err2 := usage(s.processes)
	group.Wait()
	if err := errors.Join(ctx.Err(), err1, err2); err != nil {
		return measurement{}, err
	}
	m := summarize(workers)
	m.Seconds = window.Seconds()
	m.EnvoyCPU, m.GoCPU = after.envoy-before.envoy, after.program-before.program
	switch {
	case m.Requests == 0 && m.firstFail != nil:
		return m, fmt.Errorf("no request succeeded: %w", m.firstFail)
	case m.Requests == 0, !c.paced && m.Requests < leastEnds*c.conns:
		return m, errShort
	}
	return m, nil
}

func dialAll(ctx context.Context, addr string, n int, lasting time.Duration) ([]*client, error) {
	out := make([]*client, 0, n)
	deadline := time.Now().Add(lasting)
	for range n {
		c, err := dial(ctx, addr, deadline)
		if err != nil {
			closeAll(out)
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		c.close()
	}
}

// run stops at its first failure: the connection may be in the middle of an answer.
func (w *worker) run(ctx context.Context, c *client, request []byte, stream bool, from, until time.Time) {
	for {
		began := time.Now()
		if !began.Before(until) || ctx.Err() != nil {
			return
		}
		first, err := c.do(request, stream)
		if err != nil {
			w.failures, w.err = w.failures+1, err
			return
		}
		ended := time.Now()
		if ended.Before(from) || ended.After(until) {
			continue
		}
		w.totals = append(w.totals, ended.Sub(began))
		w.firsts = append(w.firsts, first.Sub(began))
	}
}

func summarize(workers []worker) measurement {
	var m measurement
	var totals, firsts []time.Duration
	for i := range workers {
		w := &workers[i]
		totals, firsts = append(totals, w.totals...), append(firsts, w.firsts...)
		m.Failures += w.failures
		if m.firstFail == nil {
			m.firstFail = w.err
		}
	}
	slices.Sort(totals)
	slices.Sort(firsts)
	m.Requests = len(totals)
	m.P50, m.P99 = quantile(totals, 0.5), quantile(totals, 0.99)
	m.First50, m.First99 = quantile(firsts, 0.5), quantile(firsts, 0.99)
	return m
}

// quantile of a sorted list, 0 for an empty one.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

func wait(ctx context.Context, until time.Time) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
