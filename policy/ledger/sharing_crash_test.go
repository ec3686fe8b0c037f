package ledger

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// server is a child process that serves until it is killed.
type server struct {
	*testing.T
	cmd  *exec.Cmd
	done sync.WaitGroup

	mu   sync.Mutex
	acks []acknowledged
}

func serve(t *testing.T, path string) *server {
	t.Helper()
	s := &server{T: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	s.cmd.Env = append(os.Environ(), crashEnv+"="+path)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.done.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var a acknowledged
			if _, err := fmt.Sscan(lines.Text(), &a.key, &a.request, &a.charged); err != nil {
				t.Errorf("%q: %v", lines.Text(), err)
				continue
			}
			s.mu.Lock()
			s.acks = append(s.acks, a)
			s.mu.Unlock()
		}
	})
	return s
}

func (s *server) served() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acks)
}

// serveMore waits until some more captures were acknowledged.
func (s *server) serveMore(n int) {
	s.Helper()
	n += s.served()
	eventually(s, "captures are acknowledged", func() bool { return s.served() >= n })
}

func (s *server) kill() []acknowledged {
	s.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.Fatal(err)
	}
	s.done.Wait()
	if err := s.cmd.Wait(); err == nil || s.cmd.ProcessState.ExitCode() != -1 {
		s.Fatalf("the child was not killed: %v", err)
	}
	return s.acks
}

// TestKilledGatewaysThatShareAStoreLoseNothing: one of two serving processes is killed at any time and replaced, while the other
// continues.
func TestKilledGatewaysThatShareAStoreLoseNothing(t *testing.T) {
	t.Parallel()
	path := storePath(t)
	cli := tool(t, path)
	for id, balance := range crashKeys {
		withKey(t, cli, id, balance)
	}
	pair := []*server{serve(t, path), serve(t, path)}
	var acks []acknowledged
	for range iterations(t, 4, 40) {
		for _, s := range pair {
			s.serveMore(rand.IntN(300))
		}
		i := rand.IntN(2)
		acks = append(acks, pair[i].kill()...)
		eventually(t, "the other one gives the blocks back", func() bool { return countInstances(t, cli) == 1 })
		wantClean(t, cli)
		pair[i] = serve(t, path)
	}
	for _, s := range pair {
		acks = append(acks, s.kill()...)
	}
	wantClean(t, cli)
	for id := range crashKeys {
		if b, err := cli.Balance(t.Context(), id); err != nil || b.Held != 0 {
			t.Errorf("%s is left with %+v, %v", id, b, err)
		}
	}
	wantAllChargedOnce(t, cli, acks)
	t.Logf("%d captures were acknowledged", len(acks))
}

func countInstances(t *testing.T, l *Ledger) (n int) {
	t.Helper()
	if err := l.reads.QueryRowContext(t.Context(), `SELECT count(*) FROM instance`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
