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
		found = append(found, checkPort(ctx, "xds.listen", string(cfg.XDS.Listen), running && samePort(r.XDS, string(cfg.XDS.Listen)), ""))
	}
	if at := settings.Address(cfg.XDS.Admin); at != "" {
		found = append(found, checkPort(ctx, "xds.admin", at, running && samePort(r.Admin, at), ""))
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

// planePatience is how long the control plane may take to take a connection.
const planePatience = 5 * time.Second

// checkPlane connects to the control plane of a pair as its sidecar does. Of a gateway that is not split there is nothing to look at.
func checkPlane(ctx context.Context, cfg *config.Config) []Finding {
	if cfg.XDS.Address == "" && cfg.Extproc.Listen == "" {
		return nil
	}
	const check = "control plane"
	at := cfg.XDS.At()
	ctx, cancel := context.WithTimeout(ctx, planePatience)
	defer cancel()
	if err := reachPlane(ctx, cfg, at); err != nil {
		return []Finding{broken(check, "start it (`bardo xds`), or look at xds.address, xds.tls and the network", "%s: %v; meanwhile a pair goes on with its last order of providers, and new configurations wait", at, err)}
	}
	return []Finding{fine(check, "%s", at)}
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
	_, err = c.Read(make([]byte, 1)) // whether it takes this side's certificate is known when it sends something
	return err
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
