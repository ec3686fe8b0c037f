package xds_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/internal/mtlstest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/state"
)

// certificate is a self-signed one for a name, as PEM.
func certificate(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return selfSigned(t, name, k)
}

func selfSigned(t *testing.T, name string, k crypto.Signer) (cert, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// tlsClient trusts one certificate and speaks HTTP/2 if it may.
func tlsClient(t *testing.T, cert []byte) *http.Transport {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "bardo.test", MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func TestANewCertificateReplacesTheOldOneWhileConnectionsLive(t *testing.T) {
	oldCert, oldKey := certificate(t, "bardo.test")
	newCert, newKey := certificate(t, "bardo.test")
	l := newLab(t, func(s *state.State) { s.HTTPS, s.CertPEM, s.KeyPEM = "127.0.0.1:0", oldCert, oldKey }, says("good"))
	url := "https://" + l.address(t.Context(), "https")
	ask := func(tr *http.Transport) answer {
		return do(t, tr, request(t, url+chatPath, "{}", "x-script-path", "json", "x-script-order", "good"))
	}
	kept := tlsClient(t, oldCert)
	if a := ask(kept); a.body != answered {
		t.Fatalf("answer is %d %q", a.status, a.body)
	}
	l.set(func(s *state.State) { s.CertPEM, s.KeyPEM = newCert, newKey })
	if a := ask(tlsClient(t, newCert)); a.body != answered {
		t.Errorf("a new connection got %d %q", a.status, a.body)
	}
	if a := ask(kept); a.body != answered {
		t.Errorf("the old connection got %d %q", a.status, a.body)
	}
	if at := "https://" + l.address(t.Context(), "https"); at != url {
		t.Errorf("the listener moved from %s to %s", url, at)
	}
}

func TestThePlainListenerSpeaksHTTP2Too(t *testing.T) {
	l := newLab(t, nil, says("good"))
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	a := do(t, tr, request(t, l.url+chatPath, "{}", "x-script-path", "json", "x-script-order", "good"))
	if a.body != answered {
		t.Errorf("answer is %d %q", a.status, a.body)
	}
}

func TestPitfall08AProvidersCertificateMustBeForItsHost(t *testing.T) {
	for _, tt := range []struct {
		name, certified string
		status          int
	}{
		{"its own", "localhost", 200},
		{"another's", "elsewhere.test", 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cert, key := certificate(t, tt.certified)
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			proto := make(chan string, 8)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proto <- r.Proto + " " + r.TLS.ServerName
				_, _ = io.WriteString(w, answered)
			}))
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
			srv.EnableHTTP2 = true
			srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			srv.StartTLS()
			t.Cleanup(srv.Close)
			roots := filepath.Join(t.TempDir(), "roots.pem")
			if err := os.WriteFile(roots, cert, 0o600); err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
			l := newLab(t, func(s *state.State) { s.CAPath = roots }, provider{name: "good", endpoint: "https://localhost:" + port})
			a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good")
			if a.status != tt.status {
				t.Fatalf("status is %d: %s", a.status, a.body)
			}
			if tt.status == 200 {
				if got := <-proto; got != "HTTP/2.0 localhost" {
					t.Errorf("the provider was spoken to in %q", got)
				}
			}
		})
	}
}

func TestAProviderMayBeASocket(t *testing.T) {
	path := filepath.Join(proctest.Dir(t), "demo.sock")
	listener, err := xds.Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answered) }))
	srv.Listener.Close()
	srv.Listener = listener
	srv.Start()
	t.Cleanup(srv.Close)
	l := newLab(t, nil, provider{name: "demo", endpoint: "unix://" + path})
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "demo"); a.body != answered {
		t.Errorf("answer is %d %q", a.status, a.body)
	}
}

func TestAChangedProviderMovesWithoutADroppedRequest(t *testing.T) {
	before, after := says("good"), fake("good", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "moved") })
	l := newLab(t, nil, before, says("other"))
	moved := after.state(t)
	l.set(func(s *state.State) { s.Providers[0].Endpoints = moved.Endpoints })
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good"); a.body != "moved" {
		t.Errorf("answer is %d %q", a.status, a.body)
	}
	l.set(func(s *state.State) { s.Providers[0].Disabled = true })
	if a := l.post(chatPath, "{}", "x-script-path", "json"); a.body != `{"from":"other"}` {
		t.Errorf("a disabled provider is still first: %d %q", a.status, a.body)
	}
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good"); a.body != "moved" {
		t.Errorf("a request under way to a disabled provider got %d %q", a.status, a.body)
	}
}

func TestWhatEnvoyRefusesIsReported(t *testing.T) {
	l := newLab(t, nil, says("good"))
	ctx := within(t, polltest.Patience)
	st := l.state
	st.CAPath = "/no/such/file.pem"
	st.Providers = append(st.Providers, state.Provider{
		ID: "secure", Endpoints: []state.Endpoint{{Scheme: state.HTTPS, Host: "127.0.0.1", Port: 1}},
	})
	if err := l.xds.Set(ctx, st); err != nil {
		t.Fatal(err)
	}
	if err := l.xds.Applied(ctx); err == nil || !strings.Contains(err.Error(), "/no/such/file.pem") {
		t.Errorf("Applied says %v", err)
	}
	if n := l.xds.Rejections(); n != 1 {
		t.Errorf("%d rejections", n)
	}
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good"); a.body != answered {
		t.Errorf("what was served before no longer is: %d %q", a.status, a.body)
	}
	l.set(func(*state.State) {})
}

func TestAStateThatCannotBeServedChangesNothing(t *testing.T) {
	s := xds.NewServer(slog.New(slog.DiscardHandler), xds.Options{})
	err := s.Set(t.Context(), state.State{HTTP: "nowhere", Order: []policy.ProviderID{"unknown"}})
	if err == nil || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("Set says %v", err)
	}
}

// TestAnEnvoyElsewhereIsServedOverMutualTLS: its certificate is read from files, and so is the one for its sidecar.
func TestAnEnvoyElsewhereIsServedOverMutualTLS(t *testing.T) {
	dir := proctest.Dir(t)
	ca, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string) mtls.Files {
		f, err := ca.Write(dir, name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	identity, err := mtls.Load(issue("control-plane"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := xds.NewServer(slog.New(slog.DiscardHandler), xds.Options{Secret: func(string) string { return secret }})
	cert, key := certificate(t, "bardo.test")
	if err := s.Set(t.Context(), state.State{CertPEM: cert, KeyPEM: key}); err != nil {
		t.Fatal(err)
	}
	listener, err := xds.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own(t, func(ctx context.Context) error { return s.Serve(ctx, listener, identity.Server(nil)) })
	ours := issue("gw-1")
	o := envoy.Options{
		Node: state.Node{
			ID: "gw-1", HTTP: "127.0.0.1:0", HTTPS: "127.0.0.1:0", EgressSocket: filepath.Join(dir, "egress.sock"), ExtProc: "127.0.0.1:1", ExtProcServer: "gw-1", SecretDir: dir,
		},
		XDS: state.Peer{Address: listener.Addr().String(), TLS: &state.TLS{SecretDir: dir, ServerName: "control-plane"}},
	}
	for _, cluster := range []string{state.ClusterXDS, state.ClusterExtProc} {
		secrets, err := envoy.SecretFiles(cluster, envoy.Files(ours))
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range secrets {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, err := envoy.NewProcess(envoy.Command{Path: envoytest.Binary(t), Dir: dir, Concurrency: 1, Log: slog.New(slog.DiscardHandler), Bootstrap: o})
	if err != nil {
		t.Fatal(err)
	}
	own(t, p.Run)
	ctx := within(t, polltest.Patience)
	if err := errors.Join(p.Ready(ctx), s.Applied(ctx)); err != nil {
		t.Fatal(err)
	}
	if n := s.Connected(); n != 1 {
		t.Errorf("%d Envoys are connected", n)
	}
}

func TestAppliedWaitsForAnEnvoy(t *testing.T) {
	s := xds.NewServer(slog.New(slog.DiscardHandler), xds.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Applied(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Applied says %v", err)
	}
}

func TestListenTakesOverOnlySockets(t *testing.T) {
	dir := proctest.Dir(t)
	path := filepath.Join(dir, "x.sock")
	first, err := xds.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := xds.Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatalf("a socket left behind: %v", err)
	}
	defer second.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := xds.Listen(t.Context(), file); err == nil {
		t.Error("a file was replaced")
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("a file was removed")
	}
}

func TestTheAdminPortLeadsToTheAdminSocket(t *testing.T) {
	l := newLab(t, nil, says("good"))
	req := request(t, "http://"+l.address(t.Context(), "admin")+"/server_info", "")
	req.Method = http.MethodGet
	if a := do(t, http.DefaultTransport, req); a.status != 200 || !strings.Contains(a.body, "1.40") {
		t.Errorf("answer is %d %q", a.status, a.body)
	}
}

func TestADrainingEnvoySendsClientsAwayAndServesWhatIsUnderWay(t *testing.T) {
	asked, finish := make(chan struct{}), make(chan struct{})
	l := newLab(t, nil, fake("slow", func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-finish
		_, _ = io.WriteString(w, answered)
	}), says("good"))
	under := make(chan answer, 1)
	go func() {
		under <- l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "slow")
	}()
	<-asked
	if err := l.envoy.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.envoy.Ready(within(t, 50*time.Millisecond)); err == nil {
		t.Error("Envoy is still ready")
	}
	close(finish)
	if a := <-under; a.body != answered {
		t.Errorf("the request under way got %d %q", a.status, a.body)
	}
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good"); !a.closes {
		t.Errorf("a client is not sent away: %d, %v", a.status, a.header)
	}
	if a := l.egress("/v1/x", "{}", state.HeaderCluster, "good", state.HeaderExchange, secret+".id"); a.body != answered {
		t.Errorf("the sidecar's own call got %d %q", a.status, a.body)
	}
}
