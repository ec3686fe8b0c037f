package doctor

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtls"
)

// isPlane reports whether this state directory belongs to a control plane alone, without Envoy and ledger: it runs, or the configuration describes a control
// plane for other machines and no pair.
func isPlane(ctx context.Context, h home.Dir, cfg *config.Config) bool {
	if _, gateway := h.Answering(ctx); gateway {
		return false
	}
	if _, plane := h.AnsweringAs(ctx, home.PlaneFile); plane {
		return true
	}
	return settings.XDSSecured(cfg) && cfg.XDS.Address == "" && cfg.Extproc.Node == "" && cfg.Extproc.Listen == ""
}

// checkPlanePorts checks the addresses of a control plane that runs alone.
func checkPlanePorts(ctx context.Context, h home.Dir, cfg *config.Config) []Finding {
	r, running := h.AnsweringAs(ctx, home.PlaneFile)
	var found []Finding
	if _, unix := cfg.XDS.Listen.Unix(); !unix {
		found = append(found, checkPort(ctx, "xds.listen", string(cfg.XDS.Listen), running && samePort(r.XDS, string(cfg.XDS.Listen)), ""))
	}
	if at := settings.Address(cfg.XDS.Admin); at != "" {
		found = append(found, checkPort(ctx, "xds.admin", at, running && samePort(r.Admin, at), ""))
	}
	return found
}

// checkPeers checks the certificates of a split gateway. xds.tls is for the control plane's name on its machine, and for the node on a pair's machine, which
// has xds.address.
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

// planeTimeout bounds a connection to the control plane.
const planeTimeout = 5 * time.Second

// checkPlane connects to a pair's control plane as its sidecar does. It returns nothing if the gateway is not split.
func checkPlane(ctx context.Context, cfg *config.Config) []Finding {
	if cfg.XDS.Address == "" && cfg.Extproc.Listen == "" {
		return nil
	}
	const check = "control plane"
	at := cfg.XDS.At()
	ctx, cancel := context.WithTimeout(ctx, planeTimeout)
	defer cancel()
	if err := reachPlane(ctx, cfg, at); err != nil {
		return []Finding{fail(check, "start it (`bardo xds`), or look at xds.address, xds.tls and the network", "%s: %v; meanwhile a pair goes on with its last order of providers, and new configurations wait", at, err)}
	}
	return []Finding{pass(check, "%s", at)}
}

func reachPlane(ctx context.Context, cfg *config.Config, at config.Socket) error {
	network, address := "tcp", string(at)
	if path, unix := at.Unix(); unix {
		network, address = "unix", path
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if !settings.XDSSecured(cfg) {
		return nil
	}
	id, err := mtls.Load(mtls.Files(cfg.XDS.TLS), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	c := tls.Client(conn, id.Client(cfg.XDS.ServerName()))
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	_, err = c.Read(make([]byte, 1)) // a rejection of this side's certificate arrives only with the peer's first message
	return err
}

// checkPeer checks a certificate, and its name unless name is "".
func checkPeer(check string, f config.PeerTLS, name string, now time.Time) Finding {
	id, err := mtls.Load(mtls.Files(f), slog.New(slog.DiscardHandler))
	if err != nil {
		return fail(check, "name PEM files of a certificate, its key, and the authorities", "%v", err)
	}
	if err := id.Check(name); err != nil {
		return fail(check, "issue a certificate for the name that is expected, by one of the authorities in "+f.CA, "%v", err)
	}
	if end := id.End(); end.Before(now.Add(expiryWarning)) {
		return fail(check, "renew the certificate", "%s ends on %s", f.Cert, end.Format(time.DateOnly))
	}
	return pass(check, "%s", f.Cert)
}
