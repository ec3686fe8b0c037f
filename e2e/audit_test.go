package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// audited is a line of the audit log.
type audited struct {
	Seq     int64
	Event   string
	Account string
	Data    map[string]any
}

// auditLines are the lines of an audit log.
func auditLines(t *testing.T, path string) (list []audited) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.Lines(b) {
		var l audited
		if err := json.Unmarshal(text, &l); err != nil {
			return list // it is being written
		}
		list = append(list, l)
	}
	return list
}

// has waits for a line of a kind that has the texts in its data.
func hasLine(t *testing.T, path, event string, texts ...string) audited {
	t.Helper()
	var found audited
	eventually(t, "a line "+event+" with "+strings.Join(texts, ", "), func() bool {
		for _, l := range auditLines(t, path) {
			b, err := json.Marshal(l.Data)
			if err != nil {
				t.Fatal(err)
			}
			ok := l.Event == event
			for _, s := range texts {
				ok = ok && bytes.Contains(b, []byte(s))
			}
			if ok {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

// TestF04DecisionsAreInTheAuditLog: who was refused and why, personal data in numbers, privacy, rules, and what operators changed, without a word of content; the chain
// goes on over a restart, and a change is found.
func TestF04DecisionsAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Text: "PLANTED answer"})
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	o := gateway.Options{
		Config:    quick + "\naudit: {file: '" + path + "', sync: always}\npipeline: {default: full, pii: {policy: mask}}\n",
		Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}},
	}
	g := gateway.Run(t, o)
	poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0")
	hasLine(t, path, "admin:changed", `"operation":"createKey"`, `"via":"socket"`)
	say := func(key, text string, header ...string) gateway.Answer {
		c := ask{dialect: fake.OpenAI, model: "m", say: text}.call()
		c.Key, c.Header = key, append(c.Header, header...)
		return g.Do(t, c)
	}
	if got := say("", "PLANTED write to jo@example.com"); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if l := hasLine(t, path, "request:decided", "email=1"); l.Account == "" || l.Data["status"] != 200.0 || l.Data["operation"] != "chat" || l.Data["provider"] != "p" {
		t.Errorf("%+v", l)
	}
	if got := say("nonsense", "PLANTED"); got.Status != http.StatusUnauthorized {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	hasLine(t, path, "request:decided", `"error":"invalid_api_key"`, `"status":401`, `"client":"127.0.0.1"`)
	if got := say(poor.Key, "PLANTED"); got.Status != http.StatusPaymentRequired {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if l := hasLine(t, path, "request:decided", `"error":"insufficient_balance"`, `"status":402`); l.Account == "" {
		t.Errorf("%+v", l)
	}
	if got := say("", "PLANTED", "X-Bardo-Security-Class: private"); got.Status < http.StatusBadRequest {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	hasLine(t, path, "request:decided", `"security_class":"private"`, `"error":"no_private_provider"`)
	before := len(auditLines(t, path))
	if got := say("", "an ordinary question"); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	stops(t, g)
	if n := len(auditLines(t, path)); n != before {
		t.Errorf("%d lines, then %d: an ordinary request is there, too", before, n)
	}
	o.Home, o.NoKey = g.Home, true
	again := gateway.Run(t, o)
	if got := again.Try(t, "audit", "log", "verify", path); got.Code != 0 || !strings.HasPrefix(got.Stdout, "sound: ") {
		t.Errorf("%+v", got)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("PLANTED")) || bytes.Contains(b, []byte("jo@example.com")) || bytes.Contains(b, []byte("ordinary")) || bytes.Contains(b, []byte(poor.Key)) {
		t.Errorf("content is in the audit log: %s", b)
	}
	if n := bytes.Count(b, []byte(`"event":"audit:opened"`)); n != 2 {
		t.Errorf("%d starts", n)
	}
	if err := os.WriteFile(path, bytes.Replace(b, []byte("insufficient_balance"), []byte("rate_limit_exceeded"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := again.Try(t, "audit", "log", "verify", path); got.Code != 1 || !strings.Contains(got.Stdout, "was changed") {
		t.Errorf("%+v", got)
	}
}

// TestF04WhatAKilledGatewayLeavesIsSound: killed while lines are written, at whatever moment, it leaves a log that its next start goes on with, and that verifies.
func TestF04WhatAKilledGatewayLeavesIsSound(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	o := gateway.Options{Config: quick + "\naudit: {file: '" + path + "'}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	for round := range 3 {
		g := gateway.Run(t, o)
		before := len(auditLines(t, path))
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for ctx.Err() == nil {
					if resp, err := g.Open(ctx, gateway.Call{Path: "/v1/chat/completions", Key: "nonsense", Body: `{"model":"m"}`}); err == nil {
						_ = resp.Body.Close()
					}
				}
			})
		}
		eventually(t, "lines", func() bool { return len(auditLines(t, path)) > before+20*(round+1) })
		g.Kill()
		cancel()
		clients.Wait()
		o.Home, o.NoKey = g.Home, true
		if got := g.Try(t, "audit", "log", "verify", path); got.Code != 0 {
			t.Errorf("round %d: %+v", round, got)
		}
	}
	g := gateway.Run(t, o)
	if got := g.Try(t, "audit", "log", "verify", path); got.Code != 0 || !strings.HasPrefix(got.Stdout, "sound: ") {
		t.Errorf("%+v", got)
	}
}
