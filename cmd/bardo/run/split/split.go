// Package split holds what the processes of a split gateway (control plane, sidecar, separate Envoy) need to find and authenticate each other: addresses,
// certificates and secrets.
package split

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/xds/state"
)

// Peers authenticates this process to the other processes of a split gateway, and them to it. The zero value uses clear text.
type Peers struct {
	Node    string         // name of this pair of Envoy and sidecar
	plane   *mtls.Identity // towards the control plane, or as the control plane; nil: clear text
	extproc *mtls.Identity // of the sidecar towards its Envoy; nil: clear text
	name    string         // expected in the control plane's certificate
}

// Open loads the configured certificates.
func Open(cfg *config.Config, log *slog.Logger) (p Peers, err error) {
	p = Peers{Node: settings.NodeName(cfg), name: cfg.XDS.ServerName()}
	if settings.XDSSecured(cfg) {
		if p.plane, err = mtls.Load(mtls.Files(cfg.XDS.TLS), log); err != nil {
			return p, fmt.Errorf("xds.tls: %w", err)
		}
	}
	if settings.ExtprocSecured(cfg) {
		if p.extproc, err = mtls.Load(mtls.Files(cfg.Extproc.TLS), log); err != nil {
			return p, fmt.Errorf("extproc.tls: %w", err)
		}
	}
	return p, nil
}

// SecretFiles are the files that refer this pair's Envoy to its certificates, by name.
func SecretFiles(cfg *config.Config) (map[string][]byte, error) {
	certificates := map[string]config.PeerTLS{}
	if settings.XDSSecured(cfg) {
		certificates[state.ClusterXDS] = cfg.XDS.TLS
	}
	if settings.ExtprocSecured(cfg) {
		certificates[state.ClusterExtProc] = cfg.Extproc.TLS
	}
	out := map[string][]byte{}
	for cluster, f := range certificates {
		files, err := envoy.SecretFiles(cluster, envoy.Files(f))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, files)
	}
	return out, nil
}

// ToPlane returns the TLS configuration of connections to the control plane; nil: clear text.
func (p Peers) ToPlane() func() *tls.Config {
	if p.plane == nil {
		return nil
	}
	return func() *tls.Config { return p.plane.Client(p.name) }
}

// Check validates this node's certificate for the control plane.
func (p Peers) Check() error {
	if p.plane == nil {
		return nil
	}
	return p.plane.Check(p.Node)
}

// AsPlane is the control plane's own TLS configuration; nil: clear text. Each stream states its node, which is checked against the certificate.
func (p Peers) AsPlane() *tls.Config {
	if p.plane == nil {
		return nil
	}
	return p.plane.Server(nil)
}

// Secure wraps the listener for this node's Envoy in TLS. Envoy's certificate has the node's name.
func (p Peers) Secure(l net.Listener) net.Listener {
	if p.extproc == nil {
		return l
	}
	return tls.NewListener(l, p.extproc.Server(func(c *x509.Certificate) error { return mtls.HasName(c, p.Node) }))
}

// Sockets are where this pair's Envoy and sidecar reach each other.
type Sockets struct{ Extproc, Egress, Demo, Realtime string }

// LocalNode is the local settings that this pair's Envoy sends to the control plane.
func LocalNode(h home.Dir, cfg *config.Config, s Sockets) state.Node {
	n := state.Node{
		ID: settings.NodeName(cfg), HTTP: settings.Address(cfg.Listen.HTTP), HTTPS: settings.Address(cfg.Listen.HTTPS), EgressSocket: s.Egress, DemoSocket: s.Demo, RealtimeSocket: s.Realtime,
		ExtProc: cmp.Or(string(cfg.Extproc.Address), string(config.Socket(s.Extproc).Reachable())),
	}
	if settings.ExtprocSecured(cfg) {
		n.ExtProcServer, n.SecretDir = n.ID, string(h)
	}
	return n
}

// PlanePeer is the control plane's address and TLS settings for this machine's Envoy.
func PlanePeer(h home.Dir, cfg *config.Config) (state.Peer, error) {
	at := string(cfg.XDS.At())
	if at == "" || strings.HasSuffix(at, ":0") {
		return state.Peer{}, fmt.Errorf("xds.listen %q: a separately run Envoy needs a fixed address of the control plane", at)
	}
	p := state.Peer{Address: at}
	if settings.XDSSecured(cfg) {
		p.TLS = &state.TLS{SecretDir: string(h), ServerName: cfg.XDS.ServerName()}
	}
	return p, nil
}

// EgressSecret derives the secret of one node's egress listener. Other nodes' secrets cannot be derived from it.
func EgressSecret(master, node string) string {
	h := hmac.New(sha256.New, []byte(master))
	_, _ = h.Write([]byte("egress " + node)) // a hash's Write never fails
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
}
