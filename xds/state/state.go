// Package state is the control plane's knowledge as one value: where Envoy listens, which providers there are, and in which order they are tried. It
// does not know Envoy's own configuration, which is computed from it.
package state

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// DefaultCAPath is the file with the system's root certificates on Debian and related systems.
const DefaultCAPath = "/etc/ssl/certs/ca-certificates.crt"

// State is everything that Envoy is configured from. It is a value: copies share what they point to, which must not be changed.
type State struct {
	HTTP  string // host:port of the plain listener; "" for none, port 0 for any free one
	HTTPS string // host:port of the TLS listener; "" for none
	// CertPEM and KeyPEM are the TLS listener's certificate chain and key.
	CertPEM, KeyPEM []byte

	EgressSocket string // path of the Unix socket through which the sidecar calls providers
	EgressSecret string // required in such calls; letters and digits

	RealtimeSocket string // path of the Unix socket of the server of realtime sessions; "": no session can be opened

	ExtProc Peer   // the sidecar; empty with Module
	Module  bool   // the data path is in Envoy's process, as a dynamic module: no request goes to a sidecar
	CAPath  string // file of roots for providers' certificates; "" means DefaultCAPath

	Providers []Provider
	Order     []policy.ProviderID // failover order of requests without their own; names not listed come last

	Timeouts     Timeouts
	MaxBodyBytes uint64   // of a client's request; 0 means 32 MiB
	MaxAnswer    uint64   // bytes of a provider's answer that is buffered until it is complete; 0 means 64 MiB
	CORSOrigins  []string // of pages that may read Envoy's own errors; "*": all
	AccessLog    bool     // one JSON line per request, without content, on Envoy's standard error
}

// Provider is a group of equal endpoints with one TLS identity.
type Provider struct {
	ID        policy.ProviderID // names its clusters. A provider at another address needs another ID, or requests encoded for the old address go to the new one
	Endpoints []Endpoint
	Demo      bool // the sidecar's demo provider: its endpoint is local to each node, see State.At
	Realtime  bool // has realtime sessions
	Disabled  bool // keeps its clusters, so that requests in flight finish, but has no place in the order

	// Zero means the state's. Envoy replaces a changed cluster, and with it the calls of a module in flight: a provider with another address needs
	// another ID.
	Connect time.Duration // as in Timeouts
	CAPath  string        // as in State

	Proxy netip.AddrPort // of an HTTP proxy through which HTTPS endpoints are reached, by CONNECT; zero for none
}

// ClientIdle is the default of Timeouts.Client.
const ClientIdle = 5 * time.Minute

// Timeouts of the data path. Zero means the default beside each.
type Timeouts struct {
	Connect time.Duration // 5 s: to a provider
	Upload  time.Duration // 5 min: until a client's request is complete
	Client  time.Duration // 5 min: idle time of a client's stream in both directions
	Attempt time.Duration // 5 s: the sidecar's answer to an attempt
}

// Peer is a gRPC server that Envoy calls.
type Peer struct {
	Address string // unix:///path, /path or host:port
	TLS     *TLS   // nil for plain text
}

// TLS is the mutual authentication of Envoy and a peer: by the given certificates, or by files on its machine, which it reads again when they change.
type TLS struct {
	CAPEM           []byte // signs the peer's certificate
	CertPEM, KeyPEM []byte // Envoy's own; empty if the peer requires none
	SecretDir       string // instead of the above: directory of the files that name the certificate's files
	ServerName      string // expected in the peer's certificate
}

// WithDefaults replaces zero values by their defaults.
func (s State) WithDefaults() State {
	if s.CAPath == "" {
		s.CAPath = DefaultCAPath
	}
	if s.MaxBodyBytes == 0 {
		s.MaxBodyBytes = 32 << 20
	}
	if s.MaxAnswer == 0 {
		s.MaxAnswer = 64 << 20
	}
	t := &s.Timeouts
	for _, d := range []struct {
		at       *time.Duration
		fallback time.Duration
	}{
		{&t.Connect, 5 * time.Second},
		{&t.Upload, 5 * time.Minute},
		{&t.Client, ClientIdle},
		{&t.Attempt, 5 * time.Second},
	} {
		if *d.at == 0 {
			*d.at = d.fallback
		}
	}
	return s
}

// Validate returns all errors of s, one per line; nil if Envoy can be configured from s.
func (s State) Validate() error { return errors.Join(s.validateLocal(), s.ValidateShared()) }

// collect returns a function that adds an error about a subject, and one that joins the errors.
func collect() (fail func(err error, format string, args ...any), all func() error) {
	var errs []error
	fail = func(err error, format string, args ...any) {
		if err != nil {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, err)...))
		}
	}
	return fail, func() error { return errors.Join(errs...) }
}

// validateLocal checks what differs between nodes.
func (s State) validateLocal() error {
	fail, all := collect()
	if s.HTTP != "" {
		fail(validateListen(s.HTTP), "http listener")
	}
	if s.HTTPS != "" {
		fail(validateListen(s.HTTPS), "https listener")
		if len(s.CertPEM) == 0 {
			fail(errors.New("is missing"), "https certificate")
		}
	}
	if s.EgressSocket != "" {
		fail(validatePipe(s.EgressSocket), "egress listener")
		fail(validateSecret(s.EgressSecret), "egress secret")
	}
	if s.RealtimeSocket != "" {
		fail(validatePipe(s.RealtimeSocket), "realtime server")
	}
	if !s.Module {
		fail(s.ExtProc.Validate(), "ext_proc server")
	}
	for _, p := range s.Providers {
		if p.Demo && len(p.Endpoints) == 0 {
			fail(errors.New("the node has no socket for it"), "provider %q", p.ID)
		}
	}
	return all()
}

// ValidateShared returns the errors of the part that all nodes share.
func (s State) ValidateShared() error {
	fail, all := collect()
	if len(s.CertPEM) > 0 {
		_, err := tls.X509KeyPair(s.CertPEM, s.KeyPEM)
		fail(err, "https certificate")
	}
	known := make(map[policy.ProviderID]bool, len(s.Providers))
	for _, p := range s.Providers {
		fail(p.validate(), "provider %q", p.ID)
		if known[p.ID] {
			fail(errors.New("is there twice"), "provider %q", p.ID)
		}
		known[p.ID] = true
	}
	for _, id := range s.Order {
		if !known[id] {
			fail(errors.New("is not a provider"), "order: %q", id)
		}
	}
	return all()
}

// Validate returns why Envoy could not call this peer.
func (p Peer) Validate() error {
	if _, err := ParseAddress(p.Address); err != nil {
		return err
	}
	if p.TLS == nil {
		return nil
	}
	if p.TLS.SecretDir != "" {
		return validateSecretDir(p.TLS.SecretDir, p.TLS.ServerName)
	}
	if len(p.TLS.CAPEM) == 0 || p.TLS.ServerName == "" {
		return errors.New("tls without a certificate authority and a server name")
	}
	if len(p.TLS.CertPEM) == 0 {
		return nil
	}
	if _, err := tls.X509KeyPair(p.TLS.CertPEM, p.TLS.KeyPEM); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	return nil
}

func (p Provider) validate() error {
	if p.ID == "" || strings.Trim(string(p.ID), nameBytes+".") != "" {
		return errors.New("a name is letters, digits, dots, dashes and underscores")
	}
	if reserved[p.ID] {
		return errors.New("the name is taken by the gateway itself")
	}
	if len(p.Endpoints) == 0 && p.Demo {
		return nil
	}
	if len(p.Endpoints) == 0 {
		return errors.New("has no endpoint")
	}
	first := p.Endpoints[0]
	for _, e := range p.Endpoints {
		if err := e.validate(); err != nil {
			return err
		}
		if e.Scheme != first.Scheme {
			return errors.New("its endpoints must have one scheme")
		}
		if e.Scheme == HTTPS && e.Host != first.Host {
			return fmt.Errorf("its https endpoints must have one host, but %q is not %q", e.Host, first.Host)
		}
	}
	return nil
}

// reserved are the clusters that are not providers.
var reserved = map[policy.ProviderID]bool{ClusterExtProc: true, ClusterRealtime: true, ClusterXDS: true}

// The clusters of the gateway's own servers.
const (
	ClusterExtProc  = "bardo_extproc"
	ClusterRealtime = "bardo_realtime"
	ClusterXDS      = "bardo_xds"
)

func validateListen(s string) error {
	a, err := ParseAddress(s)
	if err != nil {
		return err
	}
	if !a.IP.IsValid() {
		return fmt.Errorf("address %q, expected an IP address and a port", s)
	}
	return nil
}

func validateSecret(s string) error {
	if len(s) < 16 || strings.Trim(s, nameBytes) != "" {
		return errors.New("needs at least 16 letters and digits")
	}
	return nil
}
