package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/xds/state"
)

func bootstrapCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "bootstrap", Short: "Print the bootstrap for an Envoy that is run separately", Args: cobra.NoArgs,
		Long: "Print the bootstrap for an Envoy that is run separately, on the same machine as `bardo xds` and `bardo extproc`:\n" +
			"  bardo bootstrap -c FILE > envoy.json; envoy -c envoy.json\n" +
			"That Envoy finds the control plane at xds.listen. Its admin interface is $BARDO_HOME/envoy-admin.sock.",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := openHome()
			if err != nil {
				return err
			}
			cfg, _, err := configured(c, h)
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
	at := string(cfg.XDS.Listen)
	if at == "" || strings.HasSuffix(at, ":0") {
		return nil, fmt.Errorf("xds.listen %q: a separately run Envoy needs a fixed address of the control plane", at)
	}
	if cfg.XDS.TLS.Cert != "" {
		return nil, errors.New("xds.tls: the parts of a split gateway speak in clear text, on one machine; leave it out")
	}
	return envoy.Bootstrap(envoy.Options{
		XDS:         state.Peer{Address: at},
		AdminSocket: h.path("envoy-admin.sock"),
		AdminTCP:    address(cfg.Listen.EnvoyAdmin),
	})
}
