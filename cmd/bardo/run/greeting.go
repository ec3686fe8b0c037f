package run

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
)

// greeting is the text printed on start.
func (g *gateway) greeting(ctx context.Context, info home.RunInfo) (string, error) {
	cfg := g.cfg.Load()
	var b strings.Builder
	fmt.Fprintf(&b, "bardo %s is ready\n", cli.Version)
	if info.HTTP != "" {
		fmt.Fprintf(&b, "  http       http://%s\n", info.HTTP)
	}
	if info.HTTPS != "" {
		fmt.Fprintf(&b, "  https      https://%s\n", info.HTTPS)
	}
	if g.control && !g.envoy {
		fmt.Fprintf(&b, "  xds        %s\n", info.XDS)
	}
	if g.data && !g.envoy {
		fmt.Fprintf(&b, "  extproc    %s\n", g.sockets.extproc)
	}
	if g.controlPlaneOnly() && info.Admin != "" {
		fmt.Fprintf(&b, "  admin      http://%s/metrics\n", info.Admin)
	}
	if !g.data && !g.module {
		return b.String(), nil
	}
	if info.Admin != "" {
		fmt.Fprintf(&b, "  admin      http://%s/metrics\n", info.Admin)
	}
	if base := clientURL(cfg, info); base != "" && cfg.Listen.UI != "off" {
		fmt.Fprintf(&b, "  dashboard  %s/ui\n             log in with an API key, or with the operator's token in %s\n", base, tokenLocation(cfg, g.home))
	}
	fmt.Fprintf(&b, "  config     %s\n", cmp.Or(g.configPath, "built in: there is no file"))
	if g.module {
		b.WriteString("  data path  in Envoy's process (data_path: module)\n")
	}
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
	if base := clientURL(cfg, info); base != "" {
		fmt.Fprintf(&b, "\n  export OPENAI_BASE_URL=%s/v1 ANTHROPIC_BASE_URL=%[1]s\n", base)
	}
	return b.String(), nil
}

// tokenLocation says where the operator's token is.
func tokenLocation(cfg *config.Config, h home.Dir) string {
	if cfg.Listen.AdminToken.IsSet() {
		return "listen.admin_token"
	}
	return h.AdminTokenPath()
}

// clientURL is the base URL for clients; "" if the gateway has no listener for them.
func clientURL(cfg *config.Config, info home.RunInfo) string {
	switch {
	case cfg.Listen.PublicURL.Host != "":
		return strings.TrimSuffix(cfg.Listen.PublicURL.String(), "/")
	case info.HTTP != "":
		return "http://" + info.HTTP
	case info.HTTPS != "":
		return "https://" + info.HTTPS
	}
	return ""
}
