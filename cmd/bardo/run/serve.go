package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/doctor"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/provider/demo"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/models/remote"
	"bardo.money/gateway/xds"
)

// listen starts the servers of this process's roles in group, Envoy last.
func (g *gateway) listen(ctx context.Context, group *errgroup.Group) (home.RunInfo, error) {
	info := home.RunInfo{PID: os.Getpid(), Config: g.configPath, Control: g.sockets.control}
	if g.data || g.module {
		if err := g.listenData(ctx, group, &info); err != nil {
			return info, err
		}
	}
	if g.data {
		group.Go(func() error { return g.serveExtproc(ctx) })
		if err := listenOn(ctx, group, g.sockets.realtime, func(l net.Listener) error { return serveHTTP(ctx, l, http.HandlerFunc(g.gate.ServeRealtime)) }); err != nil {
			return info, err
		}
	}
	if g.controlPlaneOnly() {
		if err := g.listenPlane(ctx, group, &info); err != nil {
			return info, err
		}
	}
	if g.envoy {
		if err := listenOn(ctx, group, g.sockets.xds, func(l net.Listener) error { return g.serveChild(ctx, l) }); err != nil {
			return info, err
		}
	}
	if err := g.push(ctx); err != nil {
		return info, err
	}
	if g.envoy {
		group.Go(func() error { return g.child.Run(ctx) })
	}
	if g.data {
		g.runData(ctx, group)
	}
	if g.link != nil {
		group.Go(func() error {
			g.link.Run(ctx)
			return nil
		})
	}
	group.Go(func() error { return g.watchHealth(ctx) })
	group.Go(func() error { return g.watchConfig(ctx) })
	g.send(ctx, group)
	return info, nil
}

// listenOn listens on an address and runs serve in group.
func listenOn(ctx context.Context, group *errgroup.Group, address string, serve func(net.Listener) error) error {
	l, err := xds.Listen(ctx, address)
	if err != nil {
		return err
	}
	group.Go(func() error { return serve(l) })
	return nil
}

// listenData starts the admin listener, and the sockets of commands, the demo provider, models and chains.
func (g *gateway) listenData(ctx context.Context, group *errgroup.Group, info *home.RunInfo) error {
	if err := g.listenAdmin(ctx, group, "listen.admin", settings.Address(g.cfg.Load().Listen.Admin), info); err != nil {
		return err
	}
	on := func(address string, h http.Handler) error {
		return listenOn(ctx, group, address, func(l net.Listener) error { return serveHTTP(ctx, l, h) })
	}
	err := errors.Join(on(g.sockets.control, g.controlHandler()), on(g.sockets.demo, demo.NewServer()))
	if g.module && g.local != nil {
		err = errors.Join(err, on(g.sockets.models, remote.Handler(g.local)))
	}
	if g.chain != nil {
		err = errors.Join(err, on(g.sockets.chain, g.chain))
	}
	return err
}

// runData starts the data path's background tasks in group.
func (g *gateway) runData(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return g.releaseMemory(ctx) })
	group.Go(func() error { return g.watchLists(ctx) })
	group.Go(func() error { g.wallet.Run(ctx); return nil })
	group.Go(func() error { g.stake.Run(ctx); return nil })
	group.Go(func() error { return g.runDeferred(ctx) })
	group.Go(func() error { return g.watchSpending(ctx) })
	group.Go(guard.Again(ctx, func() error { return g.logPrompts(ctx) }))
}

// serveChild serves the Envoy of this process, and the data path in it, if any.
func (p *controlPlane) serveChild(ctx context.Context, l net.Listener) error {
	if p.feed == nil {
		return p.server.Serve(ctx, l, nil)
	}
	return p.server.Serve(ctx, l, nil, p.feed.Register)
}

// listenAdmin starts the admin listener, unless it is switched off.
func (g *gateway) listenAdmin(ctx context.Context, group *errgroup.Group, key, at string, info *home.RunInfo) error {
	if at == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if g.adminToken, err = g.home.AdminToken(); err != nil {
		return errors.Join(err, l.Close())
	}
	g.learnSecrets(g.cfg.Load())
	info.Admin = l.Addr().String()
	group.Go(func() error { return serveHTTP(ctx, l, g.adminHandler()) })
	return nil
}

// portWait is how long a gateway that was just stopped may still hold its ports.
const portWait = 2 * time.Second

// checkPortsFree reports which configured addresses are in use. Envoy would not report another Envoy there: both would share the port, and connections would
// reach either of them.
func checkPortsFree(ctx context.Context, cfg *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, portWait)
	defer cancel()
	retry := time.NewTicker(portWait / 20)
	defer retry.Stop()
	for {
		err := portErrors(context.WithoutCancel(ctx), cfg)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-retry.C:
		}
	}
}

func portErrors(ctx context.Context, cfg *config.Config) (err error) {
	for _, f := range doctor.Ports(ctx, home.RunInfo{}, cfg) {
		if !f.OK {
			err = errors.Join(err, fmt.Errorf("%s: %s: %s", f.Check, f.Detail, f.Fix))
		}
	}
	return err
}

// idleTime is how long there must have been no request before memory is returned to the operating system.
const idleTime = 10 * time.Second

// releaseMemory returns memory to the operating system once after startup and once after each period of load. The garbage collector by itself keeps the heap
// it had.
func (d *dataPath) releaseMemory(ctx context.Context) error {
	tick := time.NewTicker(idleTime)
	defer tick.Stop()
	var seen, released uint64 = 0, math.MaxUint64 // the startup heap is not released yet
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		served := d.gate.Served()
		if served == seen && served != released && d.gate.Live() == 0 {
			debug.FreeOSMemory()
			released = served
		}
		seen = served
	}
}
