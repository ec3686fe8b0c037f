package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/proctest"
)

// Gateway is a running gateway. Its methods are safe for concurrent use, but for Stop and Kill.
type Gateway struct {
	URL   string // base URL of the plain listener, without the version
	HTTPS string // of the TLS listener
	Admin string // of the admin listener
	Home  string // $BARDO_HOME
	File  string // the configuration file
	Key   string // a metered key; "" with NoKey

	InEnvoy bool // requests are served in Envoy's process

	bin    string
	env    []string
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process is gone; its state is then in cmd
	output proctest.Output
	client *http.Client
}

const (
	startWithin = 2 * time.Minute  // far more than a busy machine needs
	stopWithin  = 90 * time.Second // the drain of 30 s and a margin
)

// Run starts a gateway and stops it when the test ends, which must succeed. What it wrote is shown if the test failed.
func Run(t testing.TB, o Options) *Gateway {
	t.Helper()
	g, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting the gateway: %v", err)
	}
	t.Cleanup(func() {
		if g.running() {
			if err := g.Stop(); err != nil {
				t.Errorf("stopping the gateway: %v", err)
			}
		}
		if t.Failed() {
			t.Logf("the gateway wrote:\n%s", g.Log())
		}
		if o.Home == "" {
			_ = os.RemoveAll(g.Home)
		}
	})
	return g
}

// Start runs `bardo up` and waits until it is ready. The caller stops it and removes its Home.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	bin, err := o.program(ctx)
	if err != nil {
		return nil, err
	}
	g := &Gateway{bin: bin, Home: o.Home, exited: make(chan struct{}), client: newClient()}
	if err := g.start(ctx, o); err != nil {
		g.discard(o)
		return nil, err
	}
	return g, nil
}

func (g *Gateway) start(ctx context.Context, o Options) error {
	if err := g.prepare(o); err != nil {
		return err
	}
	if !o.NoKey {
		if err := g.createFirstKey(ctx, o); err != nil {
			return err
		}
	}
	if err := g.up(o); err != nil {
		return err
	}
	if err := g.waitReady(ctx); err != nil {
		g.Kill()
		return fmt.Errorf("%w\n%s", err, g.Log())
	}
	return nil
}

// discard removes the state that Start made and could not use.
func (g *Gateway) discard(o Options) {
	if o.Home == "" && g.Home != "" {
		_ = os.RemoveAll(g.Home)
	}
}

// prepare makes the state folder and the configuration file. The folder's path is short, for it will hold sockets.
func (g *Gateway) prepare(o Options) error {
	envoy, err := envoytest.Path()
	if err != nil {
		return err
	}
	if g.Home == "" {
		if g.Home, err = os.MkdirTemp("", "bardo"); err != nil {
			return err
		}
	}
	g.File = filepath.Join(g.Home, "config.yaml")
	g.InEnvoy = o.dataPath() == "module"
	g.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.Home, "BARDO_HOME=" + g.Home, "ENVOY_BIN=" + envoy, "TMPDIR=" + os.TempDir(),
	}, o.Env...)
	return os.WriteFile(g.File, []byte(o.yaml()), 0o600)
}

// MakeKey is CreateKey for a program that is not a test.
func (g *Gateway) MakeKey(ctx context.Context, flags ...string) (NewKey, error) {
	out, errs, code := g.run(ctx, append([]string{"keys", "create", "--json"}, flags...)...)
	var k NewKey
	if err := json.Unmarshal([]byte(out), &k); code != 0 || err != nil || k.Key == "" {
		return k, fmt.Errorf("keys create: exit %d, %v\n%s%s", code, err, out, errs) //nolint:errorlint // err may be nil
	}
	return k, nil
}

func (g *Gateway) up(o Options) error {
	g.cmd = exec.Command(g.bin, "up", "-c", g.File) //nolint:noctx // it ends by Stop or Kill, not by a context
	g.cmd.Dir = g.Home
	g.cmd.Env = g.env
	g.cmd.Stdout, g.cmd.Stderr = &g.output, &g.output
	if o.Stdout != nil {
		g.cmd.Stdout = o.Stdout
	}
	if o.Stderr != nil {
		g.cmd.Stderr = o.Stderr
	}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(g.exited)
		_ = g.cmd.Wait() // the state is read from cmd.ProcessState
	}()
	return nil
}

// waitReady waits for run.json, which the gateway writes when it is ready.
func (g *Gateway) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := g.readAddresses(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-g.exited:
			return fmt.Errorf("bardo up ended: %s", g.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("no run.json: %w", ctx.Err())
		}
	}
}

func (g *Gateway) readAddresses() (bool, error) {
	b, err := os.ReadFile(filepath.Join(g.Home, "run.json"))
	if err != nil {
		return false, nil //nolint:nilerr // not there yet
	}
	var r struct {
		PID                int
		HTTP, HTTPS, Admin string
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return false, fmt.Errorf("run.json: %w in %q", err, b)
	}
	if r.PID != g.cmd.Process.Pid {
		return false, nil // a killed predecessor's
	}
	g.URL, g.HTTPS, g.Admin = base("http", r.HTTP), base("https", r.HTTPS), base("http", r.Admin)
	return true, nil
}

func base(scheme, addr string) string {
	if addr == "" || strings.Contains(addr, "://") {
		return strings.TrimSuffix(addr, "/")
	}
	return scheme + "://" + addr
}

// PID is the process of `bardo up`.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

func (g *Gateway) running() bool {
	select {
	case <-g.exited:
		return false
	default:
		return true
	}
}

// Terminate sends SIGTERM and returns at once; Stop waits for the end.
func (g *Gateway) Terminate() error { return g.cmd.Process.Signal(syscall.SIGTERM) }

// Exited is closed once the process is gone.
func (g *Gateway) Exited() <-chan struct{} { return g.exited }

// ExitCode is the exit status of the program, once Exited is closed; -1 if a signal ended it.
func (g *Gateway) ExitCode() int { return g.cmd.ProcessState.ExitCode() }

// Configure writes the configuration file anew, without its home. The gateway sees it by itself in a moment; Reload makes
// it look at once.
func (g *Gateway) Configure(t testing.TB, o Options) {
	t.Helper()
	if err := os.WriteFile(g.File, []byte(o.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Reload sends SIGHUP.
func (g *Gateway) Reload() error { return g.cmd.Process.Signal(syscall.SIGHUP) }

// Stop drains the gateway with SIGTERM. It must end in time, with status 0, and remove its run.json.
func (g *Gateway) Stop() error {
	g.client.CloseIdleConnections()
	if err := g.Terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-g.exited:
	case <-time.After(stopWithin):
		g.Kill()
		return fmt.Errorf("still running %s after SIGTERM", stopWithin)
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("ended with %s after SIGTERM", g.cmd.ProcessState)
	}
	if _, err := os.Stat(filepath.Join(g.Home, "run.json")); err == nil {
		return errors.New("run.json was left behind")
	}
	return nil
}

// Kill ends the gateway's process group with SIGKILL and waits for it.
func (g *Gateway) Kill() {
	_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) // it may be gone already
	<-g.exited
}

// Log is what the gateway wrote, to both outputs.
func (g *Gateway) Log() string { return g.output.String() }

// run executes another bardo command on the same state.
func (g *Gateway) run(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	cmd := exec.CommandContext(ctx, g.bin, args...)
	cmd.Dir, cmd.Env = g.Home, append([]string{"GOGC=400"}, g.env...) // a command is short: collections would be a sixth of what it takes
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return "", err.Error(), -1
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
