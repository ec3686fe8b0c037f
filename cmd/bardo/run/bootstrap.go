package run

import (
	"os"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run/split"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
)

// BootstrapCommand is `bardo bootstrap`.
func BootstrapCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "bootstrap", Short: "Print the bootstrap for an Envoy that is run separately", Args: cli.NoArgs,
		Long: "Print the bootstrap for an Envoy that is run separately, on the same machine as its `bardo extproc`:\n" +
			"  bardo bootstrap -c FILE > envoy.json; envoy -c envoy.json --disable-hot-restart\n" +
			"That Envoy finds the control plane at xds.address, or xds.listen, and sends it its local settings: listen.http, listen.https, the sockets\n" +
			"of its sidecar, and its name, extproc.node. With TLS, files in $BARDO_HOME name the certificate's files, so that Envoy reads\n" +
			"these again when they are replaced. Its admin interface is $BARDO_HOME/envoy-admin.sock.",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			cfg, _, err := settings.ForStart(c, h)
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
	settings.Flag(c)
	return c
}

func bootstrap(h home.Dir, cfg *config.Config) ([]byte, error) {
	if cfg.DataPath == config.DataPathModule {
		return nil, errModuleSplit
	}
	peer, err := split.PlanePeer(h, cfg)
	if err != nil {
		return nil, err
	}
	at, err := splitSockets(h, cfg)
	if err != nil {
		return nil, err
	}
	o := envoy.Options{
		Node: split.LocalNode(h, cfg, split.Sockets{Extproc: at.extproc, Egress: at.egress, Demo: at.demo, Realtime: at.realtime}), XDS: peer,
		AdminSocket: h.Path("envoy-admin.sock"), AdminTCP: settings.Address(cfg.Listen.EnvoyAdmin),
	}
	files, err := split.SecretFiles(cfg)
	if err != nil {
		return nil, err
	}
	for name, b := range files {
		if err := os.WriteFile(h.Path(name), b, 0o600); err != nil {
			return nil, err
		}
	}
	return envoy.Bootstrap(o)
}
