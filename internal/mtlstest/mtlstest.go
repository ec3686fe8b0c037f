// Package mtlstest creates certificates for tests: authorities, and certificates signed by them.
package mtlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"bardo.money/gateway/internal/mtls"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority. Each has its own key.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(time.Hour)
	t.Subject.CommonName = "authority"
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert, key}, err
}

func template(valid time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // crypto/rand does not fail
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "part"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
	}
}

// Files returns the paths of a certificate that Write puts into dir.
func Files(dir, name string) mtls.Files {
	return mtls.Files{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem"), CA: filepath.Join(dir, name+"-ca.pem")}
}

// Trust replaces a file of authorities.
func Trust(path string, as ...*Authority) error {
	var all []byte
	for _, a := range as {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})...)
	}
	return replace(path, all)
}

// Write issues a certificate for a DNS name, and for 127.0.0.1, and writes it to dir as NAME.pem, NAME-key.pem and NAME-ca.pem. A negative valid
// issues an expired one. Existing files are replaced by renaming, as in a renewal.
func (a *Authority) Write(dir, name string, valid time.Duration) (mtls.Files, error) {
	f := Files(dir, name)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return f, err
	}
	t := template(valid)
	t.DNSNames, t.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return f, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return f, err
	}
	return f, errors.Join(
		Trust(f.CA, a),
		replace(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		replace(f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	)
}

func replace(path string, b []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
