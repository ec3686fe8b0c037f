// Package mtls authenticates the processes of a gateway to each other: TLS 1.3 with certificates on both sides, from files that are read again when
// they change. The callers decide which names are accepted.
package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Files are PEM files: a certificate chain, its private key, and the authorities that sign the other side's certificates.
type Files struct{ Cert, Key, CA string }

// Identity is a program's certificate and the authorities that it trusts. Its files are checked for changes when a connection begins; if they cannot
// be used, the last valid ones stay in effect. Safe for concurrent use.
type Identity struct {
	files Files
	log   *slog.Logger

	mu     sync.Mutex
	stamps [3]stamp
	now    pair
	logged map[string]time.Time // messages logged recently
}

// pair is a certificate with the authorities, as read together.
type pair struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

// stamp identifies a version of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// logInterval is the minimum time between equal log messages.
const logInterval = 30 * time.Second

// Load reads the files. It fails if they cannot be used now.
func Load(f Files, log *slog.Logger) (*Identity, error) {
	i := &Identity{files: f, log: log, logged: map[string]time.Time{}}
	i.stamps = f.stamps()
	var err error
	i.now, err = f.read()
	return i, err
}

func (f Files) read() (pair, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return pair{}, fmt.Errorf("certificate authorities: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return pair{}, fmt.Errorf("certificate authorities: %s holds no certificate", f.CA)
	}
	return pair{cert, roots}, nil
}

func (f Files) stamps() (s [3]stamp) {
	for i, path := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(path); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

// current returns the pair in effect, read again if a file changed.
func (i *Identity) current() pair {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.files.stamps()
	if s == i.stamps {
		return i.now
	}
	next, err := i.files.read()
	if err != nil { // a renewal in progress: the next connection reads it
		if i.isNew(err.Error()) {
			i.log.Warn("the certificate was not read again", "error", err)
		}
		return i.now
	}
	i.stamps, i.now = s, next
	i.log.Info("certificate read again", "file", i.files.Cert, "valid_until", next.cert.Leaf.NotAfter)
	return i.now
}

// Server accepts clients whose certificate is signed by an authority and accepted by permit; a nil permit accepts all. Refusals are logged.
func (i *Identity) Server(permit func(*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now := i.current()
			return &tls.Config{
				MinVersion:             tls.VersionTLS13,
				NextProtos:             []string{"h2"},
				Certificates:           []tls.Certificate{now.cert},
				SessionTicketsDisabled: true,                  // every connection is verified
				ClientAuth:             tls.RequestClientCert, // verified below, where a refusal can be logged
				VerifyConnection: func(cs tls.ConnectionState) error {
					err := verify(cs, now.roots, permit)
					if err != nil {
						i.refused(hello.Conn.RemoteAddr(), err)
					}
					return err
				},
			}, nil
		},
	}
}

func verify(cs tls.ConnectionState, roots *x509.CertPool, permit func(*x509.Certificate) error) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("it has no certificate")
	}
	leaf, others := cs.PeerCertificates[0], x509.NewCertPool()
	for _, c := range cs.PeerCertificates[1:] {
		others.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil || permit == nil {
		return err
	}
	return permit(leaf)
}

func (i *Identity) refused(from net.Addr, why error) {
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		host = from.String()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.isNew(host + why.Error()) {
		i.log.Warn("a connection was refused: its certificate is not good", "from", host, "reason", why)
	}
}

// isNew reports whether a message was not logged recently; the caller holds mu.
func (i *Identity) isNew(sentence string) bool {
	if time.Since(i.logged[sentence]) < logInterval {
		return false
	}
	if len(i.logged) > 1000 {
		clear(i.logged)
	}
	i.logged[sentence] = time.Now()
	return true
}

// Client returns the configuration of one connection to a server whose certificate must have this name, or IP address.
func (i *Identity) Client(server string) *tls.Config {
	now := i.current()
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		ServerName: server,
		RootCAs:    now.roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &now.cert, nil // even if the server names other authorities, so that its refusal has a reason
		},
	}
}

// End returns when this side's own certificate expires.
func (i *Identity) End() time.Time { return i.current().cert.Leaf.NotAfter }

// Check verifies this side's own certificate like a peer that trusts the same authorities and expects this name; an empty name is not checked.
func (i *Identity) Check(name string) error {
	now := i.current()
	others := x509.NewCertPool()
	for _, der := range now.cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(c)
		}
	}
	_, err := now.cert.Leaf.Verify(x509.VerifyOptions{Roots: now.roots, Intermediates: others, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err == nil && name != "" {
		err = HasName(now.cert.Leaf, name)
	}
	if err != nil {
		return fmt.Errorf("this side's own certificate, %s: %w", i.files.Cert, err)
	}
	return nil
}

// HasName returns an error if a certificate is not for a name. Names are DNS names, compared as a whole.
func HasName(c *x509.Certificate, name string) error {
	for _, n := range c.DNSNames {
		if strings.EqualFold(n, name) {
			return nil
		}
	}
	return fmt.Errorf("the certificate is for %q, not for %q", c.DNSNames, name)
}
