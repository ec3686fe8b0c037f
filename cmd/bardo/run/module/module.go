// Package module connects the two processes of a gateway whose data path is in Envoy's: the files that the data path starts from, and the client of its socket.
package module

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
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/health"
)

// The files of the run directory that the data path starts from. adoptedConfig is the last configuration that was adopted: the operator's file may have been
// edited since.
const (
	handoverFile  = "module.json"
	adoptedConfig = "module.config"
	socketFile    = "module.sock"
)

// Handover is what the data path needs besides the configuration.
type Handover struct {
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

// Write writes the handover into the run directory.
func (h *Handover) Write(dir string) error { return home.Dir(dir).WriteFile(handoverFile, h) }

// ReadHandover reads the handover and the configuration from the run directory. A handover of another version of the program is an error.
func ReadHandover(dir string) (h Handover, config []byte, err error) {
	b, err := os.ReadFile(filepath.Join(dir, handoverFile))
	if err != nil {
		return h, nil, err
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return h, nil, fmt.Errorf("%s: %w", handoverFile, err)
	}
	if h.Version != cli.Version {
		return h, nil, fmt.Errorf("libbardo.so is version %s, and bardo is %s: build both with `make build`", cli.Version, h.Version)
	}
	config, err = os.ReadFile(filepath.Join(dir, adoptedConfig))
	return h, config, err
}

// Socket is where the data path listens for the program that started Envoy, in the run directory.
func Socket(dir string) string { return filepath.Join(dir, socketFile) }

// Client is a client of the data path in Envoy's process. Safe for concurrent use.
type Client struct {
	library string // the path of libbardo.so
	dir     string // the run directory
	client  *http.Client
	log     *slog.Logger
}

// New returns a client of the data path of a library, the path of libbardo.so, with a run directory.
func New(library, dir string, log *slog.Logger) *Client {
	return &Client{library: library, dir: dir, client: control.Client(Socket(dir)), log: log}
}

// Folder is the folder of the library.
func (m *Client) Folder() string { return filepath.Dir(m.library) }

// SaveConfig replaces the configuration file that the data path starts from.
func (m *Client) SaveConfig(data []byte) error {
	path := filepath.Join(m.dir, adoptedConfig)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// State is what the data path reports of itself.
type State struct {
	Version string `json:"version"`
	Reason  string `json:"reason"` // why the ledger cannot be written; "" if it can
	Live    int64  `json:"live"`   // requests in flight

	Shared []api.ReadyDetail `json:"shared"` // stores shared by several gateways
}

// ErrUnreachable is returned while the data path cannot be reached: Envoy is starting, or has died.
var ErrUnreachable = errors.New("the data path in Envoy's process does not answer")

// Call sends a request to the data path and decodes the answer into out, unless out is nil.
func (m *Client) Call(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://module"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
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

// State returns the state of the data path.
func (m *Client) State(ctx context.Context) (s State, err error) {
	return s, m.Call(ctx, http.MethodGet, "/state", nil, &s)
}

// Providers returns the providers as the data path sees them.
func (m *Client) Providers(ctx context.Context) (all []control.Provider, err error) {
	return all, m.Call(ctx, http.MethodGet, "/providers", nil, &all)
}

// switchPoll is how often awaitSwitch polls.
const switchPoll = 5 * time.Millisecond

// AwaitSwitch waits until the data path knows that a provider was disabled or enabled, or ctx is done. A data path that is down learns it at its start.
func (m *Client) AwaitSwitch(ctx context.Context, id policy.ProviderID, off bool) {
	tick := time.NewTicker(switchPoll)
	defer tick.Stop()
	for {
		all, err := m.Providers(ctx)
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

// CheckVersion reports an error if the data path was built from another version.
func (m *Client) CheckVersion(ctx context.Context) error {
	s, err := m.State(ctx)
	if err != nil {
		return err
	}
	if s.Version != cli.Version {
		return fmt.Errorf("%s is version %s, and this program is %s: build both with `make build`", m.library, s.Version, cli.Version)
	}
	return nil
}

// Check reports whether the data path can use a configuration.
func (m *Client) Check(ctx context.Context, data []byte) error {
	return m.Call(ctx, http.MethodPost, "/config/check", data, nil)
}

// Adopt puts a configuration that Envoy already has in force in the data path. A data path that is down starts with it.
func (m *Client) Adopt(ctx context.Context, data []byte) error {
	if err := m.SaveConfig(data); err != nil {
		return err
	}
	if err := m.Call(ctx, http.MethodPost, "/config", data, nil); err != nil && !errors.Is(err, ErrUnreachable) {
		return err
	}
	return nil
}

// ReportConfigStatus sends the outcome of the last reload to the data path, which serves it on its own /readyz.
func (m *Client) ReportConfigStatus(ctx context.Context, s control.ConfigStatus) {
	b, err := json.Marshal(s)
	if err == nil {
		err = m.Call(ctx, http.MethodPut, "/config/status", b, nil)
	}
	if err != nil {
		m.log.Debug("the data path was not told the state of the configuration", "error", err)
	}
}

// Drain makes the data path refuse new requests, and waits until none is in flight, or ctx is done.
func (m *Client) Drain(ctx context.Context) error {
	return m.Call(ctx, http.MethodPost, "/drain", nil, nil)
}

// ShortenStop shortens the data path's shutdown, after a second signal.
func (m *Client) ShortenStop(ctx context.Context) {
	if err := m.Call(ctx, http.MethodPost, "/hurry", nil, nil); err != nil {
		m.log.Debug("the data path was not hurried", "error", err)
	}
}

// Scrape returns the data path's metrics.
func (m *Client) Scrape(ctx context.Context, accept string) (io.ReadCloser, error) {
	return m.open(ctx, "/metrics", accept)
}

// Stream returns a function that opens a stream of the data path.
func (m *Client) Stream(path string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) { return m.open(ctx, path, "*/*") }
}

func (m *Client) open(ctx context.Context, path, accept string) (io.ReadCloser, error) {
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

// Proxy forwards requests to the data path.
func (m *Client) Proxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "module"}) },
		Transport:     m.client.Transport,
		FlushInterval: -1, // streamed lines are forwarded immediately
		ErrorLog:      slog.NewLogLogger(m.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", header.JSON)
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": ErrUnreachable.Error() + ": Envoy may be starting"}) // fails only if the client has disconnected
		},
	}
}
