package home

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
)

func TestARenewedCertificateIsTaken(t *testing.T) {
	dir := t.TempDir()
	h := Dir(dir)
	cfg := &config.Config{}
	cfg.Listen.TLS = config.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	issue := func() []byte {
		cert, key, err := SelfSigned(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for path, b := range map[string][]byte{cfg.Listen.TLS.Cert: cert, cfg.Listen.TLS.Key: key} {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return cert
	}
	for range 2 {
		want := issue()
		if got, _, err := h.Certificate(cfg); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the certificate is not the one in the file: %v", err)
		}
	}
	if err := os.WriteFile(cfg.Listen.TLS.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Certificate(cfg); err == nil {
		t.Error("half a certificate was taken")
	}
}

// TestACertificateThatEnvoyRefusesIsRefusedBefore: Go accepts all of these.
func TestACertificateThatEnvoyRefusesIsRefusedBefore(t *testing.T) {
	rsaKey := func(bits int) crypto.Signer {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ecKey := func(c elliptic.Curve) crypto.Signer {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		key  crypto.Signer
		want string
	}{
		"RSA 1024": {rsaKey(1024), "RSA of 1024 bits, expected RSA of 2048"},
		"RSA 2048": {rsaKey(2048), ""},
		"P-224":    {ecKey(elliptic.P224()), "P-224, expected RSA"},
		"P-256":    {ecKey(elliptic.P256()), ""},
		"P-521":    {ecKey(elliptic.P521()), ""},
		"Ed25519":  {edwards, "Ed25519, expected RSA"},
	} {
		err := UsableKey(&x509.Certificate{PublicKey: row.key.Public(), PublicKeyAlgorithm: x509.Ed25519})
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}
