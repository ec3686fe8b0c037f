package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/extproc/provider/demo"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/snapshot"
	"bardo.money/gateway/xds/state"
)

func upCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "up", Short: "Run the whole gateway on this machine", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := openHome()
			if err != nil {
				return err
			}
			unlock, err := h.lock()
			if err != nil {
				return err
			}
			defer unlock()
			cfg, path, err := configured(c, h)
			if err != nil {
				return err
			}
			return up(c.Context(), h, cfg, path, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c)
	return c
}

// gateway is everything that runs in this process.
type gateway struct {
	home       home
	dir        string // sockets
	configPath string
	cfg        atomic.Pointer[config.Config]
	log        *slog.Logger
	level      *slog.LevelVar
	metrics    *telemetry.Metrics
	books      *ledger.Ledger
	limiter    *quota.Limiter
	tracker    *health.Tracker
	control    *xds.Server
	data       *extproc.Gateway
	envoy      *envoy.Process
	secret     string
	pushing    sync.Mutex       // guards what follows
	serving    []state.Provider // as pushed last
	retired    []state.Provider // as before the last reload
	cert, key  []byte
	ready      atomic.Bool
	draining   atomic.Bool
}

// up runs until ctx is done (SIGTERM, SIGINT), then drains.
func up(ctx context.Context, h home, cfg *config.Config, path string, out, errOut io.Writer) error {
	g := &gateway{home: h, configPath: path, secret: rand.Text()}
	g.cfg.Store(cfg)
	var err error
	if g.log, g.level, err = telemetry.NewLogger(errOut, cfg.Telemetry.LogLevel); err != nil {
		return err
	}
	dir, remove, err := h.runDir()
	if err != nil {
		return err
	}
	defer remove()
	g.dir = dir
	if err := g.open(ctx); err != nil {
		return err
	}
	defer g.close()
	return g.run(ctx, out)
}

// run starts the servers, waits until Envoy serves, announces it, and drains once ctx is done.
func (g *gateway) run(ctx context.Context, out io.Writer) error {
	// The servers outlive ctx: they drain first.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	admin, err := g.listen(serving, group)
	if err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	failed := make(chan error, 1)
	go func() { failed <- group.Wait() }()

	started, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	info, err := g.await(started, failed)
	if err == nil {
		info.Admin = admin.Addr().String()
		err = g.announce(ctx, info, out, failed)
	}
	stop()
	return errors.Join(err, <-failed)
}

// startTime bounds how long Envoy may take to serve.
const startTime = 30 * time.Second

// await waits until Envoy serves the first configuration, and says where.
func (g *gateway) await(ctx context.Context, failed chan error) (runInfo, error) {
	ready := make(chan error, 1)
	go func() { ready <- errors.Join(g.envoy.Ready(ctx), g.control.Applied(ctx)) }()
	select {
	case err := <-failed:
		failed <- nil
		return runInfo{}, fmt.Errorf("the gateway did not start: %w", err)
	case err := <-ready:
		if err != nil {
			return runInfo{}, err
		}
	}
	at, err := g.envoy.Addresses(ctx)
	if err != nil {
		return runInfo{}, err
	}
	return runInfo{PID: os.Getpid(), HTTP: at[snapshot.ListenerHTTP], HTTPS: at[snapshot.ListenerHTTPS], Control: filepath.Join(g.dir, "control.sock")}, nil
}

// announce tells users and scripts where the gateway is, serves until it is asked to stop, and drains.
func (g *gateway) announce(ctx context.Context, info runInfo, out io.Writer, failed chan error) error {
	greeting, err := g.greeting(ctx, info)
	if err != nil {
		return err
	}
	withdraw, err := g.home.announce(info)
	if err != nil {
		return err
	}
	defer withdraw()
	g.ready.Store(true)
	if _, err := io.WriteString(out, greeting); err != nil {
		g.log.Warn("the greeting could not be printed", "error", err)
	}
	select {
	case err := <-failed:
		failed <- nil
		return err
	case <-ctx.Done():
		return g.drain(context.WithoutCancel(ctx))
	}
}

// drainTime is how long streams may finish after SIGTERM.
const drainTime = 30 * time.Second

// drain lets what is under way finish, and admits nothing new.
func (g *gateway) drain(ctx context.Context) error {
	g.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if err := g.envoy.Drain(ctx); err != nil {
		g.log.Warn("envoy was not told to drain", "error", err)
	}
	g.log.Info("draining", "exchanges", g.data.Live())
	if err := g.data.Idle(ctx); err != nil {
		g.log.Warn("the drain time is over", "exchanges", g.data.Live())
	}
	return nil
}

// open prepares everything that the servers work with.
func (g *gateway) open(ctx context.Context) (err error) {
	cfg := g.cfg.Load()
	g.metrics = telemetry.New(telemetry.Build{Version: version})
	path, err := g.home.ledgerPath(cfg.Store.Ledger)
	if err != nil {
		return err
	}
	if g.books, err = ledger.Open(ctx, path, ledger.Options{Exclusive: true}); err != nil {
		return err
	}
	if err := g.certificate(cfg); err != nil {
		return err
	}
	keys, err := g.keys()
	if err != nil {
		return err
	}
	rt, err := g.assemble(cfg)
	if err != nil {
		return err
	}
	g.limiter = quota.New(quota.Options{Rules: quotaRules(cfg), SpentSince: g.books.SpentSince})
	g.tracker = health.NewTracker(health.Options{}, providerIDs(cfg)...)
	g.data = extproc.New(rt, extproc.Deps{
		Verifier: verifiers(keys), Limiter: g.limiter, Ledger: g.books, Health: healthView{g.tracker}, Metrics: g.metrics,
		Log: g.log, Egress: extproc.NewEgressClient(g.socket("egress")), Draining: g.draining.Load,
	})
	g.control = xds.NewServer(g.log)
	g.envoy, err = g.newEnvoy(cfg)
	return err
}

func (g *gateway) close() {
	if err := g.books.Close(); err != nil {
		g.log.Error("the ledger was not closed cleanly", "error", err)
	}
}

func (g *gateway) socket(name string) string { return filepath.Join(g.dir, name+".sock") }

func (g *gateway) newEnvoy(cfg *config.Config) (*envoy.Process, error) {
	path, err := envoyBinary()
	if err != nil {
		return nil, err
	}
	admin := string(cfg.Listen.EnvoyAdmin)
	if admin == "off" {
		admin = ""
	}
	return envoy.NewProcess(envoy.Command{
		Path: path, Dir: g.dir, Log: g.log, LogLevel: "warning",
		Bootstrap: envoy.Options{XDS: state.Peer{Address: g.socket("xds")}, AdminTCP: admin},
	})
}

// listen starts every server in group, Envoy last.
func (g *gateway) listen(ctx context.Context, group *errgroup.Group) (net.Listener, error) {
	cfg := g.cfg.Load()
	var lc net.ListenConfig
	admin, err := lc.Listen(ctx, "tcp", string(cfg.Listen.Admin))
	if err != nil {
		return nil, fmt.Errorf("listen.admin: %w", err)
	}
	group.Go(func() error { return serveHTTP(ctx, admin, g.adminHandler()) })
	sockets := map[string]func(net.Listener) error{
		"control": func(l net.Listener) error { return serveHTTP(ctx, l, g.controlHandler()) },
		"demo":    func(l net.Listener) error { return serveHTTP(ctx, l, demo.NewServer()) },
		"xds":     func(l net.Listener) error { return g.control.Serve(ctx, l, nil) },
		"extproc": func(l net.Listener) error { return serveGRPC(ctx, extproc.NewServer(g.data), l) },
	}
	for name, serve := range sockets {
		l, err := xds.Listen(ctx, g.socket(name))
		if err != nil {
			return nil, err
		}
		group.Go(func() error { return serve(l) })
	}
	if err := g.push(ctx); err != nil {
		return nil, err
	}
	group.Go(func() error { return g.envoy.Run(ctx) })
	group.Go(func() error { return g.watchHealth(ctx) })
	group.Go(func() error { return g.watchConfig(ctx) })
	return admin, nil
}

// serveGRPC serves on l until ctx is done.
func serveGRPC(ctx context.Context, s *grpc.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// certificate loads the configured certificate of the https listener, or makes a development one.
func (g *gateway) certificate(cfg *config.Config) (err error) {
	if cfg.Listen.TLS.Cert == "" {
		g.cert, g.key, err = developmentCertificate(g.home)
		return err
	}
	if g.cert, err = os.ReadFile(cfg.Listen.TLS.Cert); err != nil {
		return fmt.Errorf("listen.tls.cert: %w", err)
	}
	if g.key, err = os.ReadFile(cfg.Listen.TLS.Key); err != nil {
		return fmt.Errorf("listen.tls.key: %w", err)
	}
	_, err = tls.X509KeyPair(g.cert, g.key)
	return err
}

// greeting is what a person sees on start.
func (g *gateway) greeting(ctx context.Context, info runInfo) (string, error) {
	cfg := g.cfg.Load()
	var b strings.Builder
	fmt.Fprintf(&b, "bardo %s is ready\n", version)
	if info.HTTP != "" {
		fmt.Fprintf(&b, "  http       http://%s\n", info.HTTP)
	}
	if info.HTTPS != "" {
		fmt.Fprintf(&b, "  https      https://%s\n", info.HTTPS)
	}
	fmt.Fprintf(&b, "  admin      http://%s/metrics\n", info.Admin)
	names := make([]string, 0, 4)
	for _, p := range cfg.Enabled() {
		names = append(names, string(p.ID))
	}
	fmt.Fprintf(&b, "  providers  %s\n", strings.Join(names, ", "))
	if cfg.DemoOnly() {
		b.WriteString("             no provider is configured: the demo provider answers callers on this machine without a key;\n" +
			"             set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write a configuration file, for real ones\n")
	}
	key, err := g.firstKey(ctx)
	if err != nil {
		return "", err
	}
	if key != "" {
		fmt.Fprintf(&b, "  API key    %s\n             shown once; `bardo keys create` makes more\n", key)
	}
	if info.HTTP != "" {
		fmt.Fprintf(&b, "\n  export OPENAI_BASE_URL=http://%s/v1 ANTHROPIC_BASE_URL=http://%[1]s\n", info.HTTP)
	}
	return b.String(), nil
}
