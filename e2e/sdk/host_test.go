package sdk

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"bardo.money/gateway/internal/proctest"
)

// host is the process of host.py that the Python drivers are forked from. It starts with the first of them. Safe for concurrent use.
type host struct {
	once sync.Once
	dir  string // of its socket
	in   io.Closer
	cmd  *exec.Cmd
	err  error
}

var pythons host

// hosted is a run, as host.py reads it.
type hosted struct {
	Script  string            `json:"script"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Stdout  string            `json:"stdout"`
	Stderr  string            `json:"stderr"`
	Seconds int               `json:"seconds"`
}

func (h *host) socket() string { return filepath.Join(h.dir, "s") }

// start returns when the host listens.
func (h *host) start(python string) error {
	h.once.Do(func() {
		if h.dir, h.err = os.MkdirTemp("", "sdk"); h.err != nil {
			return
		}
		h.cmd = exec.Command(python, "host.py", h.socket()) //nolint:noctx // it ends with its standard input, not with a test
		h.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "LANG=C.UTF-8"}
		h.cmd.Stderr = os.Stderr
		in, err := h.cmd.StdinPipe()
		if err != nil {
			h.err = err
			return
		}
		out, err := h.cmd.StdoutPipe()
		if err != nil {
			h.err = err
			return
		}
		h.in = in
		if h.err = proctest.Start(h.cmd, syscall.SIGKILL); h.err == nil {
			_, h.err = bufio.NewReader(out).ReadString('\n')
		}
	})
	return h.err
}

// stop ends the host and removes what it left.
func (h *host) stop() {
	if h.in != nil {
		_ = h.in.Close()
		_ = h.cmd.Wait() // its status says nothing about a driver
	}
	if h.dir != "" {
		_ = os.RemoveAll(h.dir)
	}
}

// run runs a driver to its end, or to the context's, with this environment alone.
func (h *host) run(ctx context.Context, t *testing.T, argv, env []string) (stdout, stderr string, err error) {
	t.Helper()
	if err := h.start(argv[0]); err != nil {
		return "", "", fmt.Errorf("host.py: %w", err)
	}
	out := t.TempDir()
	r := hosted{
		Script: argv[1], Args: argv[2:], Env: map[string]string{}, Seconds: int(driverWithin.Seconds()),
		Stdout: filepath.Join(out, "stdout"), Stderr: filepath.Join(out, "stderr"),
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		r.Env[name] = value
	}
	err = r.over(ctx, h.socket())
	for file, text := range map[string]*string{r.Stdout: &stdout, r.Stderr: &stderr} {
		b, rerr := os.ReadFile(file)
		if *text = string(b); err == nil {
			err = rerr
		}
	}
	return stdout, stderr, err
}

// over asks the host for the run, and waits until it is over. A status other than 0 is an error.
func (r hosted) over(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return err
	}
	var status int
	if _, err := fmt.Fscanln(conn, &status); err != nil {
		return fmt.Errorf("no status: %w", err)
	}
	if status != 0 {
		return fmt.Errorf("exit status %d", status)
	}
	return nil
}
