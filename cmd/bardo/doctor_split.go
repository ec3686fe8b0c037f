package main

import (
	"context"
	"log/slog"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtls"
)

// isPlane tells whether this state is that of a control plane alone, which has neither Envoy nor ledger: it runs, or the
// configuration has a control plane for other machines and no pair.
func isPlane(ctx context.Context, h home, cfg *config.Config) bool {
	if _, gateway := h.answering(ctx); gateway {
		return false
	}
	if _, plane := h.answeringAs(ctx, planeFile); plane {
		return true
	}
	return xdsSecured(cfg) && cfg.XDS.Address == "" && cfg.Extproc.Node == "" && cfg.Extproc.Listen == ""
}

// checkPlanePorts tries the addresses of a control plane that runs alone.
func checkPlanePorts(ctx context.Context, h home, cfg *config.Config) []finding {
	r, running := h.answeringAs(ctx, planeFile)
	var found []finding
	if _, unix := cfg.XDS.Listen.Unix(); !unix {
		found = append(found, checkPort(ctx, "xds.listen", string(cfg.XDS.Listen), running && samePort(r.XDS, string(cfg.XDS.Listen))))
	}
	if at := address(cfg.XDS.Admin); at != "" {
		found = append(found, checkPort(ctx, "xds.admin", at, running && samePort(r.Admin, at)))
	}
	return found
}

// checkPeers looks at the certificates of the parts of a split gateway. On the control plane's machine xds.tls is for the control plane's
// name, on a pair's for its node: it is known by xds.address.
func checkPeers(cfg *config.Config, now time.Time) []finding {
	node := nodeName(cfg)
	plane := node
	if cfg.XDS.Address == "" {
		plane = cfg.XDS.Name
	}
	var found []finding
	if xdsSecured(cfg) {
		found = append(found, checkPeer("xds.tls", cfg.XDS.TLS, plane, now))
	}
	if extprocSecured(cfg) {
		found = append(found, checkPeer("extproc.tls", cfg.Extproc.TLS, node, now))
	}
	return found
}

// checkPeer looks at one certificate, and at the name in it unless that is not known.
func checkPeer(check string, f config.PeerTLS, name string, now time.Time) finding {
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
