package state

import (
	"strings"
	"testing"

	"bardo.money/gateway/policy"
)

func sound() State {
	return State{
		HTTP:         "127.0.0.1:0",
		EgressSocket: "/run/bardo/egress.sock",
		EgressSecret: "0123456789abcdef",
		ExtProc:      Peer{Address: "unix:///run/bardo/extproc.sock"},
		Providers: []Provider{
			{ID: "openai", Endpoints: []Endpoint{{Scheme: HTTPS, Host: "api.openai.example", Port: 443}}},
			{ID: "my-vllm", Endpoints: []Endpoint{{Scheme: HTTP, Host: "10.0.0.1", Port: 8000}, {Scheme: HTTP, Host: "10.0.0.2", Port: 8000}}},
			{ID: "demo", Endpoints: []Endpoint{{Scheme: Unix, Pipe: "/run/bardo/demo.sock"}}},
		},
		Order: []policy.ProviderID{"my-vllm", "openai"},
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*State)
		want   string // part of the error; "" for none
	}{
		{"a sound state", func(*State) {}, ""},
		{"no listener at all", func(s *State) { s.HTTP, s.EgressSocket = "", "" }, ""},
		{"a name to listen on", func(s *State) { s.HTTP = "example.test:80" }, "http listener"},
		{"no port to listen on", func(s *State) { s.HTTP = "127.0.0.1" }, "http listener"},
		{"https without a certificate", func(s *State) { s.HTTPS = "127.0.0.1:0" }, "https certificate"},
		{"a relative egress socket", func(s *State) { s.EgressSocket = "egress.sock" }, "egress listener"},
		{"an egress socket too long for the kernel", func(s *State) { s.EgressSocket = "/" + strings.Repeat("x", 107) }, "egress listener"},
		{"a short secret", func(s *State) { s.EgressSecret = "short" }, "egress secret"},
		{"a secret that would not fit a header", func(s *State) { s.EgressSecret = "0123456789abcdef\n" }, "egress secret"},
		{"no sidecar", func(s *State) { s.ExtProc = Peer{} }, "ext_proc server"},
		{"a sidecar with half a TLS", func(s *State) { s.ExtProc.TLS = &TLS{ServerName: "x"} }, "ext_proc server"},
		{"a sidecar with a broken key", func(s *State) {
			s.ExtProc.TLS = &TLS{ServerName: "x", CAPEM: []byte("ca"), CertPEM: []byte("no")}
		}, "ext_proc server: tls"},
		{"a provider without a name", func(s *State) { s.Providers[0].ID = "" }, "a name is letters"},
		{"a provider named like a retry cluster", func(s *State) { s.Providers[0].ID = "a~retry" }, "a name is letters"},
		{"a provider named like the sidecar's cluster", func(s *State) { s.Providers[0].ID = ClusterExtProc }, "taken by the gateway"},
		{"a provider twice", func(s *State) { s.Providers[1].ID = "openai" }, `provider "openai": is there twice`},
		{"a provider without endpoints", func(s *State) { s.Providers[0].Endpoints = nil }, "has no endpoint"},
		{"endpoints of two schemes", func(s *State) { s.Providers[1].Endpoints[1].Scheme = HTTPS }, "one scheme"},
		{"https endpoints of two hosts", func(s *State) {
			s.Providers[0].Endpoints = append(s.Providers[0].Endpoints, Endpoint{Scheme: HTTPS, Host: "b.example", Port: 443})
		}, "one host"},
		{"an endpoint without a port", func(s *State) { s.Providers[0].Endpoints[0].Port = 0 }, "port 0"},
		{"an endpoint of an unknown scheme", func(s *State) { s.Providers[0].Endpoints[0].Scheme = "ftp" }, `scheme "ftp"`},
		{"an order with an unknown provider", func(s *State) { s.Order = append(s.Order, "ghost") }, `order: "ghost": is not a provider`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sound()
			tt.change(&s)
			err := s.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestParseEndpoint(t *testing.T) {
	for _, tt := range []struct {
		base string
		want Endpoint
		name bool
	}{
		{"https://api.example/v1", Endpoint{Scheme: HTTPS, Host: "api.example", Port: 443}, true},
		{"http://api.example", Endpoint{Scheme: HTTP, Host: "api.example", Port: 80}, true},
		{"http://10.0.0.1:8000/v1", Endpoint{Scheme: HTTP, Host: "10.0.0.1", Port: 8000}, false},
		{"http://[::1]:8000", Endpoint{Scheme: HTTP, Host: "::1", Port: 8000}, false},
		{"http://localhost:1", Endpoint{Scheme: HTTP, Host: "localhost", Port: 1}, true},
		{"unix:///run/demo.sock", Endpoint{Scheme: Unix, Pipe: "/run/demo.sock"}, false},
	} {
		got, err := ParseEndpoint(tt.base)
		if err != nil || got != tt.want || got.IsName() != tt.name {
			t.Errorf("%s is %+v (%v), %v", tt.base, got, got.IsName(), err)
		}
	}
	for _, bad := range []string{"", "api.example", "ftp://api.example", "http://", "http://x:0", "http://x:99999", "http://a b", "unix://relative", "http://-%2f/"} {
		if e, err := ParseEndpoint(bad); err == nil {
			t.Errorf("%q is %+v", bad, e)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1", "localhost:80": "127.0.0.1", ":80": "0.0.0.0", "[::]:80": "::",
	} {
		if a, err := ParseAddress(in); err != nil || a.IP.String() != want || a.Port != 80 {
			t.Errorf("%s is %+v, %v", in, a, err)
		}
	}
	for _, in := range []string{"/run/x.sock", "unix:///run/x.sock"} {
		if a, err := ParseAddress(in); err != nil || a.Pipe != "/run/x.sock" {
			t.Errorf("%s is %+v, %v", in, a, err)
		}
	}
	if a, err := ParseAddress("sidecar.example:80"); err != nil || a.Name != "sidecar.example" {
		t.Errorf("a name is %+v, %v", a, err)
	}
	for _, in := range []string{"", "80", "x:y", "127.0.0.1:70000", "unix://x", "a b:1"} {
		if a, err := ParseAddress(in); err == nil {
			t.Errorf("%q is %+v", in, a)
		}
	}
}

func TestAClustersNameTellsItsProvider(t *testing.T) {
	const p policy.ProviderID = "my-vllm"
	for _, cluster := range []string{Cluster(p), RetryCluster(p)} {
		if got := ProviderOf(cluster); got != p {
			t.Errorf("%s belongs to %s", cluster, got)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"https://api.example/v1", "unix:///x", "http://[::1%25eth0]:1", "http://a:b@c:1", "//x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEndpoint(s)
		if err != nil {
			return
		}
		if err := e.validate(); err != nil {
			t.Errorf("%q gives an endpoint that is refused: %v", s, err)
		}
	})
}
