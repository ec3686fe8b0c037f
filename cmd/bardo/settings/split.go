package settings

import (
	"cmp"
	"os"
	"regexp"
	"strings"

	"bardo.money/gateway/internal/config"
)

// XDSSecured reports whether the control plane's connections are under TLS. A Unix socket needs none.
func XDSSecured(cfg *config.Config) bool {
	_, unix := cfg.XDS.At().Unix()
	return !unix && cfg.XDS.TLS.Enabled()
}

// ExtprocSecured reports the same of the connection between Envoy and sidecar.
func ExtprocSecured(cfg *config.Config) bool {
	_, unix := cfg.Extproc.Listen.Unix()
	return !unix && cfg.Extproc.Listen != "" && cfg.Extproc.TLS.Enabled()
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// NodeName is what the configuration says, or what can be used of the host's name.
func NodeName(cfg *config.Config) string {
	if cfg.Extproc.Node != "" {
		return cfg.Extproc.Node
	}
	host, _ := os.Hostname() // a host without a name is still a gateway
	host = notInNames.ReplaceAllString(host, "-")
	return cmp.Or(strings.Trim(host[:min(len(host), 63)], ".-"), "gateway")
}
