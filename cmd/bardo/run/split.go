package run

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
	"path/filepath"
	"strings"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/xds/state"
)

// split is what the processes of a split gateway need to find and authenticate each other.
type split struct {
	node    string         // name of this pair of Envoy and sidecar
	plane   *mtls.Identity // towards the control plane, or as the control plane; nil: clear text
	extproc *mtls.Identity // of the sidecar towards its Envoy; nil: clear text
	name    string         // expected in the control plane's certificate
}

// openSplit loads the configured certificates.
func openSplit(cfg *config.Config, log *slog.Logger) (s split, err error) {
	s = split{node: settings.NodeName(cfg), name: cfg.XDS.ServerName()}
	if settings.XDSSecured(cfg) {
		if s.plane, err = mtls.Load(mtls.Files(cfg.XDS.TLS), log); err != nil {
			return s, fmt.Errorf("xds.tls: %w", err)
		}
	}
	if settings.ExtprocSecured(cfg) {
		if s.extproc, err = mtls.Load(mtls.Files(cfg.Extproc.TLS), log); err != nil {
			return s, fmt.Errorf("extproc.tls: %w", err)
		}
	}
	return s, nil
}

// secretFiles are the files that refer this pair's Envoy to its certificates, by name.
func secretFiles(cfg *config.Config) (map[string][]byte, error) {
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

// toPlane returns the TLS configuration of connections to the control plane; nil: clear text.
func (s split) toPlane() func() *tls.Config {
	if s.plane == nil {
		return nil
	}
	return func() *tls.Config { return s.plane.Client(s.name) }
}

// check validates this node's certificate for the control plane.
func (s split) check() error {
	if s.plane == nil {
		return nil
	}
	return s.plane.Check(s.node)
}

// asPlane is the control plane's own TLS configuration; nil: clear text. Each stream states its node, which is checked against the certificate.
func (s split) asPlane() *tls.Config {
	if s.plane == nil {
		return nil
	}
	return s.plane.Server(nil)
}

// secure wraps the listener for this node's Envoy in TLS. Envoy's certificate has the node's name.
func (s split) secure(l net.Listener) net.Listener {
	if s.extproc == nil {
		return l
	}
	return tls.NewListener(l, s.extproc.Server(func(c *x509.Certificate) error { return mtls.HasName(c, s.node) }))
}

// splitSockets are the sockets of a split gateway: extproc.listen, and the others in the same directory.
func splitSockets(h home.Dir, cfg *config.Config) (sockets, error) {
	at := cmp.Or(string(cfg.Extproc.Listen), "unix://"+h.Path("extproc.sock"))
	dir := string(h)
	if path, ok := cfg.Extproc.Listen.Unix(); ok {
		dir = filepath.Dir(path)
	}
	if len(dir) > home.MaxSocketPath {
		return sockets{}, fmt.Errorf("%s is too long a path for sockets: name a shorter one in extproc.listen", dir)
	}
	in := func(name string) string { return filepath.Join(dir, name+".sock") }
	return sockets{
		dir: dir, extproc: at, xds: string(cfg.XDS.Listen), egress: in("egress"), demo: in("demo"), control: in("control"), plane: h.Path("xds-control.sock"),
	}, nil
}

// localNode is the local settings that this pair's Envoy sends to the control plane.
func localNode(h home.Dir, cfg *config.Config, s sockets) state.Node {
	n := state.Node{
		ID: settings.NodeName(cfg), HTTP: settings.Address(cfg.Listen.HTTP), HTTPS: settings.Address(cfg.Listen.HTTPS), EgressSocket: s.egress, DemoSocket: s.demo,
		ExtProc: cmp.Or(string(cfg.Extproc.Address), string(config.Socket(s.extproc).Reachable())),
	}
	if settings.ExtprocSecured(cfg) {
		n.ExtProcServer, n.SecretDir = n.ID, string(h)
	}
	return n
}

// planePeer is the control plane's address and TLS settings for this machine's Envoy.
func planePeer(h home.Dir, cfg *config.Config) (state.Peer, error) {
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

// egressSecret derives the secret of one node's egress listener. Other nodes' secrets cannot be derived from it.
func egressSecret(master, node string) string {
	h := hmac.New(sha256.New, []byte(master))
	_, _ = h.Write([]byte("egress " + node)) // a hash's Write never fails
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
}
