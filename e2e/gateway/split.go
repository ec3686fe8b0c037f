package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Split is a gateway whose parts run apart: the control plane, the sidecar, and an Envoy that was started by hand from what
// `bardo bootstrap` printed. Of the embedded gateway everything works but what concerns its one process.
type Split struct {
	*Gateway
	ControlPlane, Sidecar, Envoy *Part
}

// EgressSocket is where the sidecar calls providers.
func (s *Split) EgressSocket() string { return filepath.Join(s.Home, "egress.sock") }

// Part is one process of a split gateway.
type Part struct {
	name, dir string
	argv, env []string
	output    *lines
	cmd       *exec.Cmd
}

// RunSplit starts a split gateway and kills it when the test ends. What its parts wrote is shown if the test failed.
func RunSplit(t testing.TB, o Options) *Split {
	t.Helper()
	bin, err := program(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &Split{Gateway: &Gateway{bin: bin, client: newClient()}}
	t.Cleanup(func() {
		for _, p := range []*Part{s.Envoy, s.Sidecar, s.ControlPlane} {
			p.Kill()
		}
		if t.Failed() {
			t.Logf("the parts wrote:\n%s", s.Log())
		}
		_ = os.RemoveAll(s.Home)
	})
	if s.Home, err = os.MkdirTemp("", "bardo"); err != nil {
		t.Fatal(err)
	}
	o.Home = s.Home
	o.Config += fmt.Sprintf("\nxds: {listen: %q}\n", "unix://"+filepath.Join(s.Home, "xds.sock"))
	if err := s.startParts(t, o); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Split) startParts(t testing.TB, o Options) error {
	t.Helper()
	if err := s.prepare(o); err != nil {
		return err
	}
	if err := s.createFirstKey(t.Context()); err != nil {
		return err
	}
	file := filepath.Join(s.Home, "envoy.json")
	if err := os.WriteFile(file, []byte(s.Bardo(t, "bootstrap", "-c", s.File)), 0o600); err != nil {
		return err
	}
	root, err := Root()
	if err != nil {
		return err
	}
	part := func(name string, argv ...string) *Part {
		return &Part{name: name, dir: s.Home, argv: argv, env: s.env, output: &s.output}
	}
	s.ControlPlane = part("xds", s.bin, "xds", "-c", s.File)
	s.Sidecar = part("extproc", s.bin, "extproc", "-c", s.File)
	s.Envoy = part("envoy", envoy(root), "-c", file, "--disable-hot-restart", "--concurrency", "2", "-l", "warning")
	for _, p := range []*Part{s.ControlPlane, s.Sidecar, s.Envoy} {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return s.findListener(t.Context())
}

// findListener asks Envoy where it listens, until it does.
func (s *Split) findListener(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		at, err := listeners(ctx, filepath.Join(s.Home, "envoy-admin.sock"))
		if err == nil && at["http"] != "" && at["egress"] != "" {
			s.URL = base("http", at["http"])
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("envoy does not listen: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// listeners are Envoy's addresses by listener, once it serves there.
func listeners(ctx context.Context, admin string) (map[string]string, error) {
	if _, err := adminGet(ctx, admin, "/ready"); err != nil {
		return nil, err
	}
	body, err := adminGet(ctx, admin, "/listeners?format=json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Statuses []struct {
			Name    string
			Address struct {
				Socket struct {
					Address string
					Port    int `json:"port_value"`
				} `json:"socket_address"`
				Pipe struct{ Path string }
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	at := map[string]string{}
	for _, l := range list.Statuses {
		at[l.Name] = l.Address.Pipe.Path
		if sock := l.Address.Socket; sock.Port != 0 {
			at[l.Name] = fmt.Sprintf("%s:%d", sock.Address, sock.Port)
		}
	}
	return at, nil
}

func adminGet(ctx context.Context, socket, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://envoy"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := OverSocket(socket).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("envoy admin %s: %s", path, res.Status)
	}
	return body, err
}

// OverSocket is an HTTP client whose every connection goes to a Unix socket, and is used once.
func OverSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
}

// Start runs the part, for the first time or again.
func (p *Part) Start() error {
	cmd := exec.Command(p.argv[0], p.argv[1:]...) //nolint:noctx // it ends by Kill, not by a context
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.cmd = cmd
	return nil
}

// Kill ends the part with SIGKILL and waits for it. A part that does not run stays so.
func (p *Part) Kill() {
	if p == nil || p.cmd == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may be gone already
	_ = p.cmd.Wait()                                      // it was killed
	p.cmd = nil
}
