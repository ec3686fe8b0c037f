package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The memory of streams that are open and silent: most streams are, most of the time, when models think.

const (
	idleStreams = 2000
	idleQuick   = 500
	idleTime    = 30 * time.Second // for all of them to begin
	idleSettle  = 2 * time.Second  // after which memory is measured
)

// idleMemory is what one silent stream takes, in kB of 1000 bytes.
type idleMemory struct {
	Way         string
	Streams     int
	EnvoyKB     float64
	ProgramKB   float64 // 0 for plain Envoy
	NotAnswered int     // streams that did not begin
}

// measureIdle opens n streams on plain Envoy and on each gateway, with a key. It comes first: memory that was used before hides what they take.
func (l *lab) measureIdle(ctx context.Context, n int) ([]idleMemory, error) {
	var out []idleMemory
	for _, s := range l.subjects(testCase{stream: true, held: true, size: 1_000, conns: n}) {
		w, ok := findWay(s.name)
		if s.name != plain && (!ok || !w.key) {
			continue
		}
		m, err := l.openIdle(ctx, s, n)
		if err != nil {
			return nil, fmt.Errorf("%d idle streams, %s: %w", n, s.name, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func (l *lab) openIdle(ctx context.Context, s subject, n int) (idleMemory, error) {
	if err := openOne(ctx, s); err != nil {
		return idleMemory{}, err
	}
	before := residentOf(s.processes)
	clients, err := dialAll(ctx, s.addr, n, idleTime+idleSettle)
	if err != nil {
		return idleMemory{}, err
	}
	defer closeAll(clients)
	begun := make([]bool, n)
	var group sync.WaitGroup
	for i, c := range clients {
		group.Go(func() { begun[i] = c.begin(s.request) == nil })
	}
	group.Wait()
	wait(ctx, time.Now().Add(idleSettle))
	after := residentOf(s.processes)
	m := idleMemory{Way: s.name, Streams: n, EnvoyKB: (after.envoy - before.envoy) * 1000 / float64(n), ProgramKB: (after.program - before.program) * 1000 / float64(n)}
	for _, ok := range begun {
		if !ok {
			m.NotAnswered++
		}
	}
	return m, ctx.Err()
}

// openOne has a stream begin, and closes it: the code that every stream uses is in memory then.
func openOne(ctx context.Context, s subject) error {
	clients, err := dialAll(ctx, s.addr, 1, idleTime)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	return clients[0].begin(s.request)
}

// resident is memory in MB, by kind of process.
type resident struct{ envoy, program float64 }

func residentOf(ps []process) (r resident) {
	for _, p := range ps {
		if p.envoy {
			r.envoy += residentMB(p.pid)
			continue
		}
		r.program += residentMB(p.pid)
	}
	return r
}
