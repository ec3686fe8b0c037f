// Package testca makes a certificate authority for one test.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority for one test. File holds its certificate in PEM, to be trusted by a gateway.
type CA struct {
	File string

	leaf tls.Certificate
}

// New makes an authority and a certificate for 127.0.0.1, localhost, and provider.test, which does not resolve.
func New(t testing.TB) *CA {
	t.Helper()
	ca, err := newCA(t.TempDir())
	if err != nil {
		t.Fatalf("test authority: %v", err)
	}
	return ca
}

func newCA(dir string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fake provider authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		DNSNames: []string{"localhost", "provider.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("writing the authority: %w", err)
	}
	return &CA{File: file, leaf: tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}}, nil
}

// ServerConfig is the TLS configuration of a server with this certificate, for HTTP/1.1 and HTTP/2.
func (c *CA) ServerConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.leaf}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}
