package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/run/module"
	"bardo.money/gateway/cmd/bardo/run/split"
	"bardo.money/gateway/cmd/bardo/run/startpages"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models/remote"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/state"
)

// Inside is the data path in Envoy's process. It works like a sidecar, except that requests come from Envoy's own threads and the configuration from the
// program that started Envoy. Its methods implement the module's App.
type Inside struct {
	*extproc.Gateway

	g       *gateway
	cut     func()
	stop    context.CancelFunc
	servers *errgroup.Group
	forced  atomic.Bool
}

// The descriptors that Envoy inherits, in the order of gateway.inherited.
const (
	outputDescriptor = 3
	logDescriptor    = 4
)

// Host is what Envoy's process provides to the data path.
type Host struct {
	Calls http.RoundTripper // makes the calls of exchanges, through Envoy's clusters
	Cut   func()            // aborts every request in flight
}

// StartInside starts the data path in Envoy's process. dir is the run directory. The caller calls Shutdown.
func StartInside(p Parts, dir string, host Host) (*Inside, error) {
	h, data, err := module.ReadHandover(dir)
	if err != nil {
		return nil, err
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.NumCPU()) // a worker thread keeps its P for a while after it has returned from Go
	}
	signal.Ignore(syscall.SIGXFSZ) // exceeding the file size limit is an error of the write, and does not end Envoy
	in := &Inside{g: newInside(p, &h, dir, host.Calls), cut: host.Cut}
	g := in.g
	out, errOut := io.Discard, io.Writer(os.Stderr)
	if h.Inherits {
		out, errOut = os.NewFile(outputDescriptor, "stdout"), os.NewFile(logDescriptor, "stderr")
	}
	g.out = out
	cfg, err := settings.Parse(h.ConfigPath, data, errOut)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.ConfigPath, err)
	}
	g.cfg.Store(cfg)
	g.conf.now = control.ConfigStatus{File: h.ConfigPath, Version: settings.Digest(data), Since: time.Now()}
	settings.TuneGC(cfg, true)
	g.learnSecrets(cfg)
	g.events.Redact = func(line []byte) []byte { return g.secrets.Load().Bytes(line) }
	if g.log, g.level, err = telemetry.NewLogger(secret.Writer(errOut, g.secrets.Load), cfg.Telemetry.LogLevel, h.LogText); err != nil {
		return nil, err
	}
	g.log = g.log.With("process", "envoy")
	if err := in.serve(); err != nil {
		in.Shutdown()
		return nil, err
	}
	return in, nil
}

func newInside(p Parts, h *module.Handover, dir string, calls http.RoundTripper) *gateway {
	in := func(name string) string { return filepath.Join(dir, name+".sock") }
	return &gateway{
		roles:         roles{data: true, inside: true},
		start:         start{parts: p, home: h.Home, started: h.Started, parentPID: h.PID},
		configuration: configuration{configPath: h.ConfigPath, configChanged: make(chan struct{}, 1)},
		dataPath:      dataPath{listsChanged: make(chan struct{}, 1), calls: calls},
		localModels:   localModels{remote: remote.NewClient(in("models"), h.Models)},
		connections: connections{
			sockets: sockets{dir: dir, xds: in("xds"), egress: in("egress"), chain: in("chain"), realtime: in("realtime"), control: module.Socket(dir)},
			split:   split.Peers{Node: state.NodeID}, secret: h.Secret,
		},
	}
}

// serve opens everything and starts the background tasks.
func (in *Inside) serve() error {
	ctx, stop := context.WithCancel(context.Background())
	in.stop = stop
	in.servers, ctx = errgroup.WithContext(ctx)
	g := in.g
	if err := g.open(ctx); err != nil {
		return err
	}
	in.Gateway = g.gate
	l, err := xds.Listen(ctx, g.sockets.control)
	if err != nil {
		return err
	}
	in.servers.Go(guard.Again(ctx, func() error { return serveHTTP(ctx, l, in.handler()) }))
	sessions, err := xds.Listen(ctx, g.sockets.realtime)
	if err != nil {
		return err
	}
	in.servers.Go(guard.Again(ctx, func() error { return serveHTTP(ctx, sessions, http.HandlerFunc(g.gate.ServeRealtime)) }))
	in.servers.Go(guard.Again(ctx, func() error { return g.releaseMemory(ctx) }))
	in.servers.Go(guard.Again(ctx, func() error { return g.watchLists(ctx) }))
	in.servers.Go(guard.Again(ctx, func() error { return g.applyLists(ctx) }))
	in.servers.Go(guard.Again(ctx, func() error { g.wallet.Run(ctx); return nil }))
	in.servers.Go(guard.Again(ctx, func() error { g.stake.Run(ctx); return nil }))
	in.servers.Go(guard.Again(ctx, func() error { return g.runDeferred(ctx) }))
	in.servers.Go(guard.Again(ctx, func() error { return g.watchSpending(ctx) }))
	in.servers.Go(guard.Again(ctx, func() error { return g.logPrompts(ctx) }))
	in.servers.Go(guard.Again(ctx, func() error { g.link.Run(ctx); return nil }))
	in.servers.Go(guard.Again(ctx, func() error { return g.watchHealth(ctx) }))
	afterStartup(ctx, func() { startpages.Drop(filepath.Join(os.Getenv(envoy.ModuleVariable), envoy.ModuleFile)) })
	g.ready.Store(true)
	return nil
}

// Drain makes the data path refuse new requests. It is called when Envoy begins to drain.
func (in *Inside) Drain() { in.g.draining.Store(true) }

// Shutdown aborts and charges what is still in flight, and closes the ledger. It is called before Envoy exits.
func (in *Inside) Shutdown() {
	g := in.g
	g.draining.Store(true)
	charge, rest := chargeTime, moduleStop-flushTime
	if in.forced.Load() {
		charge, rest = flushTime/2, forcedStopTime-flushTime
	}
	deadline, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	if g.gate != nil {
		in.cut()
		ctx, cancel := context.WithTimeout(deadline, charge)
		if err := g.gate.Idle(ctx); err != nil {
			g.log.Warn("exchanges did not end in time: they may not be charged for", "exchanges", g.gate.Live())
		}
		cancel()
	}
	in.stop()
	if err := in.servers.Wait(); err != nil {
		g.log.Error("the data path ends with an error", "error", err)
	}
	g.closeBy(deadline)
}

// applyLists puts providers' new lists of models in force until ctx is done.
func (g *gateway) applyLists(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.listsChanged:
			g.relistLocked(ctx)
		}
	}
}

func (g *gateway) relistLocked(ctx context.Context) {
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	g.relist(ctx)
}

// maxConfig bounds a handed-over configuration, in bytes.
const maxConfig = 16 << 20

// handler serves requests of the program that started Envoy.
func (in *Inside) handler() http.Handler {
	g, mux := in.g, http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, module.State{
			Version: cli.Version, Reason: g.ledgerProblem(), Live: g.gate.Live(), Shared: g.sharedStores(),
		})
	})
	mux.HandleFunc("GET /providers", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, g.providerStates()) })
	withBody := func(pattern string, do func(context.Context, []byte) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(io.LimitReader(r.Body, maxConfig))
			if err == nil {
				err = do(r.Context(), data)
			}
			if err != nil {
				writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
				return
			}
			writeJSON(w, http.StatusOK, struct{}{})
		})
	}
	withBody("POST /config/check", func(_ context.Context, data []byte) error { return g.checkHandedOver(data) })
	withBody("POST /config", g.adoptHandedOver)
	withBody("PUT /config/status", func(_ context.Context, data []byte) error { return g.conf.set(data) })
	withBody("POST /drain", func(ctx context.Context, _ []byte) error {
		in.Drain()
		return g.gate.Idle(ctx)
	})
	withBody("POST /hurry", func(context.Context, []byte) error {
		in.forced.Store(true)
		return nil
	})
	g.handleData(mux)
	mux.Handle(adminapi.Prefix+"/", g.adminAPI(nil))
	mux.Handle("GET /metrics", g.metrics.Handler())
	adminapi.Profiles(func(pattern string, h http.HandlerFunc) { mux.HandleFunc(pattern, h) })
	return mux
}

// checkHandedOver reports why a configuration cannot be used. The program that read the file has already reported its mistakes.
func (g *gateway) checkHandedOver(data []byte) error {
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	cfg, err := settings.Parse(g.configPath, data, io.Discard)
	if err != nil {
		return err
	}
	before := g.models
	_, err = g.assemble(cfg)
	g.models = before
	return err
}

// adoptHandedOver puts a configuration in force that Envoy already has.
func (g *gateway) adoptHandedOver(ctx context.Context, data []byte) error {
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	cfg, err := settings.Parse(g.configPath, data, io.Discard)
	if err != nil {
		return err
	}
	g.learnSecrets(cfg)
	before := g.models
	rt, err := g.assemble(cfg)
	if err != nil {
		return errors.Join(errors.New("the configuration was taken before, and is not now"), err)
	}
	g.enforce(ctx, cfg, rt, before)
	return nil
}
