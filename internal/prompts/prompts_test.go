package prompts_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/policy"
)

// masker removes words from texts.
type masker struct{ err error }

func (m masker) Redact(_ context.Context, account policy.Account, texts []string) error {
	for i := range texts {
		texts[i] = strings.ReplaceAll(texts[i], "alice@example.org", "<EMAIL of "+string(account)+">")
	}
	return m.err
}

func entry(id string, mask prompts.Masker) *prompts.Entry {
	return &prompts.Entry{
		At: time.Now(), RequestID: id, Account: "k1", Mask: mask,
		Request: []prompts.Text{{Kind: "user", Text: "write to alice@example.org, with sk-gateway"}}, Answer: []prompts.Text{{Kind: "arguments", Tool: "alice@example.org", Text: "{}"}},
	}
}

// collected is a sink that stores its entries.
type collected struct {
	mu      sync.Mutex
	err     error
	entries []*prompts.Entry
	tidied  int
	closed  bool
}

func (c *collected) Write(_ context.Context, batch []*prompts.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.entries = append(c.entries, batch...)
	}
	return c.err
}

func (c *collected) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *collected) Tidy(context.Context, time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tidied++
	return nil
}

func (c *collected) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *collected) ids() (out string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		out += e.RequestID
	}
	return out
}

// counts has the counts by result.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(result string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[result] += n
}

func (c *counts) of(result string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[result]
}

// running is a running log.
type running struct {
	*prompts.Log

	counts counts
	mu     sync.Mutex
	cfg    *config.Config
	sink   *collected // of the configuration; nil: none
	err    error      // of opening it
	log    strings.Builder
	stop   func()
}

func run(t *testing.T) *running {
	t.Helper()
	r := &running{cfg: &config.Config{}, sink: &collected{}}
	r.Log = prompts.New(r.counts.add)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	r.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(r.stop)
	o := prompts.Options{
		Config: func() *config.Config { r.mu.Lock(); defer r.mu.Unlock(); return r.cfg },
		Open: func(context.Context, *config.Config) ([]prompts.Sink, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.sink == nil || r.err != nil {
				return nil, r.err
			}
			return []prompts.Sink{r.sink}, nil
		},
		Redact: func(s string) string { return strings.ReplaceAll(s, "sk-gateway", "[redacted]") },
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	go func() {
		defer close(done)
		r.Run(ctx, o)
	}()
	return r
}

// use changes the configuration.
func (r *running) use(s *collected, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg, r.sink, r.err = &config.Config{}, s, err
}

// TestF05WhatIsLoggedIsMasked: personal data in every text and name, and the gateway's credentials; what cannot be masked is not logged.
func TestF05WhatIsLoggedIsMasked(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.Add(entry("bad", masker{errors.New("no model")}))
	r.Add(entry("good", masker{}))
	polltest.Until(t, "the entry", func() bool { return r.counts.of(prompts.Written) > 0 })
	r.stop()
	if r.sink.ids() != "good" || r.counts.of(prompts.Unmasked) != 1 || !r.sink.closed {
		t.Fatalf("%q, %v", r.sink.ids(), r.counts.n)
	}
	e := r.sink.entries[0]
	if e.Request[0].Text != "write to <EMAIL of k1>, with [redacted]" || e.Answer[0].Tool != "<EMAIL of k1>" {
		t.Errorf("%+v", e)
	}
	if strings.Contains(r.log.String(), "alice") {
		t.Errorf("the gateway's log has %s", r.log.String())
	}
}

// TestThePromptLogIsBounded: entries beyond a size are dropped and counted; nobody waits.
func TestThePromptLogIsBounded(t *testing.T) {
	t.Parallel()
	var c counts
	l := prompts.New(c.add)
	long := strings.Repeat("x", 1<<20)
	for range 20 {
		l.Add(&prompts.Entry{Request: []prompts.Text{{Text: long}}})
	}
	if kept := 20 - c.of(prompts.Full); kept < 14 || kept > 16 {
		t.Errorf("%d of 20 MiB wait", kept)
	}
}

// TestThePromptLogFollowsTheConfiguration: another sink, none, one that cannot be opened, one that fails; lost entries are counted.
func TestThePromptLogFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	r := run(t)
	first, failing, last := r.sink, &collected{err: errors.New("disk full")}, &collected{}
	send := func(id, result string, n int) {
		t.Helper()
		r.Add(entry(id, masker{}))
		polltest.Until(t, id, func() bool { return r.counts.of(result) == n })
	}
	send("a", prompts.Written, 1)
	r.use(nil, nil)
	send("b", prompts.Failed, 1)
	r.use(nil, errors.New("no such directory"))
	send("c", prompts.Failed, 2)
	r.use(failing, nil)
	send("d", prompts.Failed, 3)
	r.use(last, nil)
	send("e", prompts.Written, 2)
	r.stop()
	if first.ids() != "a" || !first.closed || !failing.closed || last.ids() != "e" {
		t.Errorf("%q %q", first.ids(), last.ids())
	}
	for _, want := range []string{"no such directory", "disk full", "prompts are logged again"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the gateway's log lacks %q: %s", want, r.log.String())
		}
	}
}

// TestWhatWaitsAtTheEndIsWritten.
func TestWhatWaitsAtTheEndIsWritten(t *testing.T) {
	t.Parallel()
	r := run(t)
	for range 200 {
		r.Add(entry("x", masker{}))
	}
	r.stop()
	if n := r.counts.of(prompts.Written); n != 200 || len(r.sink.ids()) != 200 {
		t.Errorf("%d were written", n)
	}
}
