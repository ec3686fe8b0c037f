package doctor

import (
	"context"
	"log/slog"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtls"
)

// isPlane reports whether this state is that of a control plane alone, which has neither Envoy nor ledger: it runs, or the
// configuration has a control plane for other machines and no pair.
func isPlane(ctx context.Context, h home.Dir, cfg *config.Config) bool {
	if _, gateway := h.Answering(ctx); gateway {
		return false
	}
	if _, plane := h.AnsweringAs(ctx, home.PlaneFile); plane {
		return true
	}
	return settings.XDSSecured(cfg) && cfg.XDS.Address == "" && cfg.Extproc.Node == "" && cfg.Extproc.Listen == ""
}

// checkPlanePorts tries the addresses of a control plane that runs alone.
func checkPlanePorts(ctx context.Context, h home.Dir, cfg *config.Config) []Finding {
	r, running := h.AnsweringAs(ctx, home.PlaneFile)
	var found []Finding
	if _, unix := cfg.XDS.Listen.Unix(); !unix {
		found = append(found, checkPort(ctx, "xds.listen", string(cfg.XDS.Listen), running && samePort(r.XDS, string(cfg.XDS.Listen))))
	}
	if at := settings.Address(cfg.XDS.Admin); at != "" {
		found = append(found, checkPort(ctx, "xds.admin", at, running && samePort(r.Admin, at)))
	}
	return found
}

// checkPeers looks at the certificates of the parts of a split gateway. On the control plane's machine xds.tls is for the control plane's
// name, on a pair's for its node: it is known by xds.address.
func checkPeers(cfg *config.Config, now time.Time) []Finding {
	node := settings.NodeName(cfg)
	plane := node
	if cfg.XDS.Address == "" {
		plane = cfg.XDS.Name
	}
	var found []Finding
	if settings.XDSSecured(cfg) {
		found = append(found, checkPeer("xds.tls", cfg.XDS.TLS, plane, now))
	}
	if settings.ExtprocSecured(cfg) {
		found = append(found, checkPeer("extproc.tls", cfg.Extproc.TLS, node, now))
	}
	return found
}

// checkPeer looks at one certificate, and at the name in it unless that is not known.
func checkPeer(check string, f config.PeerTLS, name string, now time.Time) Finding {
	id, err := mtls.Load(mtls.Files(f), slog.New(slog.DiscardHandler))
	if err != nil {
		return broken(check, "name PEM files of a certificate, its key, and the authorities", "%v", err)
	}
	if err := id.Check(name); err != nil {
		return broken(check, "issue a certificate for the name that is expected, by one of the authorities in "+f.CA, "%v", err)
	}
	if end := id.End(); end.Before(now.Add(soon)) {
		return broken(check, "renew the certificate", "%s ends on %s", f.Cert, end.Format(time.DateOnly))
	}
	return fine(check, "%s", f.Cert)
}
