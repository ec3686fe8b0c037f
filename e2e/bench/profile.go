package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// profileTime is how long a profile is taken.
const profileTime = 8 * time.Second

// profile loads the gateway with each case and keeps a CPU profile of its Go program.
func (l *lab) profile(ctx context.Context, cases []testCase, dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, c := range cases {
		for _, s := range l.subjects(c) {
			if !slices.Contains(gateways, s.name) {
				continue
			}
			name := strings.NewReplacer("/", "-", ", ", "-", " ", "-").Replace(c.name()+"-"+s.name) + ".pprof"
			m, err := l.profileOne(ctx, c, s, filepath.Join(dir, name))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name(), s.name, err)
			}
			n := time.Duration(m.Requests)
			fmt.Printf("%-50s %6d requests, CPU per request: Envoy %s, Go %s\n", name, m.Requests, m.EnvoyCPU/n, m.GoCPU/n)
		}
	}
	return nil
}

func (l *lab) profileOne(ctx context.Context, c testCase, s subject, file string) (measurement, error) {
	type fetched struct {
		b   []byte
		err error
	}
	profiles := make(chan fetched, 1)
	go func() {
		wait(ctx, time.Now().Add(c.ramp))
		b, err := get(ctx, http.DefaultClient, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", l.gateway.Admin, int(profileTime.Seconds()))) //nolint:forbidigo // a test program's own
		profiles <- fetched{b, err}
	}()
	m, err := l.load(ctx, c, s, profileTime)
	p := <-profiles
	if err := errors.Join(err, p.err); err != nil {
		return m, err
	}
	return m, os.WriteFile(file, p.b, 0o600)
}
