package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"bardo.money/gateway/e2e/gateway"
)

// startup is how long the gateway takes from its start to its work.
type startup struct {
	FirstReady time.Duration // on a new state
	Ready      time.Duration // the median of later starts
	Go         time.Duration // of those: until the Go program listens, and goes on to start Envoy
	IdleGoMB   float64       // of the Go program, a second after it was ready
}

const laterStarts = 5

// measureStartup starts gateways that have one provider which is not there: nothing depends on it.
func measureStartup(ctx context.Context) (startup, error) {
	var s startup
	home, err := os.MkdirTemp("", "bench")
	if err != nil {
		return s, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	if s.FirstReady, _, _, err = startOnce(ctx, home); err != nil {
		return s, err
	}
	var ready, program []time.Duration
	for range laterStarts {
		r, p, mb, err := startOnce(ctx, home)
		if err != nil {
			return s, err
		}
		ready, program = append(ready, r), append(program, p)
		s.IdleGoMB = max(s.IdleGoMB, mb)
	}
	slices.Sort(ready)
	slices.Sort(program)
	s.Ready, s.Go = quantile(ready, 0.5), quantile(program, 0.5)
	return s, nil
}

func startOnce(ctx context.Context, home string) (ready, program time.Duration, mb float64, err error) {
	admin, err := freeAddress(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	began := time.Now()
	listening := make(chan time.Duration, 1)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() { listening <- untilListening(watching, admin, began) }()
	g, err := gateway.Start(ctx, gateway.Options{
		Providers: []gateway.Provider{{ID: "nobody", BaseURL: "http://127.0.0.1:9/v1", Key: "sk-fake", Models: []gateway.Model{{ID: modelOne}}}},
		Config:    fmt.Sprintf("listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: %q}\n", admin) + limits,
		Home:      home, NoKey: true,
	})
	if err != nil {
		return 0, 0, 0, err
	}
	ready = time.Since(began)
	program = <-listening
	wait(ctx, time.Now().Add(time.Second))
	mb = residentMB(g.PID())
	return ready, program, mb, g.Stop()
}

// freeAddress is one that nobody listens on now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// untilListening waits for a listener at addr.
func untilListening(ctx context.Context, addr string, began time.Time) time.Duration {
	var d net.Dialer
	for ctx.Err() == nil {
		if c, err := d.DialContext(ctx, "tcp", addr); err == nil {
			_ = c.Close()
			break
		}
		wait(ctx, time.Now().Add(500*time.Microsecond))
	}
	return time.Since(began)
}
