package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/doctor"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run/module"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/feed"
	"bardo.money/gateway/xds/state"
)

// With data_path: module the gateway is two processes: this program, and its Envoy with the data path inside (inside.go). This program configures Envoy and
// the data path, tracks the health of providers, and serves operators. Both use the run directory: this program writes two files there that the data path
// reads at each start, including after a crash of Envoy, and the data path listens on a socket there.

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
	g.inEnvoy = module.New(library, g.sockets.dir, g.log)
	return g.inEnvoy.SaveConfig(data)
}

// handOver writes the handover file.
func (g *gateway) handOver() error {
	h := module.Handover{
		Version: cli.Version, PID: os.Getpid(), Home: g.home, Started: g.started, ConfigPath: g.configPath, Secret: g.secret,
		LogText: logsText(g.cfg.Load(), g.errOut), Inherits: len(g.inherited()) > 0, Models: g.aboutModels(),
	}
	return h.Write(g.sockets.dir)
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
	c.Env = []string{envoy.ModuleVariable + "=" + g.inEnvoy.Folder()}
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
	n := state.Node{HTTP: httpAt, HTTPS: httpsAt, EgressSocket: g.sockets.egress, DemoSocket: g.sockets.demo, RealtimeSocket: g.sockets.realtime, ExtProc: g.sockets.extproc}
	if g.module {
		n.ExtProc = ""
	}
	return n
}
