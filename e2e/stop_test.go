package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// stops waits for the end of a gateway that was asked to stop, and returns its exit status.
func stops(t *testing.T, g *gateway.Gateway) int {
	t.Helper()
	const d = 25 * time.Second
	select {
	case <-g.Exited():
	case <-within(t, d).Done():
		t.Errorf("still running %s after SIGTERM", d)
		g.Kill()
	}
	return g.ExitCode()
}

// quickly is quick with a short drain.
const quickly = quick + "listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: 127.0.0.1:0, drain: 1s}\n"

// hanging is a gateway whose provider falls silent in the middle of an answer, and waits for it, with a prepaid key.
func hanging(t *testing.T, config string) (g *gateway.Gateway, p *fake.Server, key string) {
	t.Helper()
	p = fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Tokens: 50, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 20}})
	config = strings.Replace(config, "idle: 50s", "idle: 10m", 1)
	g = gateway.Run(t, gateway.Options{Config: config, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	return g, p, g.CreateKey(t, "--name", "prepaid", "--balance-usd", "1").Key
}

// chargedAfter starts a gateway on the state of one that has ended, and returns how many requests were charged for.
func chargedAfter(t *testing.T, g *gateway.Gateway, p *fake.Server) int {
	t.Helper()
	again := gateway.Run(t, gateway.Options{Config: quickly, Home: g.Home, NoKey: true, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	again.AssertSound(t)
	return ledgerRows(t, again, `SELECT count(*) FROM request WHERE charged > 0`)
}

// TestD3AStopCutsAndChargesWhatHangs once the time to finish is over.
func TestD3AStopCutsAndChargesWhatHangs(t *testing.T) {
	t.Parallel()
	g, p, key := hanging(t, quickly)
	s := openStream(t, g, key)
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	if code := stops(t, g); code != 0 {
		t.Errorf("exit status %d", code)
	}
	_ = s.Body.Close()
	if n := chargedAfter(t, g, p); n != 1 {
		t.Errorf("%d requests were charged for", n)
	}
}

// TestD3ASecondSignalEndsAtOnce, whatever may still finish, and what was delivered is charged for.
func TestD3ASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	g, p, key := hanging(t, strings.Replace(quickly, "drain: 1s", "drain: 10m", 1))
	s := openStream(t, g, key)
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drain", func() bool { return strings.Contains(g.Log(), `"msg":"draining"`) })
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	if code := stops(t, g); code != 143 {
		t.Errorf("exit status %d, want 143: 128 and SIGTERM", code)
	}
	_ = s.Body.Close()
	if n := chargedAfter(t, g, p); n != 1 {
		t.Errorf("%d requests were charged for", n)
	}
}

// openStream begins a stream with a key, and returns once it has content.
func openStream(t *testing.T, g *gateway.Gateway, key string) *http.Response {
	t.Helper()
	c := ask{dialect: fake.OpenAI, model: "m", stream: true}.call()
	c.Key = key
	res, err := g.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	r := gateway.NewReader(res.Body)
	for range 5 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	return res
}

// TestD3AStopDoesNotWaitForAReaderOfEvents: one who does not read them keeps nothing from its end.
func TestD3AStopDoesNotWaitForAReaderOfEvents(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	unread, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unread.Close(), stdout.Close() })
	o := gateway.Options{Config: quick + "telemetry: {events: stdout}\n", Stdout: stdout, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	full := func() bool { // a pipe holds 64 KiB, and the gateway 1,024 events besides
		for range 50 {
			g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
		}
		return g.Metrics(t).Sum("bardo_events_dropped_total") > 0
	}
	for !full() {
		if t.Context().Err() != nil {
			t.Fatal("the pipe never fills")
		}
	}
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	if code := stops(t, g); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestD3AStopDoesNotWaitForALockedLedger, and what it could not write is written by the next start.
func TestD3AStopDoesNotWaitForALockedLedger(t *testing.T) {
	t.Parallel()
	for _, signals := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d signals", signals), func(t *testing.T) {
			t.Parallel()
			g, p, key := hanging(t, quickly)
			for range 3 {
				openStream(t, g, key) //nolint:bodyclose // the test's end does
			}
			unlock := holdWriteLock(t, g)
			for range signals {
				if err := g.Terminate(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the drain", func() bool { return strings.Contains(g.Log(), `"msg":"draining"`) })
			}
			stops(t, g)
			unlock()
			if n := chargedAfter(t, g, p); n != 3 {
				t.Errorf("%d of 3 requests were charged for", n)
			}
		})
	}
}

// TestD3AReloadDoesNotWaitForAReaderOfEvents that are written elsewhere from now on.
func TestD3AReloadDoesNotWaitForAReaderOfEvents(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	unread, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unread.Close(), stdout.Close() })
	o := gateway.Options{Config: quick + "telemetry: {events: stdout}\n", Stdout: stdout, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	for g.Metrics(t).Sum("bardo_events_dropped_total") == 0 {
		for range 50 {
			g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
		}
	}
	o.Config = quick + fmt.Sprintf("telemetry: {events: %q}\n", "file:"+g.Home+"/events")
	reload(t, g, o)
}
