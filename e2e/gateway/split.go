package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/mtlstest"
	"bardo.money/gateway/internal/proctest"
)

// Split is a gateway whose parts run apart: the control plane, and pairs of a sidecar with an Envoy that was started by hand from what
// `bardo bootstrap` printed. The first pair's methods are its own.
type Split struct {
	*Pair
	ControlPlane *Part
	Plane        *Gateway // the control plane's state, for its commands
	Pairs        []*Pair
	Store        string // the file of the shared ledger

	options Options // of every part
	at      string  // the control plane's address
}

// Pair is one sidecar and its Envoy. Of the embedded gateway everything works but what concerns its one process.
type Pair struct {
	*Gateway
	Name           string
	Sidecar, Envoy *Part

	certified           string // the name in its certificate
	http, listen, admin string // addresses of its Envoy, of its sidecar, and of its sidecar's admin interface
}

// EgressSocket is where the sidecar calls providers.
func (p *Pair) EgressSocket() string { return filepath.Join(p.Home, "egress.sock") }

// ExtprocAddress is where the sidecar listens for its Envoy.
func (p *Pair) ExtprocAddress() string { return p.listen }

// Part is one process of a split gateway.
type Part struct {
	name, dir string
	argv, env []string
	output    *proctest.Output
	cmd       *exec.Cmd
}

// RunSplit starts a split gateway of one pair in one state directory, over Unix sockets, and kills it when the test ends. What its
// parts wrote is shown if the test failed.
func RunSplit(t testing.TB, o Options) *Split {
	t.Helper()
	o.DataPath = "extproc" // the only one that has a process of its own
	s := newSplit(t)
	g := s.gateway(t)
	o.Config += fmt.Sprintf("\nxds: {listen: %q, admin: 127.0.0.1:0}\n", "unix://"+filepath.Join(g.Home, "xds.sock"))
	p := &Pair{Gateway: g, Name: "pair"}
	s.Pair, s.Plane, s.Pairs = p, g, []*Pair{p}
	if err := errors.Join(s.preparePlane(o), p.prepare(o)); err != nil {
		t.Fatal(err)
	}
	s.startAll(t)
	return s
}

// RunPairs starts a control plane and pairs of these names, each process with a state directory of its own as on machines of their own,
// over TCP with mutual TLS. They share one ledger. Certificates are of ca, in the state directories.
func RunPairs(t testing.TB, o Options, ca *mtlstest.Authority, names ...string) *Split {
	t.Helper()
	o.DataPath = "extproc" // the only one that has a process of its own
	s := newSplit(t)
	s.Plane = s.gateway(t)
	s.at = FreeAddress(t)
	store := filepath.Join(s.Plane.Home, "store")
	s.Store = filepath.Join(store, "bardo.db")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	o.Config += fmt.Sprintf("\nstore: {ledger: %q}\n", "sqlite://"+s.Store)
	s.options = o
	issue(t, ca, s.Plane.Home, PlaneName)
	if err := s.preparePlane(s.planeOptions()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		s.AddPair(t, ca, name, name)
	}
	s.Pair = s.Pairs[0]
	s.startAll(t)
	return s
}

// AddPair prepares one more pair, with a certificate for a name that should be its own. It does not start it.
func (s *Split) AddPair(t testing.TB, ca *mtlstest.Authority, name, certified string) *Pair {
	t.Helper()
	p := &Pair{Gateway: s.gateway(t), Name: name, certified: certified, http: FreeAddress(t), listen: FreeAddress(t), admin: FreeAddress(t)}
	issue(t, ca, p.Home, certified)
	if err := p.prepare(s.pairOptions(p)); err != nil {
		t.Fatal(err)
	}
	p.Key, p.Admin = s.key(), base("http", p.admin)
	s.Pairs = append(s.Pairs, p)
	return p
}

func (s *Split) key() string {
	if s.Pair == nil {
		return ""
	}
	return s.Key
}

func (s *Split) planeOptions() Options {
	o := s.options
	o.Config += fmt.Sprintf("xds: {listen: %q, admin: 127.0.0.1:0, tls: %s}\n", s.at, tlsFiles(s.Plane.Home, PlaneName))
	return o
}

func (s *Split) pairOptions(p *Pair) Options {
	o, files := s.options, tlsFiles(p.Home, p.certified)
	o.Config += fmt.Sprintf("listen: {http: %q, https: 127.0.0.1:0, admin: %q}\n", p.http, p.admin)
	o.Config += fmt.Sprintf("extproc: {node: %s, listen: %q, tls: %s}\nxds: {address: %q, name: %s, tls: %[3]s}\n", p.Name, p.listen, files, s.at, PlaneName)
	return o
}

// ConfigurePlane and ConfigurePairs write the configuration files anew, with other providers.
func (s *Split) ConfigurePlane(t testing.TB, providers ...Provider) {
	t.Helper()
	s.options.Providers = providers
	s.Plane.Configure(t, s.planeOptions())
}

// ConfigurePairs is ConfigurePlane for the pairs.
func (s *Split) ConfigurePairs(t testing.TB, providers ...Provider) {
	t.Helper()
	s.options.Providers = providers
	for _, p := range s.Pairs {
		p.Configure(t, s.pairOptions(p))
	}
}

// PlaneName is the name in the certificate of a control plane.
const PlaneName = "control-plane"

func issue(t testing.TB, ca *mtlstest.Authority, dir, name string) {
	t.Helper()
	if _, err := ca.Write(dir, name, time.Hour); err != nil {
		t.Fatal(err)
	}
}

// tlsFiles names a certificate's files as the configuration does.
func tlsFiles(dir, name string) string {
	f := mtlstest.Files(dir, name)
	return fmt.Sprintf("{cert: %q, key: %q, ca: %q}", f.Cert, f.Key, f.CA)
}

// FreeAddress is one that nobody has at this moment, with a port that the kernel gives to nobody by itself: it stays free while its
// owner is dead. No other test gets it, in this process or in another, until the process ends.
func FreeAddress(t testing.TB) string {
	t.Helper()
	const first, last = 15_000, 32_000
	for range 100 {
		port := first + rand.IntN(last-first)
		if !claims.add(t, port) {
			continue
		}
		at := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
		if err == nil {
			_ = l.Close()
			return at
		}
	}
	t.Fatal("no port is free")
	return ""
}

// claimed are the ports of this process's tests: the locks of files, which the system drops when the process ends.
type claimed struct {
	mu    sync.Mutex
	locks []*os.File
}

var claims claimed

// add reports whether the port was nobody's.
func (c *claimed) add(t testing.TB, port int) bool {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "bardo-test-ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locks = append(c.locks, f)
	return true
}

func newSplit(t testing.TB) *Split {
	t.Helper()
	s := &Split{}
	t.Cleanup(func() {
		for _, p := range s.Pairs {
			p.Envoy.Kill()
			p.Sidecar.Kill()
		}
		s.ControlPlane.Kill()
		var logs strings.Builder
		logs.WriteString(s.Plane.Log())
		_ = os.RemoveAll(s.Plane.Home)
		for _, p := range s.Pairs {
			if p.Gateway != s.Plane {
				fmt.Fprintf(&logs, "\n%s wrote:\n%s", p.Name, p.Log())
			}
			_ = os.RemoveAll(p.Home)
		}
		if t.Failed() {
			t.Logf("the parts wrote:\n%s", logs.String())
		}
	})
	return s
}

// gateway is a state directory to run parts in.
func (s *Split) gateway(t testing.TB) *Gateway {
	t.Helper()
	bin, err := program(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "bardo")
	if err != nil {
		t.Fatal(err)
	}
	return &Gateway{bin: bin, client: newClient(), Home: home}
}

func (g *Gateway) part(name string, argv ...string) *Part {
	return &Part{name: name, dir: g.Home, argv: argv, env: g.env, output: &g.output}
}

func (s *Split) preparePlane(o Options) error {
	if err := s.Plane.prepare(o); err != nil {
		return err
	}
	s.ControlPlane = s.Plane.part("xds", s.Plane.bin, "xds", "-c", s.Plane.File)
	return nil
}

func (p *Pair) prepare(o Options) error {
	if err := p.Gateway.prepare(o); err != nil {
		return err
	}
	envoy, err := envoytest.Path()
	if err != nil {
		return err
	}
	p.Sidecar = p.part("extproc", p.bin, "extproc", "-c", p.File)
	p.Envoy = p.part("envoy", envoy, "-c", filepath.Join(p.Home, "envoy.json"), "--disable-hot-restart", "--concurrency", "2", "-l", "warning")
	return nil
}

// startAll makes one key and starts everything, the control plane first.
func (s *Split) startAll(t testing.TB) {
	t.Helper()
	if err := s.makeFirstKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.ControlPlane.Start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Pairs {
		p.Key = s.Key
		p.Begin(t)
	}
	for _, p := range s.Pairs {
		if err := errors.Join(p.Locate(t.Context()), p.locateAdmin(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// Begin starts the pair for the first time. It does not wait for it.
func (p *Pair) Begin(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.Home, "envoy.json"), []byte(p.Bardo(t, "bootstrap", "-c", p.File)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Sidecar.Start(), p.Envoy.Start()); err != nil {
		t.Fatal(err)
	}
}

// Locate asks the pair's Envoy where it listens, until it does. One that was started again may listen elsewhere.
func (p *Pair) Locate(ctx context.Context) error {
	return poll(ctx, func() error {
		at, err := listeners(ctx, filepath.Join(p.Home, "envoy-admin.sock"))
		if err != nil {
			return err
		}
		if at["http"] == "" || at["egress"] == "" {
			return errors.New("envoy does not listen")
		}
		p.URL = base("http", at["http"])
		return nil
	})
}

// Serves waits until the pair answers a request whose answer needs the whole of it but no provider.
func (p *Pair) Serves(ctx context.Context) error {
	return poll(ctx, func() error {
		res, err := p.Open(ctx, Call{Path: "/v1/balance"})
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("/v1/balance: %s", res.Status)
		}
		if _, err := os.Stat(p.EgressSocket()); err != nil {
			return err
		}
		return nil
	})
}

// locateAdmin waits for the sidecar's run.json.
func (p *Pair) locateAdmin(ctx context.Context) error {
	return poll(ctx, func() (err error) {
		p.Admin, err = adminAddress(p.Home, "run.json", p.Sidecar)
		return err
	})
}

// LocatePlane waits until the control plane that runs now is ready, and notes its admin address.
func (s *Split) LocatePlane(ctx context.Context) error {
	return poll(ctx, func() (err error) {
		s.Plane.Admin, err = adminAddress(s.Plane.Home, "xds.json", s.ControlPlane)
		return err
	})
}

func adminAddress(home, file string, of *Part) (string, error) {
	b, err := os.ReadFile(filepath.Join(home, file))
	if err != nil {
		return "", err
	}
	var r struct {
		PID   int
		Admin string
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return "", err
	}
	if r.PID != of.PID() {
		return "", fmt.Errorf("%s is a predecessor's", file)
	}
	return base("http", r.Admin), nil
}

// poll tries until it succeeds, as long as a start may take.
func poll(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
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
	if err := proctest.Start(cmd, syscall.SIGKILL); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.cmd = cmd
	return nil
}

// PID is the part's process; 0 while it does not run.
func (p *Part) PID() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
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
