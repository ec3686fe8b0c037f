package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/internal/seedtest"
)

// servingCommands are commands that serve, or call other servers: with valid flags they do not exit by themselves.
var servingCommands = []string{"up", "extproc", "xds", "watch", "pay", "doctor", "notify", "sealed", "e2ee", "completion", "help", "install", "version"}

// randomCommands returns the other commands, as words.
func randomCommands() (all [][]string) {
	var visit func(c *cobra.Command, words []string)
	visit = func(c *cobra.Command, words []string) {
		for _, sub := range c.Commands() {
			if !slices.Contains(servingCommands, sub.Name()) {
				path := append(slices.Clone(words), sub.Name())
				all = append(all, path)
				visit(sub, path)
			}
		}
	}
	visit(root(), nil)
	return all
}

// outcome is the result of a command.
type outcome struct {
	out, errs string
	err       error
	after     time.Duration
	panicked  any
}

func runHere(args []string) (s outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	defer func(began time.Time) {
		s.panicked = recover()
		s.out, s.errs, s.after = out.String(), errs.String(), time.Since(began)
	}(time.Now())
	c := root()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetIn(strings.NewReader(""))
	s.err = c.ExecuteContext(ctx)
	return s
}

// randomArgs returns random arguments and flags of a command, both plausible and absurd.
func randomArgs(r *rand.Rand, words []string, ids []string) (args []string, asJSON bool) {
	c, _, err := root().Find(words)
	if err != nil {
		return words, false
	}
	choose := func(of ...string) string { return of[r.IntN(len(of))] }
	odd := func() string {
		return choose("", "-", "a", "ü", "0", "-1", "../x", "1e99", "NaN", "null", "%s%d", "a,b", "2026-01-01", "x=y", strings.Repeat("z", 3000), "\x00", "good.yaml", "bad.yaml", choose(ids...))
	}
	args = slices.Clone(words)
	for range r.IntN(3) {
		args = append(args, choose(odd(), choose(ids...)))
	}
	c.InitDefaultHelpFlag()
	var flags []*pflag.Flag
	c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f) })
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f) })
	for _, f := range flags {
		if r.IntN(3) > 0 || f.Name == "help" || f.Name == "follow" {
			continue
		}
		value := odd()
		switch kind := f.Value.Type(); {
		case r.IntN(5) == 0: // whatever its type
		case kind == "bool":
			value = "true"
		case strings.Contains(kind, "int"):
			value = choose("0", "1", "7", "100000", "-5", "99999999999999999999")
		case strings.Contains(kind, "float") || strings.Contains(kind, "usd"):
			value = choose("0", "1.5", "0.000001", "1e12", "-1")
		case strings.Contains(kind, "duration"):
			value = choose("1s", "24h", "0s", "-1h", "999999h")
		}
		if f.Name == "config" {
			value = choose("good.yaml", "good.yaml", "bad.yaml", "absent.yaml", ".")
		}
		asJSON = asJSON || f.Name == "json" && value == "true"
		args = append(args, "--"+f.Name+"="+value)
	}
	if r.IntN(10) == 0 {
		args = append(args, choose("--nothing", "-Z", "--json=maybe", "--"))
		asJSON = false
	}
	return args, asJSON
}

// TestCommandsWithRandomFlags: with any flags and arguments, no command panics, hangs, or fails without an error message; JSON output is valid. BARDO_SOAK=1
// runs it longer; BARDO_SEED sets the only seed.
func TestCommandsWithRandomFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BARDO_HOME", filepath.Join(t.TempDir(), "home"))
	for name, content := range map[string]string{"good.yaml": "limits: {rpm: 3}\nproviders: {custom: [{id: a, endpoints: [http://127.0.0.1:1/v1], models: [{id: m}]}]}\n", "bad.yaml": "limits: {rpm: x}\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{"k"}
	for i := range 3 {
		s := runHere([]string{"keys", "create", "--json", "--name", fmt.Sprint("key", i), "--balance-usd", "5"})
		var k struct{ ID string }
		if err := json.Unmarshal([]byte(s.out), &k); err != nil || k.ID == "" {
			t.Fatalf("keys create: %+v", s)
		}
		ids = append(ids, k.ID)
	}
	times := 6
	if os.Getenv("BARDO_SOAK") != "" {
		times = 40
	}
	commands := randomCommands()
	if len(commands) < 25 {
		t.Fatalf("%d commands: %q", len(commands), commands)
	}
	for _, seed := range seedtest.Seeds(3) {
		r := rand.New(rand.NewPCG(seed, 7))
		for _, words := range commands {
			for range times {
				args, asJSON := randomArgs(r, words, ids)
				checkOutcome(t, seed, args, asJSON, runHere(args))
			}
		}
	}
	if s := runHere([]string{"audit", "--json"}); s.err != nil {
		t.Errorf("the ledger is not sound: %+v", s)
	}
}

func checkOutcome(t *testing.T, seed uint64, args []string, asJSON bool, s outcome) {
	t.Helper()
	var code cli.Exit
	switch {
	case s.panicked != nil:
		t.Errorf("seed %d: %q panics: %v", seed, args, s.panicked)
	case s.after > 30*time.Second:
		t.Errorf("seed %d: %q takes %s", seed, args, s.after)
	case errors.Is(s.err, context.DeadlineExceeded):
		t.Errorf("seed %d: %q does not end", seed, args)
	case errors.As(s.err, &code) && (code < 1 || code > 4 || s.errs+s.out == ""):
		t.Errorf("seed %d: %q ends with %d, and says %q %q", seed, args, code, s.errs, s.out)
	case s.err != nil && (s.err.Error() == "" || strings.Contains(s.err.Error(), "%!") || strings.HasSuffix(s.err.Error(), "\n")):
		t.Errorf("seed %d: %q fails with %q", seed, args, s.err)
	case s.err == nil && asJSON && !isJSON(s.out):
		t.Errorf("seed %d: %q prints %q", seed, args, s.out)
	}
}

// isJSON reports whether a text is a sequence of JSON values.
func isJSON(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var v any
		if d.Decode(&v) != nil {
			return false
		}
	}
	return true
}
