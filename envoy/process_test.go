package envoy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/xds/state"
)

// childEnv makes this test binary a parent of an Envoy instead of a test.
const childEnv = "BARDO_TEST_RUN_ENVOY_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		runUntilKilled(dir)
		return
	}
	os.Exit(m.Run())
}

// runUntilKilled supervises an Envoy and prints its pid once it is alive.
func runUntilKilled(dir string) {
	p, err := envoy.NewProcess(command(os.Getenv("ENVOY_BIN"), dir, slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for p.PID() == 0 || p.Alive(context.Background()) != nil {
			<-time.After(time.Millisecond)
		}
		fmt.Println(p.PID())
	}()
	_ = p.Run(context.Background())
}

func command(path, dir string, log *slog.Logger) envoy.Command {
	return envoy.Command{
		Path: path, Dir: dir, Concurrency: 1, Log: log, LogLevel: "info", StopTime: 2 * time.Second,
		Bootstrap: envoy.Options{XDS: state.Peer{Address: filepath.Join(dir, "nobody.sock")}},
	}
}

// start runs an Envoy without a control plane: alive, never ready.
func start(t *testing.T) (p *envoy.Process, stop func() error, log *proctest.Output) {
	t.Helper()
	log = &proctest.Output{}
	p, err := envoy.NewProcess(command(envoytest.Binary(t), proctest.Dir(t), slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	until(t, "envoy lives", func() bool { return p.Alive(t.Context()) == nil })
	return p, stop, log
}

func TestAnEnvoyThatDiesIsStartedAgain(t *testing.T) {
	p, stop, log := start(t)
	first := p.PID()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "another one lives", func() bool { return p.PID() != 0 && p.PID() != first && p.Alive(t.Context()) == nil })
	if n := p.Restarts(); n != 1 {
		t.Errorf("%d restarts, want 1", n)
	}
	second := p.PID()
	if err := stop(); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	if p.PID() != 0 || syscall.Kill(second, 0) == nil {
		t.Error("Envoy outlived Run")
	}
	if !strings.Contains(log.String(), "envoy died and is started again") || !strings.Contains(log.String(), "component=envoy.main") {
		t.Errorf("the log says %s", log.String())
	}
}

func TestEnvoyRunsInItsOwnGroupBehindAPrivateSocket(t *testing.T) {
	p, _, _ := start(t)
	group, err := syscall.Getpgid(p.PID())
	if err != nil || group != p.PID() {
		t.Errorf("process %d is in group %d, %v", p.PID(), group, err)
	}
	info, err := os.Stat(p.AdminSocket())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the admin socket has mode %v, %v", info.Mode(), err)
	}
}

func TestReadyWaitsForConfiguration(t *testing.T) {
	p, _, _ := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ready says %v without a control plane", err)
	}
	var stats bytes.Buffer
	if err := p.Stats(t.Context(), &stats); err != nil || !strings.Contains(stats.String(), "envoy_server_") {
		t.Errorf("statistics: %v, %.200s", err, stats.String())
	}
	if err := p.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEnvoyDiesWithItsParent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), exe)
	parent.Env = append(os.Environ(), childEnv+"="+proctest.Dir(t), "ENVOY_BIN="+envoytest.Binary(t))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("envoy %d is not there: %v", pid, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	until(t, "envoy is gone", func() bool { return gone(pid) })
}

// gone reports whether a process has ended, including zombies.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestABinaryThatCannotRunIsAnError(t *testing.T) {
	p, err := envoy.NewProcess(command("/no/such/envoy", proctest.Dir(t), slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run says %v", err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	polltest.Until(t, what, ok)
}
