package ledger

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/ledger/store"
)

// crashEnv names the store that a child process of the crash test works on, until it is killed.
const crashEnv = "LEDGER_CRASH_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		fmt.Fprintln(os.Stderr, serveUntilKilled(path))
		os.Exit(1)
	}
	if path := os.Getenv(benchEnv); path != "" {
		if err := servePairs(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	postgrestest.StopShared()
	os.Exit(code)
}

// crashStepEnv is the step at which the child kills itself, and whether after it: "12 true".
const crashStepEnv = "LEDGER_CRASH_STEP"

// killSteps kills the process at a write or sync of the charge log, or at a commit of the store.
type killSteps struct {
	mu    sync.Mutex
	left  int // negative: never
	after bool
}

func (k *killSteps) commit() error { return k.step(func() error { return nil }) }

func (k *killSteps) step(do func() error) error {
	k.mu.Lock()
	k.left--
	now := k.left == 0
	k.mu.Unlock()
	if now && !k.after {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	err := do()
	if now {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return err
}

func (k *killSteps) wrap(f *os.File) chargelog.File { return killingFile{f, k} }

type killingFile struct {
	*os.File

	steps *killSteps
}

func (f killingFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.steps.step(func() error { n, err = f.File.WriteAt(b, at); return err })
	return n, err
}

func (f killingFile) Sync() error { return f.steps.step(f.File.Sync) }

// crashKeys are two prepaid keys, one of which runs out of money.
var crashKeys = map[policy.Account]policy.Micro{"rich": 1_000_000 * usd, "poor": usd / 10}

// serveUntilKilled reserves and captures in a loop, and writes a line for every acknowledged capture.
func serveUntilKilled(path string) error {
	ctx := context.Background()
	steps := killSteps{left: -1}
	if s := os.Getenv(crashStepEnv); s != "" {
		if _, err := fmt.Sscan(s, &steps.left, &steps.after); err != nil {
			return err
		}
	}
	l, err := open(ctx, path, Options{Gateway: true, Flush: 20 * time.Millisecond, charges: chargelog.Options{Segment: 16 << 10, Wrap: steps.wrap}})
	if err != nil {
		return err
	}
	if err := l.between(func(b *book) error { b.Hook = steps.commit; return nil }); err != nil {
		return err
	}
	failed := make(chan error)
	for w := range 16 {
		go func() {
			for i := 0; ; i++ {
				if err := serveOne(ctx, l, fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func serveOne(ctx context.Context, l *Ledger, request string) error {
	key := policy.Account("rich")
	if rand.IntN(4) == 0 {
		key = "poor"
	}
	hold, amount := policy.Micro(rand.IntN(2000)), policy.Micro(rand.IntN(2500))
	h, err := l.Reserve(ctx, key, request, hold)
	if err != nil && key == "poor" {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := l.Capture(ctx, h, Charge{Amount: amount, Agent: "g", Part: "dream"})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, key, request, int64(r.Charged))
	return err
}

// acknowledged is a line of the child.
type acknowledged struct {
	key     policy.Account
	request string
	charged policy.Micro
}

func TestAKilledGatewayLosesNothing(t *testing.T) {
	t.Parallel()
	path := storePath(t)
	l := gateway(t, path)
	for id, balance := range crashKeys {
		withKey(t, l, id, balance)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for round := range iterations(t, 12, 200) {
		var acks []acknowledged
		if round%2 == 0 {
			acks = killAfter(t, path, 1+rand.IntN(1500), "")
		} else { // between append, sync, commit and the reuse of the log's files
			acks = killAfter(t, path, 0, fmt.Sprint(1+rand.IntN(1000), rand.IntN(2) == 0))
		}
		total += len(acks)
		wantAcknowledged(t, path, acks)
	}
	t.Logf("%d captures were acknowledged", total)
}

// wantAcknowledged checks that each capture that a dead gateway has acknowledged was charged once, and nothing is held.
func wantAcknowledged(t *testing.T, path string, acks []acknowledged) {
	t.Helper()
	cli := tool(t, path)
	wantClean(t, cli)
	for id := range crashKeys {
		if b, err := cli.Balance(t.Context(), id); err != nil || b.Held != 0 {
			t.Errorf("%s is left with %+v, %v", id, b, err)
		}
	}
	wantAllChargedOnce(t, cli, acks)
	wantSpentAsCharged(t, cli)
}

// killAfter runs a child until it has acknowledged a number of captures, or kills itself at a step, and returns all acknowledged captures.
func killAfter(t *testing.T, path string, captures int, step string) []acknowledged {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashEnv+"="+path, crashStepEnv+"="+step)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var acks []acknowledged
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a acknowledged
		if _, err := fmt.Sscan(lines.Text(), &a.key, &a.request, &a.charged); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		acks = append(acks, a)
		if len(acks) == captures {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() != -1 {
		t.Fatalf("the child was not killed: %v", err)
	}
	return acks
}

// wantSpentAsCharged compares agents' spending with the charges of their requests: either both are stored, or neither.
func wantSpentAsCharged(t *testing.T, l *Ledger) {
	t.Helper()
	var spent, charged policy.Micro
	err := l.reads.QueryRowContext(t.Context(), `SELECT (SELECT coalesce(sum(charged), 0) FROM spending), (SELECT coalesce(sum(charged), 0) FROM request)`).Scan(&spent, &charged)
	if err != nil || spent != charged {
		t.Errorf("agents spent %s and were charged %s, %v", spent, charged, err)
	}
}

// wantAllChargedOnce is wantChargedOnce for many captures, all of which have been applied.
func wantAllChargedOnce(t testing.TB, l *Ledger, acks []acknowledged) {
	t.Helper()
	type row struct {
		acknowledged

		amount   policy.Micro
		journals int
	}
	rows, err := store.ReadAll(t.Context(), l.reads, func(s store.Scanner) (r row, err error) {
		err = s.Scan(&r.key, &r.request, &r.charged, &r.amount, &r.journals)
		return r, err
	}, `SELECT account, id, charged, amount, (SELECT count(*) FROM journal WHERE idem = 'request:' || request.id) FROM request`)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]row{}
	for _, r := range rows {
		stored[r.request] = r
	}
	for _, a := range acks {
		if r := stored[a.request]; r.acknowledged != a || r.journals != min(1, int(r.amount)) {
			t.Errorf("request %s: %+v, was acknowledged with %s", a.request, r, a.charged)
		}
	}
}

func wantChargedOnce(t testing.TB, l *Ledger, a acknowledged) {
	t.Helper()
	r, err := l.Request(t.Context(), a.key, a.request)
	if err != nil || r.Charged != a.charged {
		t.Errorf("request %s charged %s, %v, was acknowledged with %s", a.request, r.Charged, err, a.charged)
	}
	var journals string
	err = l.reads.QueryRowContext(t.Context(), `SELECT count(*) FROM journal WHERE idem = 'request:' || ?`, a.request).Scan(&journals)
	if want := strconv.Itoa(min(1, int(r.Amount))); err != nil || journals != want {
		t.Errorf("request %s has %s journals, %v, want %s", a.request, journals, err, want)
	}
}
