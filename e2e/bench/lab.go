package main

import (
	"bufio"
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
	"strconv"
	"strings"
	"syscall"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// lab is everything that runs during a benchmark.
type lab struct {
	dir      string
	envoyBin string
	children []*exec.Cmd
	cores    cores
	gateways []*installed // of all shapes

	burst, paced, held string // the providers' addresses
	plainAddr          string
	plainEnvoy         process
}

// What the gateway's models lead to.
const (
	modelOne      = "one-candidate"
	modelTwo      = "two-candidates"
	modelPacedOne = "paced-one-candidate"
	modelPacedTwo = "paced-two-candidates"
	modelHeld     = "held-one-candidate"
)

// setUp starts the providers, the gateway, and a plain Envoy that is configured after the gateway's.
func setUp(ctx context.Context, pinned cores) (*lab, error) {
	root, err := proctest.Root()
	if err != nil {
		return nil, err
	}
	l := &lab{envoyBin: os.Getenv("ENVOY_BIN"), cores: pinned}
	if l.envoyBin == "" {
		l.envoyBin = filepath.Join(root, ".tools", "envoy", "envoy")
	}
	if l.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, string) error{l.build, l.pin, l.startProviders, l.startGateways, l.startPlain} {
		if err := step(ctx, root); err != nil {
			l.tearDown()
			return nil, err
		}
	}
	return l, nil
}

func (l *lab) tearDown() {
	for _, g := range l.gateways {
		if err := g.gateway.Stop(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: stopping the gateway: %v\n%s", err, g.gateway.Log())
		}
		_ = os.RemoveAll(g.gateway.Home)
	}
	for _, c := range l.children {
		_ = c.Process.Signal(syscall.SIGTERM) // it may be gone
		_ = c.Wait()
	}
	_ = os.RemoveAll(l.dir)
}

// build makes the programs, unless $BARDO_BIN names the gateway's.
func (l *lab) build(ctx context.Context, root string) error {
	packages := map[string]string{"fakeprovider": "./e2e/fake/cmd/fakeprovider"}
	if os.Getenv("BARDO_BIN") == "" {
		packages["bardo"] = "./cmd/bardo"
		if err := os.Setenv("BARDO_BIN", filepath.Join(l.dir, "bardo")); err != nil {
			return err
		}
	}
	for name, pkg := range packages {
		c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(l.dir, name), pkg)
		c.Dir = root
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// start runs a program until the lab is torn down.
func (l *lab) start(c *exec.Cmd) error {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the lab, which stops what it started in order
	if err := c.Start(); err != nil {
		return err
	}
	l.children = append(l.children, c)
	return nil
}

func (l *lab) startProviders(context.Context, string) (err error) {
	if l.burst, err = l.provider("-tokens", strconv.Itoa(burstTokens)); err != nil {
		return err
	}
	if l.paced, err = l.provider("-tokens", strconv.Itoa(pacedTokens), "-gap", pacedGap.String()); err != nil {
		return err
	}
	l.held, err = l.provider("-hold")
	return err
}

// provider starts one and returns its address.
func (l *lab) provider(args ...string) (string, error) {
	c := exec.Command(filepath.Join(l.dir, "fakeprovider"), append([]string{"-bench"}, args...)...) //nolint:noctx // ended by tearDown
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := l.start(c); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the provider said nothing: %w", err)
	}
	url := strings.TrimPrefix(strings.TrimSpace(line), "base_url ")
	return strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/v1"), nil
}

const limits = "limits: {rpm: 0}\n"

func (l *lab) startGateways(ctx context.Context, _ string) error {
	for _, s := range shapes {
		if err := l.startGateway(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (l *lab) startGateway(ctx context.Context, s shape) error {
	models := func(names ...string) (out []gateway.Model) {
		for _, n := range names {
			out = append(out, gateway.Model{ID: n, Price: "{input: 3, output: 15}"})
		}
		return out
	}
	at := func(id, addr string, names ...string) gateway.Provider {
		return gateway.Provider{ID: id, BaseURL: "http://" + addr + "/v1", Key: "sk-fake", Models: models(names...)}
	}
	g, err := gateway.Start(ctx, gateway.Options{
		Providers: []gateway.Provider{
			at(burstProvider, l.burst, modelOne, modelTwo), at("burst-spare", l.burst, modelTwo),
			at("paced", l.paced, modelPacedOne, modelPacedTwo), at("paced-spare", l.paced, modelPacedTwo), at("held", l.held, modelHeld),
		},
		Config:  "auth: {anonymous: true}\n" + limits + s.config,
		NoKey:   true,
		Program: s.program,
	})
	if err != nil {
		return err
	}
	i := &installed{shape: s, gateway: g, addr: strings.TrimPrefix(g.URL, "http://"), program: process{pid: g.PID()}}
	l.gateways = append(l.gateways, i)
	if i.envoy, err = envoyOf(g.PID()); err != nil {
		return err
	}
	k, err := g.MakeKey(ctx, "--name", "bench", "--balance-usd", "1000000")
	i.key = k.Key
	return err
}

func envoyOf(pid int) (process, error) {
	id, err := child(pid)
	return process{pid: id, envoy: true}, err
}

// burstProvider is the provider that answers immediately.
const burstProvider = "burst"

func (l *lab) startPlain(ctx context.Context, _ string) error {
	dump, err := l.gatewayDump(ctx, l.gateways[0])
	if err != nil {
		return err
	}
	admin := filepath.Join(l.dir, "admin.sock")
	config, err := plainConfig(dump, upstreams{burst: l.burst, paced: l.paced, held: l.held}, admin)
	if err != nil {
		return err
	}
	l.plainEnvoy, l.plainAddr, err = l.startEnvoy(ctx, "plain", admin, config)
	return err
}

// gatewayDump is the configuration that a gateway's Envoy has now.
func (l *lab) gatewayDump(ctx context.Context, g *installed) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(g.gateway.Home, "run.json"))
	if err != nil {
		return nil, err
	}
	var run struct{ Control string }
	if err := json.Unmarshal(b, &run); err != nil {
		return nil, fmt.Errorf("run.json: %w", err)
	}
	socket := filepath.Join(filepath.Dir(run.Control), "envoy.sock")
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	return get(ctx, &c, "http://envoy/config_dump")
}

func get(ctx context.Context, c *http.Client, url string) (_ []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// memory is what every process holds now.
func (l *lab) memory(when string) memory {
	m := memory{When: when, PlainEnvoyMB: residentMB(l.plainEnvoy.pid)}
	for _, g := range l.gateways {
		m.Gateways = append(m.Gateways, gatewayMemory{g.name, residentMB(g.envoy.pid), megabytesOf(g.program.pid)})
	}
	return m
}
