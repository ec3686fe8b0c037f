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

// With data_path: module the gateway is two processes: this program, and its Envoy with the data path in it (inside.go). This program gives Envoy
// and data path their configuration, keeps the health of providers, and shows operators both. They meet in the run directory: this program
// writes two files there that the data path starts from, also when Envoy has died and is started again, and the data path serves a socket.

// The files of the run directory that the data path starts from. The configuration is the last one that was adopted: the file that the
// operator edits may be wrong by now.
const (
	handoverFile  = "module.json"
	adoptedConfig = "module.config"
	moduleSocket  = "module.sock"
)

// handover is what the data path has to know besides the configuration.
type handover struct {
	Version    string    `json:"version"` // of this program
	PID        int       `json:"pid"`
	Home       home.Dir  `json:"home"`
	Started    time.Time `json:"started"`
	ConfigPath string    `json:"config"`
	Secret     string    `json:"secret"`   // of the egress listener
	LogText    bool      `json:"log_text"` // people read the log
	Inherits   bool      `json:"inherits"` // Envoy has this program's standard output and standard error as descriptors 3 and 4

	Models map[manifest.Kind]models.About `json:"models"` // that this program runs
}

// dataModule is the data path in Envoy's process, as this program sees it. Safe for concurrent use.
type dataModule struct {
	library string // the path of libbardo.so
	dir     string // the run directory
	client  *http.Client
	log     *slog.Logger
}

// errModuleApart is that of a part of a split gateway.
var errModuleApart = errors.New("data_path: module is for `bardo up`: the parts of a split gateway run with data_path: extproc")

// useModule decides for a data path in Envoy's process, if the configuration says so.
func (r *roles) useModule(wanted bool) error {
	switch {
	case !wanted:
		return nil
	case !r.envoy:
		return errModuleApart
	}
	r.data, r.module = false, true
	return nil
}

// openModule prepares the start of the data path.
func (g *gateway) openModule(ctx context.Context, data []byte) error {
	if problem := doctor.Module(ctx); !problem.OK {
		return fmt.Errorf("data_path: module: %s: %s", problem.Detail, problem.Fix)
	}
	library, err := home.ModuleLibrary()
	if err != nil {
		return err
	}
	g.inEnvoy = &dataModule{library: library, dir: g.sockets.dir, client: control.Client(filepath.Join(g.sockets.dir, moduleSocket)), log: g.log}
	return g.inEnvoy.keepConfig(data)
}

// handOver writes what the data path starts from besides the configuration.
func (g *gateway) handOver() error {
	h := handover{
		Version: cli.Version, PID: os.Getpid(), Home: g.home, Started: g.started, ConfigPath: g.configPath, Secret: g.secret,
		LogText: logsText(g.cfg.Load(), g.errOut), Inherits: len(g.inherited()) > 0, Models: g.aboutModels(),
	}
	return home.Dir(g.sockets.dir).Keep(handoverFile, h)
}

// inherited are this program's standard output and standard error, for events and logs of the data path. Where they are no files, the data path
// logs to Envoy's own standard error, which ends in this program's log.
func (g *gateway) inherited() []*os.File {
	out, okOut := g.out.(*os.File)
	errOut, okErr := g.errOut.(*os.File)
	if !okOut || !okErr {
		return nil
	}
	return []*os.File{out, errOut}
}

// moduleStop is how long an Envoy with the data path may take to stop: what it has cut is charged for, and the ledger closed.
const moduleStop = stopRest - 2*keepTime

// moduleCommand adds the data path to the command of an Envoy.
func (g *gateway) moduleCommand(c *envoy.Command) {
	if !g.module {
		return
	}
	c.Bootstrap.Module = g.sockets.dir
	c.Env = []string{envoy.ModuleVariable + "=" + filepath.Dir(g.inEnvoy.library)}
	c.Files = g.inherited()
	c.StopTime = moduleStop
}

// openModuleFeed makes the control plane's servers where the data path is in Envoy's process: it is told the order of providers, and reports
// results, as a sidecar does.
func (g *gateway) openModuleFeed() {
	g.server = xds.NewServer(g.log, xds.Options{Applied: func(node string) { g.feed.Refresh(node) }})
	g.feed = feed.NewServer(feed.ServerOptions{
		Tracker: g.tracker, Log: g.log, Secret: func(string) string { return g.secret }, Clusters: g.server.Providers,
	})
}

// keepConfig writes what the data path starts from.
func (m *dataModule) keepConfig(data []byte) error {
	path := filepath.Join(m.dir, adoptedConfig)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// moduleState is what the data path says of itself.
type moduleState struct {
	Version string `json:"version"`
	Reason  string `json:"reason"` // why the ledger cannot be written; "" if it can
	Live    int64  `json:"live"`   // requests under way

	Shared []api.ReadyDetail `json:"shared"` // stores that gateways share
}

// errNoModule is that of a call that found no data path: Envoy is about to start, or has died.
var errNoModule = errors.New("the data path in Envoy's process does not answer")

// call asks the data path for something, and decodes its answer into out, unless that is nil.
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
		_ = json.Unmarshal(answer, &refusal) // an answer without a reason is shown as it is
		return fmt.Errorf("the data path in Envoy's process: %s %s", resp.Status, refusal.Error)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// state asks how the data path is.
func (m *dataModule) state(ctx context.Context) (s moduleState, err error) {
	return s, m.call(ctx, http.MethodGet, "/state", nil, &s)
}

// providers are the providers as the data path sees them.
func (m *dataModule) providers(ctx context.Context) (all []control.Provider, err error) {
	return all, m.call(ctx, http.MethodGet, "/providers", nil, &all)
}

// switchPoll is how often awaitSwitch looks.
const switchPoll = 5 * time.Millisecond

// awaitSwitch waits until the data path knows that a provider was switched off or on, or ctx is done. One that is away learns it at its start.
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

// greet checks that the data path is of this program's version.
func (m *dataModule) greet(ctx context.Context) error {
	s, err := m.state(ctx)
	if err != nil {
		return err
	}
	if s.Version != cli.Version {
		return fmt.Errorf("%s is version %s, and this program is %s: build both with `make build`", m.library, s.Version, cli.Version)
	}
	return nil
}

// check asks whether the data path could work with a configuration.
func (m *dataModule) check(ctx context.Context, data []byte) error {
	err := m.call(ctx, http.MethodPost, "/config/check", data, nil)
	if errors.Is(err, errNoModule) {
		return notApplied{err} // it is tried again
	}
	return err
}

// adopt puts a configuration that Envoy has in force in the data path. One that is away starts with it.
func (m *dataModule) adopt(ctx context.Context, data []byte) error {
	if err := m.keepConfig(data); err != nil {
		return err
	}
	if err := m.call(ctx, http.MethodPost, "/config", data, nil); err != nil && !errors.Is(err, errNoModule) {
		return err
	}
	return nil
}

// told tells the data path how the last reload went, for those who ask its own /readyz.
func (m *dataModule) told(ctx context.Context, s control.ConfigStatus) {
	b, err := json.Marshal(s)
	if err == nil {
		err = m.call(ctx, http.MethodPut, "/config/status", b, nil)
	}
	if err != nil {
		m.log.Debug("the data path was not told the state of the configuration", "error", err)
	}
}

// drain has the data path refuse new requests, and waits until none is under way, or ctx is done.
func (m *dataModule) drain(ctx context.Context) error {
	return m.call(ctx, http.MethodPost, "/drain", nil, nil)
}

// hurry shortens what the data path does before Envoy ends: the operator sent a second signal.
func (m *dataModule) hurry() {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	if err := m.call(ctx, http.MethodPost, "/hurry", nil, nil); err != nil {
		m.log.Debug("the data path was not hurried", "error", err)
	}
}

// scrape reads the data path's metrics.
func (m *dataModule) scrape(ctx context.Context, accept string) (io.ReadCloser, error) {
	return m.open(ctx, "/metrics", accept)
}

// stream opens one of the data path's streams.
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

// proxy passes requests to the data path.
func (m *dataModule) proxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "module"}) },
		Transport:     m.client.Transport,
		FlushInterval: -1, // a watcher's lines go on as they come
		ErrorLog:      slog.NewLogLogger(m.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": errNoModule.Error() + ": Envoy may be starting"})
		},
	}
}

// otherwiseConfigured are the providers whose address or keys a new configuration changes: what is known of their health is of no use any more.
func otherwiseConfigured(before, after *config.Config) (ids []policy.ProviderID) {
	for _, now := range after.Enabled() {
		old, ok := before.Provider(now.ID)
		if ok && (settings.Place(old) != settings.Place(now) || !slices.Equal(old.Keys, now.Keys)) {
			ids = append(ids, now.ID)
		}
	}
	return ids
}

// localNodeOfChild is where the Envoy of this process meets its data path.
func (g *gateway) localNodeOfChild(httpAt, httpsAt string) state.Node {
	n := state.Node{HTTP: httpAt, HTTPS: httpsAt, EgressSocket: g.sockets.egress, DemoSocket: g.sockets.demo, ExtProc: g.sockets.extproc}
	if g.module {
		n.ExtProc = ""
	}
	return n
}
