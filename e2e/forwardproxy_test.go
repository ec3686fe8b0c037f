package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/testca"
	"bardo.money/gateway/e2e/gateway"
)

// forwardProxy is an HTTP proxy that answers CONNECT alone. It knows provider.test, which no other name server does.
type forwardProxy struct {
	addr string

	mu      sync.Mutex
	refuses bool
	targets []string // of all requests
	open    []net.Conn
}

func startProxy(t *testing.T) *forwardProxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &forwardProxy{addr: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		p.refuse(true)
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(t, c) })
		}
	})
	return p
}

// serve answers one connection.
func (p *forwardProxy) serve(t *testing.T, c net.Conn) {
	t.Helper()
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	if req.Method != http.MethodConnect {
		_, _ = io.WriteString(c, "HTTP/1.1 405 Method Not Allowed\r\n\r\n")
		return
	}
	refuses := p.note(req.Host, c)
	host, port, err := net.SplitHostPort(req.Host)
	if err != nil || host != "provider.test" || refuses {
		_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\n\r\n")
		return
	}
	up, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, up)
		_ = c.Close()
	})
	_, _ = io.Copy(up, r)
	_ = up.Close()
	back.Wait()
}

// note records a request on a connection, and reports whether it is refused.
func (p *forwardProxy) note(target string, c net.Conn) (refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets, p.open = append(p.targets, target), append(p.open, c)
	return p.refuses
}

// refuse sets whether connections are refused. Those that are open are closed then.
func (p *forwardProxy) refuse(refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses = refuses; refuses {
		for _, c := range p.open {
			_ = c.Close()
		}
	}
}

// seen returns the targets of all requests.
func (p *forwardProxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.targets)
}

// TestB13ProvidersAreReachedThroughAProxy: by CONNECT with their names, over TLS with them, in every form; those without TLS, and those that are excepted,
// directly. A provider that the proxy refuses is replaced by another.
func TestB13ProvidersAreReachedThroughAProxy(t *testing.T) {
	t.Parallel()
	ca, proxy := testca.New(t), startProxy(t)
	far := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "far", CA: ca})
	near := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "near", CA: ca})
	plain := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "plain"})
	at, err := url.Parse(far.URL)
	if err != nil {
		t.Fatal(err)
	}
	host := "provider.test:" + at.Port()
	config := func(more string) string {
		model := func(id string) string { return "{id: " + id + ", price: {input: 1, output: 2}}" }
		custom := func(id, base, key string, models ...string) string {
			return fmt.Sprintf("    - {id: %s, endpoints: [%q], api_key: %s, models: [%s]}\n", id, base, key, strings.Join(models, ", "))
		}
		return quick + fmt.Sprintf("providers:\n  ca_file: %q\n  proxy: http://%s\n%s  custom:\n", ca.File, proxy.addr, more) +
			custom("far", "https://"+host+"/v1", far.Key, model("alone"), model("backed")) + custom("near", near.URL, near.Key, model("near")) +
			custom("plain", plain.URL, plain.Key, model("backed"), model("plain"))
	}
	o := gateway.Options{Config: config("  no_proxy: [near]\n")}
	g := gateway.Run(t, o)
	ask := func(form ask, model, by string) {
		t.Helper()
		form.model = model
		got := g.Do(t, form.call())
		if text(t, form, got); got.Header.Get("X-Bardo-Provider") != by {
			t.Errorf("%s, %s: by %q, want %s", form.form(), model, got.Header.Get("X-Bardo-Provider"), by)
		}
	}
	for _, form := range forms {
		ask(form, "alone", "far")
		ask(form, "backed", "far")
		ask(form, "near", "near")
		ask(form, "plain", "plain")
	}
	if seen := proxy.seen(); len(seen) == 0 || slices.ContainsFunc(seen, func(target string) bool { return target != host }) {
		t.Errorf("the proxy was asked for %v, want %s alone", seen, host)
	}
	if r, ok := far.Last(); !ok || r.Proto != "HTTP/2.0" {
		t.Errorf("the provider is spoken to by %s", r.Proto)
	}

	proxy.refuse(true)
	before := len(proxy.seen())
	for _, form := range forms {
		ask(form, "backed", "plain")
	}
	if len(proxy.seen()) == before {
		t.Error("the proxy was not asked")
	}
	got := g.Do(t, upTo(forms[0], "alone", 10).call())
	mustFail(t, forms[0], got, http.StatusBadGateway, "upstream_error")

	proxy.refuse(false)
	eventually(t, "the proxy connects again", func() bool { return g.Do(t, upTo(forms[0], "alone", 10).call()).Status == http.StatusOK })

	o.Config = config("") // a reload: the other one goes through the proxy as well, which does not know it
	reload(t, g, o)
	if got := g.Do(t, upTo(forms[0], "near", 10).call()); got.Status == http.StatusOK {
		t.Errorf("without the exception: %d %s", got.Status, got.Body)
	}
}
