package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
)

func TestARenewedCertificateIsTaken(t *testing.T) {
	dir := t.TempDir()
	g := &gateway{home: home(dir)}
	cfg := &config.Config{}
	cfg.Listen.TLS = config.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	issue := func() []byte {
		cert, key, err := selfSigned(time.Now())
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
		if want, err := issue(), g.renewCertificate(cfg); err != nil || !bytes.Equal(g.cert, want) {
			t.Errorf("the certificate is not the one in the file: %v", err)
		}
	}
	before := g.cert
	if err := os.WriteFile(cfg.Listen.TLS.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.renewCertificate(cfg); err == nil || !bytes.Equal(g.cert, before) {
		t.Errorf("half a certificate was taken: %v", err)
	}
}
