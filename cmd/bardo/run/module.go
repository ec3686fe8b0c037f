package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/doctor"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/feed"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/state"
)

// With data_path: module the gateway is two processes: this program, and its Envoy with the data path inside (inside.go). This program configures Envoy and
// the data path, tracks the health of providers, and serves operators. Both use the run directory: this program writes two files there that the data path
// reads at each start, including after a crash of Envoy, and the data path listens on a socket there.

// The files of the run directory that the data path starts from. adoptedConfig is the last configuration that was adopted: the operator's file may have been
// edited since.
const (
	handoverFile  = "module.json"
	adoptedConfig = "module.config"
	moduleSocket  = "module.sock"
)

// handover is what the data path needs besides the configuration.
type handover struct {
	Version    string    `json:"version"` // of the program that started Envoy
	PID        int       `json:"pid"`
	Home       home.Dir  `json:"home"`
	Started    time.Time `json:"started"`
	ConfigPath string    `json:"config"`
	Secret     string    `json:"secret"`   // of the egress listener
	LogText    bool      `json:"log_text"` // the log is text, not JSON
	Inherits   bool      `json:"inherits"` // Envoy has this program's standard output and standard error as descriptors 3 and 4

	Models map[manifest.Kind]models.About `json:"models"` // local models that the program runs
}

// dataModule is a client of the data path in Envoy's process. Safe for concurrent use.
type dataModule struct {
	library string // the path of libbardo.so
	dir     string // the run directory
	client  *http.Client
	log     *slog.Logger
}

// errModuleSplit is returned by the commands of a split gateway.
var errModuleSplit = errors.New("data_path: module is for `bardo up`: the parts of a split gateway run with data_path: extproc")

// useModule moves the data path into Envoy's process if wanted.
func (r *roles) useModule(wanted bool) error {
	switch {
	case !wanted:
		return nil
	case !r.envoy:
		return errModuleSplit
	}
	r.data, r.module = false, true
	return nil
}

// openModule checks that the data path can start, and saves its configuration.
func (g *gateway) openModule(ctx context.Context, data []byte) error {
	if problem := doctor.Module(ctx); !problem.OK {
		return fmt.Errorf("data_path: module: %s: %s", problem.Detail, problem.Fix)
	}
	library, err := home.ModuleLibrary()
	if err != nil {
		return err
	}
	g.inEnvoy = &dataModule{library: library, dir: g.sockets.dir, client: control.Client(filepath.Join(g.sockets.dir, moduleSocket)), log: g.log}
	return g.inEnvoy.saveConfig(data)
}

// handOver writes the handover file.
func (g *gateway) handOver() error {
	h := handover{
		Version: cli.Version, PID: os.Getpid(), Home: g.home, Started: g.started, ConfigPath: g.configPath, Secret: g.secret,
		LogText: logsText(g.cfg.Load(), g.errOut), Inherits: len(g.inherited()) > 0, Models: g.aboutModels(),
	}
	return home.Dir(g.sockets.dir).WriteFile(handoverFile, h)
}

// inherited are this program's standard output and standard error, for the data path's events and logs. If they are not files, the data path logs to Envoy's
// standard error, which ends up in this program's log.
func (g *gateway) inherited() []*os.File {
	out, okOut := g.out.(*os.File)
	errOut, okErr := g.errOut.(*os.File)
	if !okOut || !okErr {
		return nil
	}
	return []*os.File{out, errOut}
}

// moduleStop bounds how long an Envoy with the data path may take to stop, including the charges for requests that were cut and the closing of the ledger.
const moduleStop = stopGrace - 2*flushTime

// moduleCommand adds the data path to the command line and environment of Envoy.
func (g *gateway) moduleCommand(c *envoy.Command) {
	if !g.module {
		return
	}
	c.Bootstrap.Module = g.sockets.dir
	c.Env = []string{envoy.ModuleVariable + "=" + filepath.Dir(g.inEnvoy.library)}
	c.Files = g.inherited()
	c.StopTime = moduleStop
}

// openModuleFeed creates the control plane's servers for a data path in Envoy's process, which receives the provider order and reports results as a sidecar
// does.
func (g *gateway) openModuleFeed() {
	g.server = xds.NewServer(g.log, xds.Options{Applied: func(node string) { g.feed.Refresh(node) }})
	g.feed = feed.NewServer(feed.ServerOptions{
		Tracker: g.tracker, Log: g.log, Secret: func(string) string { return g.secret }, Clusters: g.server.Providers,
	})
}

// saveConfig replaces the configuration file that the data path starts from.
func (m *dataModule) saveConfig(data []byte) error {
	path := filepath.Join(m.dir, adoptedConfig)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// moduleState is the state that the data path reports.
type moduleState struct {
	Version string `json:"version"`
	Reason  string `json:"reason"` // why the ledger cannot be written; "" if it can
	Live    int64  `json:"live"`   // requests in flight

	Shared []api.ReadyDetail `json:"shared"` // stores shared by several gateways
}

// errNoModule is returned while the data path cannot be reached: Envoy is starting, or has died.
var errNoModule = errors.New("the data path in Envoy's process does not answer")

// call sends a request to the data path and decodes the answer into out, unless out is nil.
func (m *dataModule) call(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://module"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoModule, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoModule, err)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal struct{ Error string }
		_ = json.Unmarshal(answer, &refusal) // without a reason the status alone is shown
		return fmt.Errorf("the data path in Envoy's process: %s %s", resp.Status, refusal.Error)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// state returns the state of the data path.
func (m *dataModule) state(ctx context.Context) (s moduleState, err error) {
	return s, m.call(ctx, http.MethodGet, "/state", nil, &s)
}

// providers returns the providers as the data path sees them.
func (m *dataModule) providers(ctx context.Context) (all []control.Provider, err error) {
	return all, m.call(ctx, http.MethodGet, "/providers", nil, &all)
}

// switchPoll is how often awaitSwitch polls.
const switchPoll = 5 * time.Millisecond

// awaitSwitch waits until the data path knows that a provider was disabled or enabled, or ctx is done. A data path that is down learns it at its start.
func (m *dataModule) awaitSwitch(ctx context.Context, id policy.ProviderID, off bool) {
	tick := time.NewTicker(switchPoll)
	defer tick.Stop()
	for {
		all, err := m.providers(ctx)
		i := slices.IndexFunc(all, func(p control.Provider) bool { return p.Provider == id })
		if err != nil || i >= 0 && (all[i].State == string(health.Disabled)) == off {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// checkVersion reports an error if the data path was built from another version.
func (m *dataModule) checkVersion(ctx context.Context) error {
	s, err := m.state(ctx)
	if err != nil {
		return err
	}
	if s.Version != cli.Version {
		return fmt.Errorf("%s is version %s, and this program is %s: build both with `make build`", m.library, s.Version, cli.Version)
	}
	return nil
}

// check reports whether the data path can use a configuration.
func (m *dataModule) check(ctx context.Context, data []byte) error {
	err := m.call(ctx, http.MethodPost, "/config/check", data, nil)
	if errors.Is(err, errNoModule) {
		return notApplied{err} // the reload is retried
	}
	return err
}

// adopt puts a configuration that Envoy already has in force in the data path. A data path that is down starts with it.
func (m *dataModule) adopt(ctx context.Context, data []byte) error {
	if err := m.saveConfig(data); err != nil {
		return err
	}
	if err := m.call(ctx, http.MethodPost, "/config", data, nil); err != nil && !errors.Is(err, errNoModule) {
		return err
	}
	return nil
}

// reportConfigStatus sends the outcome of the last reload to the data path, which serves it on its own /readyz.
func (m *dataModule) reportConfigStatus(ctx context.Context, s control.ConfigStatus) {
	b, err := json.Marshal(s)
	if err == nil {
		err = m.call(ctx, http.MethodPut, "/config/status", b, nil)
	}
	if err != nil {
		m.log.Debug("the data path was not told the state of the configuration", "error", err)
	}
}

// drain makes the data path refuse new requests, and waits until none is in flight, or ctx is done.
func (m *dataModule) drain(ctx context.Context) error {
	return m.call(ctx, http.MethodPost, "/drain", nil, nil)
}

// shortenStop shortens the data path's shutdown, after a second signal.
func (m *dataModule) shortenStop() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := m.call(ctx, http.MethodPost, "/hurry", nil, nil); err != nil {
		m.log.Debug("the data path was not hurried", "error", err)
	}
}

// scrape returns the data path's metrics.
func (m *dataModule) scrape(ctx context.Context, accept string) (io.ReadCloser, error) {
	return m.open(ctx, "/metrics", accept)
}

// stream returns a function that opens a stream of the data path.
func (m *dataModule) stream(path string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) { return m.open(ctx, path, "*/*") }
}

func (m *dataModule) open(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://module"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// proxy forwards requests to the data path.
func (m *dataModule) proxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "module"}) },
		Transport:     m.client.Transport,
		FlushInterval: -1, // streamed lines are forwarded immediately
		ErrorLog:      slog.NewLogLogger(m.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": errNoModule.Error() + ": Envoy may be starting"})
		},
	}
}

// changedInConfig are the providers whose address or keys differ between two configurations. Their health has to be learned again.
func changedInConfig(before, after *config.Config) (ids []policy.ProviderID) {
	for _, now := range after.Enabled() {
		old, ok := before.Provider(now.ID)
		if ok && (settings.Place(old) != settings.Place(now) || !slices.Equal(old.Keys, now.Keys)) {
			ids = append(ids, now.ID)
		}
	}
	return ids
}

// childNode returns the local settings of this process's Envoy.
func (g *gateway) childNode(httpAt, httpsAt string) state.Node {
	n := state.Node{HTTP: httpAt, HTTPS: httpsAt, EgressSocket: g.sockets.egress, DemoSocket: g.sockets.demo, ExtProc: g.sockets.extproc}
	if g.module {
		n.ExtProc = ""
	}
	return n
}
