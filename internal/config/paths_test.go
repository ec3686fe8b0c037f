package config_test

import (
	"regexp"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
)

// pathRow is a configuration with one key whose value is, or may be, a path; PATH stands for it.
type pathRow struct {
	key, file string
	value     func(*config.Config) string
	scheme    string
}

var pathRows = []pathRow{
	{"listen.tls.cert", "listen: {tls: {cert: PATH, key: /k.pem}}", func(c *config.Config) string { return c.Listen.TLS.Cert }, ""},
	{"listen.tls.key", "listen: {tls: {cert: /c.pem, key: PATH}}", func(c *config.Config) string { return c.Listen.TLS.Key }, ""},
	{"xds.tls.cert", "xds: {tls: {cert: PATH, key: /k.pem, ca: /a.pem}}", func(c *config.Config) string { return c.XDS.TLS.Cert }, ""},
	{"xds.tls.key", "xds: {tls: {cert: /c.pem, key: PATH, ca: /a.pem}}", func(c *config.Config) string { return c.XDS.TLS.Key }, ""},
	{"xds.tls.ca", "xds: {tls: {cert: /c.pem, key: /k.pem, ca: PATH}}", func(c *config.Config) string { return c.XDS.TLS.CA }, ""},
	{"extproc.tls.cert", "extproc: {tls: {cert: PATH, key: /k.pem, ca: /a.pem}}", func(c *config.Config) string { return c.Extproc.TLS.Cert }, ""},
	{"extproc.tls.key", "extproc: {tls: {cert: /c.pem, key: PATH, ca: /a.pem}}", func(c *config.Config) string { return c.Extproc.TLS.Key }, ""},
	{"extproc.tls.ca", "extproc: {tls: {cert: /c.pem, key: /k.pem, ca: PATH}}", func(c *config.Config) string { return c.Extproc.TLS.CA }, ""},
	{"providers.ca_file", "providers: {ca_file: PATH}", func(c *config.Config) string { return c.Providers.CAFile }, ""},
	{"models.catalog", "models: {catalog: PATH}", func(c *config.Config) string { return c.Models.Catalog }, ""},
	{"models.dir", "models: {dir: PATH}", func(c *config.Config) string { return c.Models.Dir }, ""},
	{"models.runtime", "models: {runtime: PATH}", func(c *config.Config) string { return c.Models.Runtime }, ""},
	{"pipeline.defi.facts", "pipeline: {defi: {facts: PATH}}", func(c *config.Config) string { return c.Pipeline.DeFi.Facts }, ""},
	{"store.cache_ca", "store: {cache: rediss://h, cache_ca: PATH}", func(c *config.Config) string { return c.Store.CacheCA }, ""},
	{"store.limits_ca", "store: {limits: rediss://h, limits_ca: PATH}", func(c *config.Config) string { return c.Store.LimitsCA }, ""},
	{"store.ledger", "store: {ledger: PATH}", func(c *config.Config) string { return string(c.Store.Ledger) }, "sqlite://"},
	{"store.cache", "store: {cache: PATH}", func(c *config.Config) string { return c.Store.Cache }, "sqlite://"},
	{"telemetry.events", "telemetry: {events: PATH}", func(c *config.Config) string { return c.Telemetry.Events }, "file:"},
	{"extproc.listen", "extproc: {listen: PATH}", func(c *config.Config) string { return string(c.Extproc.Listen) }, "unix://"},
	{"extproc.address", "extproc: {address: PATH}", func(c *config.Config) string { return string(c.Extproc.Address) }, "unix://"},
	{"xds.listen", "xds: {listen: PATH}", func(c *config.Config) string { return string(c.XDS.Listen) }, "unix://"},
	{"xds.address", "xds: {address: PATH}", func(c *config.Config) string { return string(c.XDS.Address) }, "unix://"},
}

// TestRelativePathsAreBesideTheFile, whatever the working directory is; absolute ones, and those in $BARDO_HOME, stay.
func TestRelativePathsAreBesideTheFile(t *testing.T) {
	for _, row := range pathRows {
		paths := map[string]string{"own/a.x": "/etc/bardo/own/a.x", "../a.x": "/etc/a.x", "./a.x": "/etc/bardo/a.x", "/abs/a.x": "/abs/a.x"}
		if row.scheme == "sqlite://" {
			paths["$BARDO_HOME/a.x"] = "$BARDO_HOME/a.x"
		}
		for path, want := range paths {
			cfg, problems := config.Parse("/etc/bardo/config.yaml", []byte(strings.ReplaceAll(row.file, "PATH", `"`+row.scheme+path+`"`)), variables(), kinds...)
			if cfg == nil {
				t.Errorf("%s: %s", row.key, lines(problems))
				continue
			}
			if got := row.value(cfg); got != row.scheme+want {
				t.Errorf("%s: %s%s is %s, want %s%s", row.key, row.scheme, path, got, row.scheme, want)
			}
		}
	}
}

// TestOtherPlacesAreNoPaths: values of the same keys that are no paths stay.
func TestOtherPlacesAreNoPaths(t *testing.T) {
	cfg, problems := config.Parse("/etc/bardo/config.yaml", []byte(`
store: {ledger: "postgres://u@h/db", cache: "redis://h"}
telemetry: {events: stdout}
xds: {listen: "127.0.0.1:1"}
audit: {file: audit.jsonl}
`), variables(), kinds...)
	if cfg == nil {
		t.Fatal(lines(problems))
	}
	if got := []string{string(cfg.Store.Ledger), cfg.Store.Cache, cfg.Telemetry.Events, string(cfg.XDS.Listen), cfg.Audit.File}; strings.Join(got, " ") !=
		"postgres://u@h/db redis://h stdout 127.0.0.1:1 audit.jsonl" { // the last one is in the state directory
		t.Errorf("%q", got)
	}
}

// TestEveryPathIsInTheTable: each key that is described as a file, folder or socket is in the table, except those in the state directory and a refused one.
func TestEveryPathIsInTheTable(t *testing.T) {
	described := regexp.MustCompile(`(?i)\b(PEM )?file (with|of|on|that)\b|^Directory|library that|:/+path|sqlite://|Envoy reaches|reach the control plane`)
	others := map[string]bool{"listen.tls.client_ca": true, "audit.file": true, "telemetry.prompts.file": true, "store.limits": true, "telemetry.prompts.max_age": true}
	known := map[string]bool{}
	for _, row := range pathRows {
		known[row.key] = true
	}
	for _, f := range config.Schema(kinds...) {
		if described.MatchString(f.Doc) && !known[f.Key] && !others[f.Key] {
			t.Errorf("%s (%s) is not in the table", f.Key, f.Doc)
		}
	}
}
