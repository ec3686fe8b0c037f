package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/extproc"
	"bardo.money/gateway/extproc/provider/demo"
	"bardo.money/gateway/xds"
)

// listen starts every server of this process's roles in group, Envoy last.
func (g *gateway) listen(ctx context.Context, group *errgroup.Group) (runInfo, error) {
	info := runInfo{PID: os.Getpid(), Control: g.sockets.control}
	on := func(address string, serve func(net.Listener) error) error {
		l, err := xds.Listen(ctx, address)
		if err != nil {
			return err
		}
		group.Go(func() error { return serve(l) })
		return nil
	}
	if g.data {
		admin, err := (&net.ListenConfig{}).Listen(ctx, "tcp", string(g.cfg.Load().Listen.Admin))
		if err != nil {
			return info, fmt.Errorf("listen.admin: %w", err)
		}
		info.Admin = admin.Addr().String()
		group.Go(func() error { return serveHTTP(ctx, admin, g.adminHandler()) })
		err = errors.Join(
			on(g.sockets.control, func(l net.Listener) error { return serveHTTP(ctx, l, g.controlHandler()) }),
			on(g.sockets.demo, func(l net.Listener) error { return serveHTTP(ctx, l, demo.NewServer()) }),
			on(g.sockets.extproc, func(l net.Listener) error { return extproc.Serve(ctx, g.gate, l) }),
		)
		if err != nil {
			return info, err
		}
	}
	if g.control {
		if err := on(g.sockets.xds, func(l net.Listener) error { return g.server.Serve(ctx, l, nil) }); err != nil {
			return info, err
		}
	}
	if err := g.push(ctx); err != nil {
		return info, err
	}
	if g.envoy {
		group.Go(func() error { return g.child.Run(ctx) })
	}
	group.Go(func() error { return g.watchHealth(ctx) })
	group.Go(func() error { return g.watchConfig(ctx) })
	return info, nil
}
