package settings

import (
	"cmp"
	"os"
	"regexp"
	"strings"

	"bardo.money/gateway/internal/config"
)

// XDSSecured reports whether connections to the control plane use TLS. A Unix socket needs none.
func XDSSecured(cfg *config.Config) bool {
	_, unix := cfg.XDS.At().Unix()
	return !unix && cfg.XDS.TLS.Enabled()
}

// ExtprocSecured reports whether the connection between Envoy and sidecar uses TLS.
func ExtprocSecured(cfg *config.Config) bool {
	_, unix := cfg.Extproc.Listen.Unix()
	return !unix && cfg.Extproc.Listen != "" && cfg.Extproc.TLS.Enabled()
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// NodeName is the configured name, or one derived from the host name.
func NodeName(cfg *config.Config) string {
	if cfg.Extproc.Node != "" {
		return cfg.Extproc.Node
	}
	host, _ := os.Hostname() // a host may have no name
	host = notInNames.ReplaceAllString(host, "-")
	return cmp.Or(strings.Trim(host[:min(len(host), 63)], ".-"), "gateway")
}
