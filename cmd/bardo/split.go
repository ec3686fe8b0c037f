package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/xds/state"
)

// split is what the parts of a gateway that run apart need to find and know each other.
type split struct {
	node    string         // this pair of Envoy and sidecar
	plane   *mtls.Identity // towards the control plane, or as the control plane; nil for clear text
	extproc *mtls.Identity // the sidecar towards its Envoy; nil for clear text
	name    string         // expected in the control plane's certificate
}

// openSplit loads the certificates that the configuration names.
func openSplit(cfg *config.Config, log *slog.Logger) (s split, err error) {
	s = split{node: nodeName(cfg), name: cfg.XDS.ServerName()}
	if xdsFiles(cfg) != nil {
		if s.plane, err = mtls.Load(mtls.Files(cfg.XDS.TLS), log); err != nil {
			return s, fmt.Errorf("xds.tls: %w", err)
		}
	}
	if extprocFiles(cfg) != nil {
		if s.extproc, err = mtls.Load(mtls.Files(cfg.Extproc.TLS), log); err != nil {
			return s, fmt.Errorf("extproc.tls: %w", err)
		}
	}
	return s, nil
}

// xdsFiles are those of the control plane's connections; nil where they are in clear text. A Unix socket needs no certificate.
func xdsFiles(cfg *config.Config) *state.Files {
	if _, unix := cfg.XDS.At().Unix(); unix || !cfg.XDS.TLS.Enabled() {
		return nil
	}
	f := state.Files(cfg.XDS.TLS)
	return &f
}

// extprocFiles are the same of the connection between Envoy and sidecar.
func extprocFiles(cfg *config.Config) *state.Files {
	if _, unix := cfg.Extproc.Listen.Unix(); unix || cfg.Extproc.Listen == "" || !cfg.Extproc.TLS.Enabled() {
		return nil
	}
	f := state.Files(cfg.Extproc.TLS)
	return &f
}

// toPlane is the TLS of the next connection to the control plane; nil for clear text.
func (s split) toPlane() func() *tls.Config {
	if s.plane == nil {
		return nil
	}
	return func() *tls.Config { return s.plane.Client(s.name) }
}

// asPlane is the control plane's own TLS; nil for clear text. Which node a caller is, each stream of its says and is checked for.
func (s split) asPlane() *tls.Config {
	if s.plane == nil {
		return nil
	}
	return s.plane.Server(nil)
}

// secure puts TLS over the listener for this node's Envoy, which has a certificate of the same name.
func (s split) secure(l net.Listener) net.Listener {
	if s.extproc == nil {
		return l
	}
	return tls.NewListener(l, s.extproc.Server(func(c *x509.Certificate) error { return mtls.HasName(c, s.node) }))
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// nodeName is what the configuration says, or what can be used of the host's name.
func nodeName(cfg *config.Config) string {
	if cfg.Extproc.Node != "" {
		return cfg.Extproc.Node
	}
	host, _ := os.Hostname() // a host without a name is still a gateway
	host = notInNames.ReplaceAllString(host, "-")
	return cmp.Or(strings.Trim(host[:min(len(host), 63)], ".-"), "gateway")
}

// splitSockets are where the parts of a split gateway find each other: where the configuration says, and beside it.
func splitSockets(h home, cfg *config.Config) (sockets, error) {
	at := cmp.Or(string(cfg.Extproc.Listen), "unix://"+h.path("extproc.sock"))
	dir := string(h)
	if path, ok := cfg.Extproc.Listen.Unix(); ok {
		dir = filepath.Dir(path)
	}
	if len(dir) > maxSocketPath {
		return sockets{}, fmt.Errorf("%s is too long a path for sockets: name a shorter one in extproc.listen", dir)
	}
	in := func(name string) string { return filepath.Join(dir, name+".sock") }
	return sockets{
		dir: dir, extproc: at, xds: string(cfg.XDS.Listen), egress: in("egress"), demo: in("demo"), control: in("control"), plane: h.path("xds-control.sock"),
	}, nil
}

// localNode is what this pair's Envoy tells the control plane of itself.
func localNode(cfg *config.Config, s sockets) state.Node {
	n := state.Node{
		ID: nodeName(cfg), HTTP: address(cfg.Listen.HTTP), HTTPS: address(cfg.Listen.HTTPS), EgressSocket: s.egress, DemoSocket: s.demo,
		ExtProc: cmp.Or(string(cfg.Extproc.Address), string(config.Socket(s.extproc).Reachable())),
	}
	if files := extprocFiles(cfg); files != nil {
		n.ExtProcTLS, n.ExtProcServer = files, n.ID
	}
	return n
}

// planePeer is the control plane as this machine's Envoy calls it.
func planePeer(cfg *config.Config) (state.Peer, error) {
	at := string(cfg.XDS.At())
	if at == "" || strings.HasSuffix(at, ":0") {
		return state.Peer{}, fmt.Errorf("xds.listen %q: a separately run Envoy needs a fixed address of the control plane", at)
	}
	p := state.Peer{Address: at}
	if files := xdsFiles(cfg); files != nil {
		p.TLS = &state.TLS{Files: files, ServerName: cfg.XDS.ServerName()}
	}
	return p, nil
}

// egressSecret is what calls through one node's egress listener must carry: from it nobody learns another node's.
func egressSecret(master, node string) string {
	h := hmac.New(sha256.New, []byte(master))
	_, _ = h.Write([]byte("egress " + node)) // a hash takes everything
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
}
