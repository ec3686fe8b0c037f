package home

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	"bardo.money/gateway/internal/config"
)

// Certificate loads the configured certificate of the https listener, or creates a development certificate.
func (h Dir) Certificate(cfg *config.Config) (cert, key []byte, err error) {
	if cfg.Listen.TLS.Cert == "" {
		return developmentCertificate(h)
	}
	if cert, err = os.ReadFile(cfg.Listen.TLS.Cert); err != nil {
		return nil, nil, fmt.Errorf("listen.tls.cert: %w", err)
	}
	if key, err = os.ReadFile(cfg.Listen.TLS.Key); err != nil {
		return nil, nil, fmt.Errorf("listen.tls.key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil {
		err = UsableKey(pair.Leaf)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listen.tls: %s and %s: %w", cfg.Listen.TLS.Cert, cfg.Listen.TLS.Key, err)
	}
	return cert, key, nil
}

// UsableKey reports why Envoy would reject a certificate because of its key.
func UsableKey(leaf *x509.Certificate) error {
	const expected = "expected RSA of 2048 bits or more, or ECDSA on P-256, P-384 or P-521"
	switch k := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < 2048 {
			return fmt.Errorf("the certificate's key is RSA of %d bits, %s", bits, expected)
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P224() {
			return fmt.Errorf("the certificate's key is ECDSA on P-224, %s", expected)
		}
	default:
		return fmt.Errorf("the certificate's key is %s, %s", leaf.PublicKeyAlgorithm, expected)
	}
	return nil
}

// developmentCertificate is a self-signed certificate for this machine's names, if the operator has none. It is kept in the state directory, so that clients
// that trust it continue to.
func developmentCertificate(h Dir) (cert, key []byte, err error) {
	certPath, keyPath := h.Path("dev-cert.pem"), h.Path("dev-key.pem")
	cert, cerr := os.ReadFile(certPath)
	key, kerr := os.ReadFile(keyPath)
	if cerr == nil && kerr == nil && stillValid(cert, key) {
		return cert, key, nil
	}
	if err := errors.Join(ignoreNotExist(cerr), ignoreNotExist(kerr)); err != nil {
		return nil, nil, err
	}
	if cert, key, err = SelfSigned(time.Now()); err != nil {
		return nil, nil, err
	}
	return cert, key, errors.Join(os.WriteFile(keyPath, key, 0o600), os.WriteFile(certPath, cert, 0o600))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stillValid reports whether a certificate and key match, and are valid for at least a week.
func stillValid(cert, key []byte) bool {
	pair, err := tls.X509KeyPair(cert, key)
	return err == nil && pair.Leaf != nil && time.Until(pair.Leaf.NotAfter) > 7*24*time.Hour
}

// SelfSigned creates a certificate for this machine's names, valid for a year, and its key, both as PEM.
func SelfSigned(now time.Time) (cert, key []byte, err error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "bardo development certificate"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &priv.PublicKey, priv)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
