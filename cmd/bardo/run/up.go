// Package run implements the gateway's long-running commands: `bardo up` (all roles), `bardo extproc` (data path), `bardo xds` (control plane), and `bardo
// bootstrap` (the bootstrap of an Envoy that is run separately).
package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/cmd/bardo/answers"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/limits"
	"bardo.money/gateway/cmd/bardo/onchain"
	"bardo.money/gateway/cmd/bardo/payments"
	"bardo.money/gateway/cmd/bardo/run/auditing"
	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/cmd/bardo/run/split"
	"bardo.money/gateway/cmd/bardo/run/startpages"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/cmd/bardo/staking"
	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/probe"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/snapshot"
	"bardo.money/gateway/xds/state"
)

// UpCommand is `bardo up`.
func UpCommand(p Parts) *cobra.Command {
	c := roleCommand(p, "up", "Run the whole gateway on this machine", roles{data: true, control: true, envoy: true})
	c.SuggestFor = []string{"start", "serve", "run", "server"}
	c.Long = "Run the whole gateway on this machine, until SIGINT or SIGTERM. Without a configuration file, the variables of providers' API keys, such as OPENAI_API_KEY,\n" +
		"say which providers there are; without any, a demo provider answers. Keys, balances and records are kept in $BARDO_HOME (default ~/.bardo)."
	return c
}

// ExtprocCommand is `bardo extproc`.
func ExtprocCommand(p Parts) *cobra.Command {
	return roleCommand(p, "extproc", "Run the data path alone, beside an Envoy that is run separately", roles{data: true})
}

// XDSCommand is `bardo xds`.
func XDSCommand(p Parts) *cobra.Command {
	return roleCommand(p, "xds", "Run the control plane alone, for sidecars and Envoys that are run separately", roles{control: true})
}

func roleCommand(p Parts, use, short string, r roles) *cobra.Command {
	var port portFlag
	c := &cobra.Command{
		Use: use, Short: short, Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := port.check(c); err != nil {
				return err
			}
			h, err := home.Open()
			if err != nil {
				return err
			}
			cfg, file, err := settings.Starting(c, h)
			if err != nil {
				return err
			}
			if err := port.apply(cfg); err != nil {
				return err
			}
			opensLedger := r.data
			if err := r.useModule(cfg.DataPath == config.DataPathModule); err != nil {
				return err
			}
			if r.control && !r.envoy {
				unlock, err := h.LockAs("xds.lock", "a control plane already runs", "")
				if err != nil {
					return err
				}
				defer unlock()
			}
			if opensLedger {
				unlock, err := h.Lock()
				if err != nil {
					return err
				}
				defer unlock()
			}
			return up(c.Context(), p, h, cfg, file, r, port, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	settings.Flag(c)
	if r.envoy {
		port.add(c)
	}
	return c
}

// up runs until ctx is done (SIGTERM, SIGINT), then drains.
func up(ctx context.Context, p Parts, h home.Dir, cfg *config.Config, file settings.File, r roles, port portFlag, out, errOut io.Writer) (err error) {
	g := &gateway{
		roles:         r,
		start:         start{parts: p, port: port, home: h, started: time.Now(), out: out, errOut: errOut},
		configuration: configuration{configPath: file.Path, startInfo: file.Info, readFile: settings.Read, reloads: make(chan reloadRequest), configChanged: make(chan struct{}, 1)},
		dataPath:      dataPath{listsChanged: make(chan struct{}, 1)},
		connections:   connections{addressesChanged: make(chan struct{}, 1)},
		shutdown:      shutdown{stopping: make(chan struct{})},
	}
	g.cfg.Store(cfg)
	g.startConfig = cfg
	g.offered.cfg = cfg
	g.conf.now = control.ConfigStatus{File: file.Path, Version: settings.Digest(file.Data), Since: g.started}
	g.learnSecrets(cfg)
	g.events.Redact = func(line []byte) []byte { return g.secrets.Load().Bytes(line) }
	if g.log, g.level, err = telemetry.NewLogger(secret.Writer(errOut, g.secrets.Load), cfg.Telemetry.LogLevel, logsText(cfg, errOut)); err != nil {
		return err
	}
	remove, err := g.openSockets(cfg)
	if err != nil {
		return err
	}
	defer remove()
	if r.envoy {
		if err := checkPortsFree(ctx, cfg); err != nil {
			return err
		}
	}
	if r.module {
		if err := g.openModule(ctx, file.Data); err != nil {
			return err
		}
	}
	defer g.watchSignals(ctx)()
	defer g.close()
	if err := g.open(ctx); err != nil {
		return err
	}
	return errors.Join(g.run(ctx, out), g.stopError())
}

// logsText reports whether the log is written as text rather than JSON. With log_format auto it is text on a terminal.
func logsText(cfg *config.Config, out io.Writer) bool {
	if cfg.Telemetry.LogFormat != "auto" {
		return cfg.Telemetry.LogFormat == "text"
	}
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// open opens everything that the servers need.
func (g *gateway) open(ctx context.Context) (err error) {
	cfg := g.cfg.Load()
	g.metrics = telemetry.New(telemetry.Build{Version: cli.Version})
	g.metrics.WatchTasks(guard.Count)
	g.prompts = prompts.New(g.metrics.PromptsLogged)
	guard.Report(func(p *guard.Panic, stack string) {
		g.log.Error("a task ended in a fault of the program", "error", p, "stack", stack)
	})
	if err := g.audit.Open(&cfg.Audit, string(g.home), map[bool]string{true: auditing.Data, false: auditing.Control}[g.data], cli.Version, &g.events, g.log); err != nil {
		return err
	}
	g.tracker = health.NewTracker(health.Options{}, settings.ProviderIDs(cfg)...)
	if !g.envoy && !g.inside {
		if g.split, err = split.Open(cfg, g.log); err != nil {
			return err
		}
	}
	if g.data && !g.control {
		g.openLink()
	}
	if err := g.openModels(cfg); err != nil {
		return err
	}
	if g.module {
		if err := g.handOver(); err != nil {
			return err
		}
		if g.chain, err = payments.Serve(ctx, cfg, payments.Options{Chain: g.parts.Chain, Agents: g.parts.Agents, Stake: g.parts.Stake, Log: g.log}); err != nil {
			return err
		}
	}
	if g.data {
		if err := g.openData(ctx, cfg); err != nil {
			return err
		}
	}
	if g.control {
		if g.offered.cert, g.offered.key, err = g.home.Certificate(cfg); err != nil {
			return err
		}
		g.server = xds.NewServer(g.log, xds.Options{})
	}
	if g.module {
		g.openModuleFeed()
	}
	if g.controlPlaneOnly() {
		if err := g.openPlane(); err != nil {
			return err
		}
	}
	g.metrics.WatchConfig(func() bool { return g.configStatus().Problem() != "" })
	if g.envoy {
		g.child, err = g.newEnvoy(cfg)
	}
	return err
}

// isDurable reports whether an answer's last byte waits until its charge is committed to disk.
func isDurable(cfg *config.Config) bool { return cfg.Billing.Durability == "commit" }

// openData opens the stores, models and wallets that requests need, and the data path itself.
func (g *gateway) openData(ctx context.Context, cfg *config.Config) (err error) {
	alerts.Listen(&g.events, &g.alerts)
	if err := g.openLedger(ctx, cfg); err != nil {
		return err
	}
	keys, err := g.keys(ctx)
	if err != nil {
		return err
	}
	if err := g.directEvents(cfg); err != nil {
		return err
	}
	g.metrics.WatchEvents(g.events.Dropped)
	g.lists = settings.NewLists(g.home, g.log)
	g.answers = answers.Open(ctx, cfg, answers.Options{Home: g.home, Secret: g.layersSecret(cfg)(), Embedder: g.usedModels().Embedder(), Metrics: g.metrics, Log: g.log})
	used := g.usedModels()
	g.vectors = localembed.New(used.About(manifest.Embedding), used.Measurer())
	sessions, err := g.openSessions(ctx, cfg)
	if err != nil {
		return err
	}
	keeper, err := g.openAttestations()
	if err != nil {
		return err
	}
	if err := g.openWallets(ctx, cfg); err != nil {
		return err
	}
	rt, err := g.assemble(cfg)
	if err != nil {
		return err
	}
	g.runtime = rt
	g.metrics.SetModels(modelIDs(rt))
	if g.limiter, err = limits.Open(ctx, limits.Options{Config: cfg, Secret: g.layersSecret(cfg), Spent: g.books.SpentSince, Budgets: g.books.SpentOf, Metrics: g.metrics, Log: g.log}); err != nil {
		return err
	}
	if g.payments, err = payments.Open(ctx, cfg, payments.Options{Home: g.home, Chain: g.parts.Chain, Socket: g.sockets.chain, Ledger: g.books, Events: &g.events, Log: g.log}); err != nil {
		return fmt.Errorf("billing.x402: %w", err)
	}
	if g.payments != nil {
		g.metrics.WatchLosses(g.payments.Losses)
	}
	if err := g.openIdentities(ctx, cfg, sessions); err != nil {
		return err
	}
	g.gate = extproc.New(rt, extproc.Deps{
		Payments: g.payments.Taker(), Sessions: sessions, Memory: g.memory, Verifier: g.identities.Verifiers(withSessionKeys(g.parts.Verifiers(keys), sessions)),
		Limiter: g.limiter.Limiter, Ledger: g.books, Answers: g.answers.Answers, Semantic: g.answers.Questions, Health: healthView{g.tracker, g.link},
		Metrics: g.metrics, Attestations: keeper, Deferred: g.newDeferred(cfg, sessions), Governor: governor.New(governorSeed), Secret: g.layersSecret(cfg),
		Identities: g.identities.Links(), MCPTokens: g.mcpTokens, Pages: g.dashboard(keys), Log: g.log, Egress: g.egress(), Listener: g.listener(), Version: cli.Version,
		Draining: func() bool { return g.draining.Load() || !g.ready.Load() }, Checks: g.checks, Finished: &g.finished, Events: &g.events,
	})
	g.metrics.WatchBodies(g.gate.BodyBytes)
	return g.openDeferred(ctx)
}

// openWallets opens the wallets that the gateway pays providers from, and staking.
func (g *gateway) openWallets(ctx context.Context, cfg *config.Config) (err error) {
	if g.wallet, err = wallet.Open(wallet.Options{
		Home: g.home, Config: g.cfg.Load, Ledger: g.books, Egress: cmp.Or(g.listener(), g.egress()), Secret: g.egressSecret,
		Prober: func() *probe.Client { return g.gate.Prober() }, Events: &g.events, Metrics: g.metrics, Changed: g.listsChanged, Log: g.log,
	}); err != nil {
		return err
	}
	g.stake = staking.New(staking.Options{
		Home: g.home, Config: g.cfg.Load, Open: g.openStake(), Cluster: veniceCluster, Egress: cmp.Or(g.listener(), g.egress()), Secret: g.egressSecret, Events: &g.events, Changed: g.listsChanged, Log: g.log,
	})
	if g.wallets, err = onchain.Open(ctx, g.home, cfg, g.log); err != nil {
		return err
	}
	if g.wallets != nil {
		g.metrics.WatchPayments(g.wallets.AtRisk)
	}
	return nil
}

// openLedger opens the ledger and exports its state as metrics.
func (g *gateway) openLedger(ctx context.Context, cfg *config.Config) (err error) {
	if g.books, err = g.home.OpenLedgerWith(ctx, cfg, ledger.Options{
		Gateway: true, Durable: isDurable(cfg), Log: g.log, Committed: g.metrics.LedgerCommitted, Outage: func(o ledger.Outage) { notice.Outage(&g.events, o) },
	}); err != nil {
		return err
	}
	g.store = control.StoreID(cfg.Store.LedgerName(string(g.home)))
	g.metrics.WatchLedger(func() (writable bool, unwritten int) {
		return g.books.Writable() == nil, g.books.Unwritten().Charges
	})
	g.metrics.WatchHolds(func() (int, int64) {
		open, held := g.books.Holds()
		return open, int64(held)
	})
	return nil
}

// governorSeed is fixed so that the governor's choices are a deterministic function of the requests.
const governorSeed = 1

// egress returns the client for calls that exchanges make themselves: through Envoy's egress listener, or through Envoy's clusters if the data path is in its
// process.
func (g *gateway) egress() *http.Client {
	c := upstream.NewEgressClient(g.sockets.egress)
	if g.calls != nil {
		c.Transport = g.calls
	}
	return c
}

// listener returns a client of the egress listener if egress uses another path; else nil.
func (g *gateway) listener() *http.Client {
	if g.calls == nil {
		return nil
	}
	return upstream.NewEgressClient(g.sockets.egress)
}

func (g *gateway) newEnvoy(cfg *config.Config) (*envoy.Process, error) {
	path, err := home.EnvoyBinary()
	if err != nil {
		return nil, err
	}
	c := envoy.Command{
		Path: path, Dir: g.sockets.dir, Log: g.log, LogLevel: "warning", DrainTime: cfg.Listen.Drain,
		Bootstrap: envoy.Options{XDS: state.Peer{Address: g.sockets.xds}, AdminTCP: settings.Address(cfg.Listen.EnvoyAdmin)},
	}
	g.moduleCommand(&c)
	return envoy.NewProcess(c)
}

// run starts the servers, waits until everything serves, announces it, and drains once ctx is done.
func (g *gateway) run(ctx context.Context, out io.Writer) error {
	// The servers outlive ctx, since they drain first.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	info, err := g.listen(serving, group)
	if err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	failed := make(chan error, 1)
	go func() { failed <- group.Wait() }()
	err = g.awaitReady(ctx, failed, &info)
	switch {
	case ctx.Err() != nil:
		err = nil // stopped before it was ready
	case err == nil:
		err = g.announce(ctx, info, out, failed)
	}
	stop()
	err = errors.Join(err, <-failed)
	if e := g.ending.Load(); e != nil {
		g.awaitCharges(e)
	}
	return err
}

// startTime bounds how long Envoy may take to become ready.
const startTime = time.Minute

// awaitReady waits until Envoy serves the first configuration, and records its addresses in info.
func (g *gateway) awaitReady(ctx context.Context, failed chan error, info *home.RunInfo) error {
	if g.link != nil {
		return g.awaitLink(ctx, failed)
	}
	if !g.envoy {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- errors.Join(g.child.Ready(ctx), g.server.Applied(ctx)) }()
	select {
	case err := <-failed:
		failed <- nil
		return fmt.Errorf("the gateway did not start: %w", err)
	case err := <-ready:
		if err != nil {
			return err
		}
	}
	if g.module {
		if err := g.inEnvoy.CheckVersion(ctx); err != nil {
			return err
		}
	}
	return g.readAddresses(ctx, info)
}

// readAddresses sets the addresses that Envoy listens on in info.
func (c *connections) readAddresses(ctx context.Context, info *home.RunInfo) error {
	at, err := c.child.Addresses(ctx)
	if err != nil {
		return err
	}
	info.HTTP, info.HTTPS = at[snapshot.ListenerHTTP], at[snapshot.ListenerHTTPS]
	return nil
}

// relistenTime is how long after a reload Envoy may still be opening changed listeners.
const relistenTime = 5 * time.Second

// updateRunInfo keeps run.json up to date until ctx is done: a restarted Envoy, or changed listeners, may have new ports.
func (g *gateway) updateRunInfo(ctx context.Context, info home.RunInfo) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var until time.Time
	for seen := int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-g.addressesChanged:
			until = time.Now().Add(relistenTime)
		case <-tick.C:
		}
		n := g.child.Restarts()
		if n == seen && time.Now().After(until) {
			continue
		}
		before := info
		if g.child.Ready(ctx) != nil || g.readAddresses(ctx, &info) != nil {
			continue
		}
		seen = n
		if info == before {
			continue
		}
		if _, err := g.home.Announce(home.RunFile, info); err != nil {
			g.log.Error("run.json was not rewritten", "error", err)
		}
	}
}

// startupTime is how long startup work lasts. Until then package early sets the heap growth.
const startupTime = 500 * time.Millisecond

// afterStartup calls f once startup is over, unless ctx is done before.
func afterStartup(ctx context.Context, f func()) {
	t := time.AfterFunc(startupTime, guard.Func(f))
	context.AfterFunc(ctx, func() { t.Stop() })
}

// announce prints the greeting, writes the run file, serves until the program is stopped, and drains.
func (g *gateway) announce(ctx context.Context, info home.RunInfo, out io.Writer, failed chan error) error {
	greeting, err := g.greeting(ctx, info)
	if err != nil {
		return err
	}
	g.ready.Store(true)
	if _, err := io.WriteString(out, greeting); err != nil { // before run.json: a script that waits for that file finds the key already printed
		g.log.Warn("the greeting could not be printed", "error", err)
	}
	file := home.RunFile
	if g.controlPlaneOnly() {
		file = home.PlaneFile
	}
	withdraw, err := g.home.Announce(file, info)
	if err != nil {
		return err
	}
	defer withdraw()
	afterStartup(ctx, func() {
		settings.TuneGC(g.cfg.Load(), false)
		startpages.Drop(startpages.ProgramFile)
	})
	if g.envoy {
		following, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { g.updateRunInfo(following, info) })
		defer done.Wait()
		defer stop()
	}
	select {
	case err := <-failed:
		failed <- nil
		return err
	case <-ctx.Done():
		<-g.stopping
		g.drain(g.ending.Load())
		return nil
	}
}

// sockets are the addresses by which the gateway's processes reach each other on this machine.
type sockets struct{ dir, extproc, xds, egress, demo, control, plane, models, chain, realtime string }

// openSockets sets the socket paths. With Envoy as a child process they are in a directory of this run; in a split gateway they are where the configuration
// says, or in the directory of extproc.listen.
func (g *gateway) openSockets(cfg *config.Config) (remove func(), err error) {
	if g.envoy {
		dir, remove, err := g.home.RunDir()
		if err != nil {
			return nil, err
		}
		in := func(name string) string { return filepath.Join(dir, name+".sock") }
		g.sockets = sockets{dir: dir, extproc: in("extproc"), xds: in("xds"), egress: in("egress"), demo: in("demo"), control: in("control"), models: in("models"), chain: in("chain"), realtime: in("realtime")}
		g.secret = rand.Text()
		return remove, nil
	}
	if g.sockets, err = splitSockets(g.home, cfg); err != nil {
		return nil, err
	}
	if path, ok := cfg.Extproc.Listen.Unix(); ok {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("extproc.listen: %w", err)
		}
	}
	return func() {}, nil
}

// splitSockets are the sockets of a split gateway: extproc.listen, and the others in the same directory.
func splitSockets(h home.Dir, cfg *config.Config) (sockets, error) {
	at := cmp.Or(string(cfg.Extproc.Listen), "unix://"+h.Path("extproc.sock"))
	dir := string(h)
	if path, ok := cfg.Extproc.Listen.Unix(); ok {
		dir = filepath.Dir(path)
	}
	if len(dir) > home.MaxSocketPath {
		return sockets{}, fmt.Errorf("%s is too long a path for sockets: name a shorter one in extproc.listen", dir)
	}
	in := func(name string) string { return filepath.Join(dir, name+".sock") }
	return sockets{
		dir: dir, extproc: at, xds: string(cfg.XDS.Listen), egress: in("egress"), demo: in("demo"), control: in("control"), realtime: in("realtime"), plane: h.Path("xds-control.sock"),
	}, nil
}
