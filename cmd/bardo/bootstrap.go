package main

import (
	"os"

	"github.com/spf13/cobra"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
)

func bootstrapCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "bootstrap", Short: "Print the bootstrap for an Envoy that is run separately", Args: noArgs,
		Long: "Print the bootstrap for an Envoy that is run separately, on the same machine as its `bardo extproc`:\n" +
			"  bardo bootstrap -c FILE > envoy.json; envoy -c envoy.json --disable-hot-restart\n" +
			"That Envoy finds the control plane at xds.address, or xds.listen, and tells it what is local to it: listen.http, listen.https, the sockets\n" +
			"of its sidecar, and its name, extproc.node. With TLS, files in $BARDO_HOME name the certificate's files, so that Envoy reads\n" +
			"these again when they are replaced. Its admin interface is $BARDO_HOME/envoy-admin.sock.",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := openHome()
			if err != nil {
				return err
			}
			cfg, _, err := configuredHere(c, h)
			if err != nil {
				return err
			}
			b, err := bootstrap(h, cfg)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(b)
			return err
		},
	}
	configFlag(c)
	return c
}

func bootstrap(h home, cfg *config.Config) ([]byte, error) {
	peer, err := planePeer(h, cfg)
	if err != nil {
		return nil, err
	}
	at, err := splitSockets(h, cfg)
	if err != nil {
		return nil, err
	}
	o := envoy.Options{
		Node: localNode(h, cfg, at), XDS: peer,
		AdminSocket: h.path("envoy-admin.sock"), AdminTCP: address(cfg.Listen.EnvoyAdmin),
	}
	files, err := secretFiles(cfg)
	if err != nil {
		return nil, err
	}
	for name, b := range files {
		if err := os.WriteFile(h.path(name), b, 0o600); err != nil {
			return nil, err
		}
	}
	return envoy.Bootstrap(o)
}
