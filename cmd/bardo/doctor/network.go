package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/state"
)

// Ports tries to listen on each configured address. An address that the running gateway uses passes; r is zero if none runs.
func Ports(ctx context.Context, r home.RunInfo, cfg *config.Config) []Finding {
	ports := []struct {
		key   string
		at    string
		known string // address that the running gateway uses; "" if unknown, because its Envoy is run separately
	}{
		{"listen.http", settings.Address(cfg.Listen.HTTP), r.HTTP},
		{"listen.https", settings.Address(cfg.Listen.HTTPS), r.HTTPS},
		{"listen.admin", settings.Address(cfg.Listen.Admin), r.Admin},
		{"listen.envoy_admin", settings.Address(cfg.Listen.EnvoyAdmin), ""},
	}
	var found []Finding
	for _, p := range ports {
		if p.at == "" {
			continue
		}
		found = append(found, checkPort(ctx, p.key, p.at, r.PID != 0 && samePort(cmp.Or(p.known, p.at), p.at), p.known))
	}
	return found
}

func samePort(a, b string) bool {
	_, pa, errA := net.SplitHostPort(a)
	_, pb, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && pa == pb
}

// checkPort tries to listen on an address. ours: the running gateway listens there. used is the running gateway's address; "" if there is none or it is
// unknown.
func checkPort(ctx context.Context, key, at string, ours bool, used string) Finding {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && ours:
		return pass(key, "%s, used by the gateway that runs", at)
	case errors.Is(err, syscall.EADDRINUSE):
		advice := "stop that program, or set " + key + " to another port in the configuration"
		if key == "listen.http" {
			advice += ", or start with --port"
		}
		return fail(key, advice, "%s is in use by another program", at)
	case errors.Is(err, syscall.EACCES):
		return fail(key, "set "+key+" to a port above 1023, or allow this program to use lower ones", "%s is not allowed to this user", at)
	case err != nil:
		return fail(key, "set "+key+" to an address of this machine", "%v", err)
	}
	_ = l.Close()
	switch {
	case strings.HasSuffix(at, ":0"):
		return pass(key, "%s, any free port", at)
	case used != "":
		return pass(key, "%s is free; the gateway that runs uses %s", at, used)
	}
	return pass(key, "%s is free", at)
}

// expiryWarning is how long before its expiry a certificate fails the check.
const expiryWarning = 7 * 24 * time.Hour

func checkCertificate(cfg *config.Config, now time.Time) Finding {
	const check = "listen.tls"
	switch {
	case settings.Address(cfg.Listen.HTTPS) == "":
		return pass(check, "not needed: listen.https is off")
	case cfg.Listen.TLS.Cert == "":
		return pass(check, "a development certificate is generated")
	}
	pair, err := tls.LoadX509KeyPair(cfg.Listen.TLS.Cert, cfg.Listen.TLS.Key)
	if err != nil {
		return fail(check, "name PEM files of a certificate and its key", "%s and %s: %v", cfg.Listen.TLS.Cert, cfg.Listen.TLS.Key, err)
	}
	if err := home.UsableKey(pair.Leaf); err != nil {
		return fail(check, "issue the certificate for another key", "%s: %v", cfg.Listen.TLS.Cert, err)
	}
	if end := pair.Leaf.NotAfter; end.Before(now.Add(expiryWarning)) {
		return fail(check, "renew the certificate", "%s ends on %s", cfg.Listen.TLS.Cert, end.Format(time.DateOnly))
	}
	return pass(check, "%s", cfg.Listen.TLS.Cert)
}

// checkProviders checks the providers' configuration, and their state in the running gateway, if there is one.
func checkProviders(ctx context.Context, h home.Dir, cfg *config.Config) []Finding {
	var states []control.Provider
	_ = control.DoAtPlane(ctx, h, http.MethodGet, "/providers", &states) // fails if no gateway runs: their state is unknown then
	live := map[policy.ProviderID]control.Provider{}
	for _, s := range states {
		live[s.Provider] = s
	}
	var found []Finding
	for _, p := range cfg.Enabled() {
		found = append(found, checkProvider(p, live[p.ID]))
	}
	return found
}

// checkProvider checks one provider; s is zero if no gateway runs.
func checkProvider(p config.Provider, s control.Provider) Finding {
	check := "provider " + string(p.ID)
	if p.Kind == config.KindDemo {
		return pass(check, "no provider is configured, so the built-in demo provider answers; OPENAI_API_KEY or ANTHROPIC_API_KEY enables a real one")
	}
	hosts := make([]string, len(p.Endpoints))
	for i, u := range p.Endpoints {
		if _, err := state.ParseEndpoint(u.String()); err != nil {
			return fail(check, "correct its address in the configuration", "%v", err)
		}
		hosts[i] = u.String()
	}
	sent := p.Key.Reveal()
	if p.Region != "" {
		sent = strings.ReplaceAll(sent, " ", "") // the parts of AWS credentials, which the configuration has checked
	}
	if strings.ContainsFunc(sent, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fail(check, "copy its API key again", "its API key holds white space or another character that no header may carry")
	}
	where := strings.Join(hosts, ", ")
	key := "with a key"
	if !p.Key.IsSet() {
		key = "without a key"
	}
	switch health.State(s.State) { //nolint:exhaustive // the other states pass
	case health.CredentialRefused:
		return fail(check, p.KeyAdvice(), "%s, %s, refuses the credential: %s", where, key, s.Reason)
	case health.Down:
		return fail(check, "look at its address, its key and the network", "%s, %s, does not work: %s", where, key, cmp.Or(s.Reason, "too many errors"))
	}
	return pass(check, "%s, %s, %s", where, key, cmp.Or(s.State, control.NotRunning))
}

// checkRoots checks the certificate authorities that providers' certificates are verified with.
func checkRoots(cfg *config.Config) Finding {
	const check = "certificate authorities"
	encrypted := func(p config.Provider) bool { return slices.ContainsFunc(p.Endpoints, config.URL.TLS) }
	if !slices.ContainsFunc(cfg.Enabled(), encrypted) {
		return pass(check, "not needed: no provider is reached over https")
	}
	path, advice := state.DefaultCAPath, "install the package ca-certificates again"
	if own := cfg.Providers.CAFile; own != "" {
		path, advice = own, "correct providers.ca_file"
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return fail(check, advice, "%v", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fail(check, advice, "%s holds no certificate", path)
	}
	return pass(check, "%s", path)
}
