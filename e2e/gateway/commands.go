package gateway

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// NewKey is what `bardo keys create --json` prints.
type NewKey struct {
	ID         string `json:"id"`
	Key        string `json:"key"`
	Name       string `json:"name"`
	Tier       string `json:"tier"`
	BalanceUSD any    `json:"balance_usd"`
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Try runs a bardo command on the gateway's state, whatever it ends with.
func (g *Gateway) Try(t testing.TB, args ...string) Result {
	t.Helper()
	out, errs, code := g.run(t.Context(), args...)
	return Result{out, errs, code}
}

// Command is a bardo command on the gateway's state, for the caller to start and to end. It ends with the test at the latest.
func (g *Gateway) Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(g.bin, args...) //nolint:noctx // the caller ends it, in the way that is tested
	cmd.Dir, cmd.Env = g.Home, append([]string(nil), g.env...)
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // it may be gone already
		}
	})
	return cmd
}

// Bardo runs a bardo command, which must succeed, and returns what it printed.
func (g *Gateway) Bardo(t testing.TB, args ...string) string {
	t.Helper()
	r := g.Try(t, args...)
	if r.Code != 0 {
		t.Fatalf("bardo %v: exit %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// CreateKey makes a key, e.g. CreateKey(t, "--name", "poor", "--balance-usd", "0.01").
func (g *Gateway) CreateKey(t testing.TB, args ...string) NewKey {
	t.Helper()
	var k NewKey
	out := g.Bardo(t, append([]string{"keys", "create", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &k); err != nil {
		t.Fatalf("keys create printed %q: %v", out, err)
	}
	return k
}

// Audit is what `bardo audit --json` found.
type Audit struct {
	OK       bool `json:"ok"`
	Requests int  `json:"requests"` // that are in the ledger
}

// AssertSound proves the ledger: every journal sums to zero, no hold is left without its request.
func (g *Gateway) AssertSound(t testing.TB) {
	t.Helper()
	var a Audit
	out := g.Bardo(t, "audit", "--json")
	if err := json.Unmarshal([]byte(out), &a); err != nil || !a.OK {
		t.Errorf("the ledger is not sound: %v %s", err, out)
	}
}
