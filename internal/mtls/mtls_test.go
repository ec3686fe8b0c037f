package mtls_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/internal/mtlstest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

// part is a program with its own certificate.
type part struct {
	*mtls.Identity
	files mtls.Files
	log   *proctest.Output
}

func authority(t *testing.T) *mtlstest.Authority {
	t.Helper()
	a, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *mtlstest.Authority, name string, valid time.Duration) part {
	t.Helper()
	files, err := a.Write(t.TempDir(), name, valid)
	if err != nil {
		t.Fatal(err)
	}
	p := part{files: files, log: &proctest.Output{}}
	if p.Identity, err = mtls.Load(files, slog.New(slog.NewTextHandler(p.log, nil))); err != nil {
		t.Fatal(err)
	}
	return p
}

// meet connects two parts. Each side's error is nil if it accepted the other.
func meet(t *testing.T, server, client *tls.Config) (atServer, atClient error) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		s := tls.Server(c, server)
		if err = s.HandshakeContext(t.Context()); err == nil {
			_, err = io.WriteString(s, "welcome")
		}
		done <- err
	}()
	c, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err == nil {
		defer c.Close()
		_, err = io.ReadFull(c, make([]byte, len("welcome"))) // a server refuses after the client's part of the handshake
	}
	return <-done, err
}

func only(name string) func(*x509.Certificate) error {
	return func(c *x509.Certificate) error { return mtls.HasName(c, name) }
}

func TestWhoIsLetIn(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	server := issue(t, ours, "control-plane", time.Hour)
	for _, tt := range []struct {
		name    string
		client  *tls.Config
		permit  func(*x509.Certificate) error
		refused string // what the server's log says; "" if it lets the client in
	}{
		{"a part of the gateway", issue(t, ours, "gw-1", time.Hour).Client("control-plane"), nil, ""},
		{"the part that was expected", issue(t, ours, "GW-1", time.Hour).Client("127.0.0.1"), only("gw-1"), ""},
		{"another part than was expected", issue(t, ours, "gw-2", time.Hour).Client("control-plane"), only("gw-1"), "gw-1"},
		{"a stranger", issue(t, theirs, "gw-1", time.Hour).trusting(t, server).Client("control-plane"), nil, "unknown authority"},
		{"one whose certificate is over", issue(t, ours, "gw-1", -time.Hour).Client("control-plane"), nil, "expired"},
		{"one without a certificate", &tls.Config{InsecureSkipVerify: true}, nil, "no certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			atServer, atClient := meet(t, server.Server(tt.permit), tt.client)
			if (atServer == nil) != (tt.refused == "") || (atClient == nil) != (tt.refused == "") {
				t.Errorf("server says %v, client says %v", atServer, atClient)
			}
			if !strings.Contains(server.log.String(), tt.refused) {
				t.Errorf("the server logged %q", server.log)
			}
		})
	}
}

// trusting returns the part with another's authority in place of its own: it accepts the server, and is refused by it.
func (p part) trusting(t *testing.T, server part) part {
	t.Helper()
	f := p.files
	f.CA = server.files.CA
	i, err := mtls.Load(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return part{Identity: i, files: f, log: p.log}
}

func TestWhomAClientBelieves(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	client := issue(t, ours, "gw-1", time.Hour)
	for _, tt := range []struct {
		name   string
		server part
		expect string
		want   string
	}{
		{"the server by its name", issue(t, ours, "control-plane", time.Hour), "control-plane", ""},
		{"the server by its address", issue(t, ours, "control-plane", time.Hour), "127.0.0.1", ""},
		{"a part that poses as the server", issue(t, ours, "gw-2", time.Hour), "control-plane", "not control-plane"},
		{"a stranger", issue(t, theirs, "control-plane", time.Hour), "control-plane", "unknown authority"},
		{"one whose certificate is over", issue(t, ours, "control-plane", -time.Hour), "control-plane", "expired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := meet(t, tt.server.Server(nil), client.Client(tt.expect))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the client says %v, want %q", err, tt.want)
			}
		})
	}
}

func TestOlderTLSIsRefused(t *testing.T) {
	a := authority(t)
	client := issue(t, a, "gw-1", time.Hour).Client("control-plane")
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if err, _ := meet(t, issue(t, a, "control-plane", time.Hour).Server(nil), client); err == nil {
		t.Error("TLS 1.2 was taken")
	}
}

// TestANewCertificateIsTakenWithoutARestart, even after the old one has expired.
func TestANewCertificateIsTakenWithoutARestart(t *testing.T) {
	a := authority(t)
	dir := t.TempDir()
	files, err := a.Write(dir, "control-plane", -time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server, err := mtls.Load(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client := issue(t, a, "gw-1", time.Hour)
	try := func() error {
		_, err := meet(t, server.Server(nil), client.Client("control-plane"))
		return err
	}
	if try() == nil {
		t.Fatal("an expired certificate was taken")
	}
	if err := os.WriteFile(files.Cert, []byte("half a renewal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if try() == nil {
		t.Fatal("a broken file was taken")
	}
	if _, err := a.Write(dir, "control-plane", time.Hour); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the new certificate", func() bool { return try() == nil })
}

func TestWhatIsWrongWithOnesOwnCertificate(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	for name, tt := range map[string]struct {
		part part
		want string
	}{
		"nothing":                {issue(t, ours, "gw-1", time.Hour), ""},
		"it is over":             {issue(t, ours, "gw-1", -time.Hour), "expired"},
		"it is for another name": {issue(t, ours, "gw-2", time.Hour), `not for "gw-1"`},
		"a stranger signed it":   {issue(t, theirs, "gw-1", time.Hour).trusting(t, issue(t, ours, "x", time.Hour)), "unknown authority"},
	} {
		err := tt.part.Check("gw-1")
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	good := issue(t, authority(t), "gw-1", time.Hour).files
	other := issue(t, authority(t), "gw-1", time.Hour).files
	for name, tt := range map[string]struct {
		files mtls.Files
		want  string
	}{
		"no certificate":        {mtls.Files{Cert: "/nowhere", Key: good.Key, CA: good.CA}, "/nowhere"},
		"another one's key":     {mtls.Files{Cert: good.Cert, Key: other.Key, CA: good.CA}, "private key"},
		"no authorities":        {mtls.Files{Cert: good.Cert, Key: good.Key, CA: "/nowhere"}, "certificate authorities"},
		"a key for authorities": {mtls.Files{Cert: good.Cert, Key: good.Key, CA: good.Key}, "holds no certificate"},
	} {
		if _, err := mtls.Load(tt.files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
