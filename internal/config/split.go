package config

import (
	"cmp"
	"net"
	"net/netip"
	"path/filepath"
)

// Loopback reports whether only this machine can connect: a Unix socket, a loopback address, or no address.
func (s Socket) Loopback() bool {
	if _, ok := s.Unix(); ok {
		return true
	}
	return Addr(s).Loopback()
}

// Host returns the host of a TCP address, "" for a Unix socket.
func (s Socket) Host() string {
	if _, ok := s.Unix(); ok {
		return ""
	}
	host, _, err := net.SplitHostPort(string(s))
	if err != nil {
		return ""
	}
	return host
}

// At returns the address at which the other parts reach the control plane.
func (x XDS) At() Socket { return cmp.Or(x.Address, x.Listen.Reachable()) }

// ServerName returns the required name in the control plane's certificate.
func (x XDS) ServerName() string { return cmp.Or(x.Name, x.At().Host()) }

// nodePattern is the form of a node's name: it is a DNS name in certificates.
var nodePattern = pattern(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$`)

// ValidNode reports whether a name can be a node's.
func ValidNode(name string) bool { return nodePattern().MatchString(name) }

// checkSplit refuses settings that let other machines read or change the traffic between the parts of a split gateway.
func (d *decoder) checkSplit(cfg *Config) {
	if n := cfg.Extproc.Node; n != "" && !ValidNode(n) {
		d.problem("extproc.node", "letters, digits, dots and dashes, at most 63", "%q cannot be a node's name", n)
	}
	d.checkPeerTLS("extproc.tls", cfg.Extproc.TLS)
	d.checkPeerTLS("xds.tls", cfg.XDS.TLS)
	for _, s := range []struct {
		key, tls string
		at       Socket
		secured  bool
	}{
		{"extproc.listen", "extproc.tls", cfg.Extproc.Listen, cfg.Extproc.TLS.Enabled()},
		{"extproc.address", "extproc.tls", cfg.Extproc.Address, cfg.Extproc.TLS.Enabled()},
		{"xds.listen", "xds.tls", cfg.XDS.Listen, cfg.XDS.TLS.Enabled()},
		{"xds.address", "xds.tls", cfg.XDS.Address, cfg.XDS.TLS.Enabled()},
	} {
		if !s.secured && !s.at.Loopback() {
			d.problem(s.key, s.tls+", a loopback address or a Unix socket", "%s is not on this machine alone, and would carry secrets in clear text", s.at)
		}
	}
}

// checkPeerTLS requires all three files, by absolute paths.
func (d *decoder) checkPeerTLS(key string, t PeerTLS) {
	files := []struct{ name, path string }{{"cert", t.Cert}, {"key", t.Key}, {"ca", t.CA}}
	given := 0
	for _, f := range files {
		if f.path != "" {
			given++
		}
	}
	if given != 0 && given != len(files) {
		d.problem(key, "cert, key and ca together", "the parts of a gateway know each other by certificates on both sides")
		return
	}
	for _, f := range files {
		if f.path != "" && !filepath.IsAbs(f.path) {
			d.problem(key+"."+f.name, "an absolute path", "%q: Envoy reads the file too, and runs elsewhere", f.path)
		}
	}
}

// Reachable returns the address at which a program on the same machine reaches a server that listens here.
func (s Socket) Reachable() Socket {
	host, port, err := net.SplitHostPort(string(s))
	if _, unix := s.Unix(); unix || err != nil {
		return s
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "", err == nil && ip.IsUnspecified() && ip.Is4():
		return Socket(net.JoinHostPort("127.0.0.1", port))
	case err == nil && ip.IsUnspecified():
		return Socket(net.JoinHostPort("::1", port))
	}
	return s
}
