package pay

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

// command runs `bardo pay` with the payer's key, in a state directory of its own.
func command(t *testing.T, g *gateway.Gateway, home string, args ...string) (r gateway.Result) {
	t.Helper()
	cmd := g.Command(t, append([]string{"pay"}, args...)...)
	cmd.Env = append(cmd.Env, "BARDO_HOME="+home, "BARDO_PAY_KEY=0x"+payerKey)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r = gateway.Result{Stdout: out.String(), Stderr: errs.String(), Code: cmd.ProcessState.ExitCode()}
	if strings.Contains(r.Stdout+r.Stderr, payerKey[:20]) {
		t.Errorf("the key is shown: %+v", r)
	}
	return r
}

// paid are the payments that a wallet's book has, newest first.
func paid(t *testing.T, g *gateway.Gateway, home string) (all []struct {
	State, Transaction, Nonce, Reason string
	Amount                            json.Number `json:"amount_usd"`
	Spent                             json.Number `json:"spent_usd"`
},
) {
	t.Helper()
	r := command(t, g, home, "list", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	return all
}

// chainFlags are the flags that allow the test's token and payee.
func (c *chain) chainFlags() []string {
	return []string{"--network", "base-sepolia", "--asset", c.Token.Hex()}
}

// TestBardoPayPaysARequest with the key of a file or a variable; what its flags do not allow is not paid, and no file has the key.
func TestBardoPayPaysARequest(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	home := t.TempDir()
	args := func(more ...string) []string {
		return append(append(c.chainFlags(), "--data", chatBody(false), g.URL+"/v1/chat/completions"), more...)
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{args(), "the payee " + payTo + " is not allowed"},
		{args("--pay-to", payTo, "--max-usd", "0.001"), "and a request may cost $0.001000"},
		{args("--pay-to", payTo, "--max-usd-day", "0.001"), "in the last 24 hours, and this payment exceeds that"},
		{append(args("--pay-to", payTo), "--network", "base"), "--asset is a token of one chain"},
	} {
		if r := command(t, g, home, row.args...); r.Code != 1 || !strings.Contains(r.Stderr, row.want) || r.Stdout != "" {
			t.Errorf("%v: %+v, want %q", row.args, r, row.want)
		}
	}
	if all := paid(t, g, home); len(all) != 0 || len(p.Generations()) != 0 {
		t.Fatalf("signed: %+v", all)
	}
	r := command(t, g, home, args("--pay-to", payTo)...)
	got := c.received(t)
	if r.Code != 0 || !strings.Contains(r.Stdout, `"choices"`) || got < usualCost || !strings.Contains(r.Stderr, "paid: $0.0") || !strings.Contains(r.Stderr, ", transaction 0x") {
		t.Fatalf("%d arrived: %+v\n%s", got, r, g.Log())
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(payerKey+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := command(t, g, home, args("--pay-to", payTo, "--key-file", file)...); r.Code != 1 || !strings.Contains(r.Stderr, "others can read it (mode 0644)") {
		t.Errorf("%+v", r)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, g, home, args("--pay-to", payTo, "--key-file", file)...); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	if r := command(t, g, home, append(c.chainFlags()[:2], "reconcile", "--rpc", c.URL)...); r.Code != 0 || !strings.Contains(r.Stdout, "0 payments have no known outcome") {
		t.Errorf("%+v", r)
	}
	all := paid(t, g, home)
	if len(all) != 2 || all[0].State != "used" || all[1].State != "used" || all[0].Nonce == all[1].Nonce || len(all[0].Transaction) != 66 || c.transfers(t) != 2 {
		t.Errorf("%d transfers: %+v", c.transfers(t), all)
	}
	noKeyIn(t, home)
}

// noKeyIn fails if a file of a state directory has the payer's key.
func noKeyIn(t *testing.T, home string) {
	t.Helper()
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(home, e.Name()))
		if err != nil || bytes.Contains(bytes.ToLower(b), []byte(payerKey[:20])) {
			t.Errorf("%s: %v, or it has the key", e.Name(), err)
		}
	}
}

// TestPitfall13BardoPayDoesNotPayTwice: the answer to a payment is lost, and the command is run again and again: the gateway is paid once.
func TestPitfall13BardoPayDoesNotPayTwice(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	var losing atomic.Bool
	losing.Store(true)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forward(t, g, w, r, losing.Load())
	}))
	t.Cleanup(between.Close)
	home := t.TempDir()
	args := append(c.chainFlags(), "--pay-to", payTo, "--data", chatBody(false), between.URL+"/v1/chat/completions")
	if r := command(t, g, home, args...); r.Code != 1 || !strings.Contains(r.Stderr, "may have been paid to "+payTo) {
		t.Fatalf("%+v", r)
	}
	losing.Store(false)
	for range 2 {
		if r := command(t, g, home, args...); r.Code != 1 || !strings.Contains(r.Stdout, "payment_replayed") || !strings.Contains(r.Stderr, "it is not known whether it was taken (the answer was 409") {
			t.Fatalf("%+v", r)
		}
	}
	if all := paid(t, g, home); len(all) != 1 || all[0].State != "open" || all[0].Spent == "0" {
		t.Fatalf("%+v", all)
	}
	waitReceived(t, c, 0)
	command(t, g, home, "reconcile", "--network", "base-sepolia", "--rpc", c.URL)
	if all := paid(t, g, home); len(all) != 1 || all[0].State != "used" || c.transfers(t) != 1 || len(p.Generations()) != 1 {
		t.Errorf("%d transfers, %d calls: %+v", c.transfers(t), len(p.Generations()), all)
	}
}

// forward passes a request on to the gateway. lose drops the answer to one that has a payment.
func forward(t *testing.T, g *gateway.Gateway, w http.ResponseWriter, r *http.Request, lose bool) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	payment := r.Header.Get("Payment-Signature")
	var header []string
	if payment != "" {
		header = []string{"Payment-Signature: " + payment}
	}
	got := g.Do(t, gateway.Call{NoKey: true, Path: r.URL.Path, Body: string(body), Header: header})
	if lose && payment != "" {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
		return
	}
	for name, values := range got.Header {
		if name != "Content-Length" && name != "Transfer-Encoding" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(got.Status)
	_, _ = io.WriteString(w, got.Body)
}

// TestPitfall13TheChainFreesARequest: a payee took the request, and never the money. When the payment can no longer be used, the request is paid for anew.
func TestPitfall13TheChainFreesARequest(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _ := serve(t, c, "")
	var failing atomic.Bool
	failing.Store(true)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() && r.Header.Get("Payment-Signature") != "" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		forward(t, g, w, r, false)
	}))
	t.Cleanup(between.Close)
	home := t.TempDir()
	args := append(c.chainFlags(), "--pay-to", payTo, "--data", chatBody(false), between.URL+"/v1/chat/completions")
	if r := command(t, g, home, args...); r.Code != 1 || !strings.Contains(r.Stderr, "(the answer was 502)") {
		t.Fatalf("%+v", r)
	}
	reconcile := func(want string) {
		t.Helper()
		command(t, g, home, "reconcile", "--network", "base-sepolia", "--rpc", c.URL)
		if all := paid(t, g, home); len(all) != 1 || all[0].State != want {
			t.Fatalf("%+v, want %s", all, want)
		}
	}
	reconcile("open")
	c.Do(t, nil, "evm_increaseTime", 24*3600)
	c.Do(t, nil, "evm_mine")
	reconcile("unused")
	if got := paid(t, g, home)[0]; string(got.Spent) != "0.000000" {
		t.Errorf("it counts as spent: %+v", got)
	}
}
