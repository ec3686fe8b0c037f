package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// profileTime is how long a profile is taken.
const profileTime = 8 * time.Second

// profile loads the gateway with each case and keeps a CPU profile of its Go program, and what it holds afterwards.
func (l *lab) profile(ctx context.Context, cases []testCase, dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, c := range cases {
		for _, s := range l.subjects(c) {
			if s.gateway == nil {
				continue
			}
			name := strings.NewReplacer("/", "-", ", ", "-", " ", "-").Replace(c.name()+"-"+s.name) + ".pprof"
			m, err := l.profileOne(ctx, c, s, filepath.Join(dir, name))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name(), s.name, err)
			}
			n := time.Duration(m.Requests)
			if err := l.keep(ctx, s.gateway, "heap?gc=1", filepath.Join(dir, strings.Replace(name, ".pprof", ".heap.pprof", 1))); err != nil {
				return err
			}
			fmt.Printf("%-50s %6d requests, CPU per request: Envoy %s, Go %s\n", name, m.Requests, m.EnvoyCPU/n, m.GoCPU/n)
		}
	}
	return nil
}

func (l *lab) profileOne(ctx context.Context, c testCase, s subject, file string) (measurement, error) {
	kept := make(chan error, 1)
	go func() {
		wait(ctx, time.Now().Add(c.ramp))
		kept <- l.keep(ctx, s.gateway, fmt.Sprintf("profile?seconds=%d", int(profileTime.Seconds())), file)
	}()
	m, err := l.load(ctx, c, s, profileTime)
	return m, errors.Join(err, <-kept)
}

// keep writes one of the Go program's profiles to a file.
func (l *lab) keep(ctx context.Context, g *installed, what, file string) error {
	b, err := get(ctx, &http.Client{}, g.gateway.Admin+"/debug/pprof/"+what)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}
