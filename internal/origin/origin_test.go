package origin_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/internal/origin"
)

type refusalCase struct {
	about string
	rule  *origin.Rule
	q     origin.Request
	ok    bool
}

func TestAPageOfSomebodyElseIsRefused(t *testing.T) {
	loopback := origin.Rule{}
	named := origin.Rule{Hosts: []string{"llm.example", "10.0.0.5"}}
	anyIP := origin.Rule{AnyIP: true}
	empty := origin.Rule{Hosts: []string{""}, Pages: []string{""}}
	for _, row := range []refusalCase{
		{"a program", &loopback, origin.Request{Host: "127.0.0.1:8080"}, true},
		{"without a port", &loopback, origin.Request{Host: "localhost"}, true},
		{"another loopback address", &loopback, origin.Request{Host: "127.9.9.9:1"}, true},
		{"IPv6", &loopback, origin.Request{Host: "[::1]:8080"}, true},
		{"IPv6 without a port", &loopback, origin.Request{Host: "[::1]"}, true},
		{"IPv4 in IPv6", &loopback, origin.Request{Host: "[::ffff:127.0.0.1]:1"}, true},
		{"capitals and a dot", &loopback, origin.Request{Host: "LocalHost.:8080"}, true},
		{"a page of this machine", &loopback, origin.Request{Host: "localhost:8080", Origin: "http://localhost:3000", Site: "same-site"}, true},
		{"a page of this machine, IPv6", &loopback, origin.Request{Host: "127.0.0.1:8080", Origin: "http://[::1]:3000"}, true},
		{"a person's own address bar", &loopback, origin.Request{Host: "localhost:8080", Site: "none"}, true},
		{"no host", &loopback, origin.Request{}, false},
		{"DNS rebinding", &loopback, origin.Request{Host: "evil.example:8080"}, false},
		{"DNS rebinding, with its origin", &loopback, origin.Request{Host: "evil.example:8080", Origin: "http://evil.example:8080"}, false},
		{"a name that begins like us", &loopback, origin.Request{Host: "localhost.evil.example"}, false},
		{"a name that begins like an address", &loopback, origin.Request{Host: "127.0.0.1.evil.example:8080"}, false},
		{"a name that ends like us", &loopback, origin.Request{Host: "evil-localhost"}, false},
		{"broken brackets", &loopback, origin.Request{Host: "[::1"}, false},
		{"more behind the brackets", &loopback, origin.Request{Host: "[::1].evil.example"}, false},
		{"another machine's address", &loopback, origin.Request{Host: "10.0.0.5:8080"}, false},
		{"a page elsewhere", &loopback, origin.Request{Host: "localhost:8080", Origin: "https://evil.example"}, false},
		{"a page elsewhere, by address", &loopback, origin.Request{Host: "localhost:8080", Origin: "http://203.0.113.9"}, false},
		{"an opaque origin", &loopback, origin.Request{Host: "localhost:8080", Origin: "null"}, false},
		{"an origin with a user", &loopback, origin.Request{Host: "localhost:8080", Origin: "http://localhost@evil.example"}, false},
		{"an origin that names us behind", &loopback, origin.Request{Host: "localhost:8080", Origin: "http://evil.example/localhost"}, false},
		{"an extension", &loopback, origin.Request{Host: "localhost:8080", Origin: "chrome-extension://abcdef"}, false},
		{"an image of a page elsewhere", &loopback, origin.Request{Host: "localhost:8080", Site: "cross-site"}, false},
		{"a configured name", &named, origin.Request{Host: "LLM.example:443", Origin: "https://llm.example"}, true},
		{"a configured address", &named, origin.Request{Host: "10.0.0.5:9090"}, true},
		{"a name beside a configured one", &named, origin.Request{Host: "x.llm.example"}, false},
		{"an address beside a configured one", &named, origin.Request{Host: "10.0.0.6"}, false},
		{"an image of a page elsewhere, in other letters", &loopback, origin.Request{Host: "localhost:8080", Site: "Cross-Site"}, false},
		{"an origin of ours with a user", &loopback, origin.Request{Host: "localhost:8080", Origin: "http://x@localhost:3000"}, false},
		{"an origin without a host", &empty, origin.Request{Host: "localhost:8080", Origin: "file:///tmp/x.html"}, false},
		{"no host where a configured name is empty", &empty, origin.Request{}, false},
		{"a page elsewhere where a listed origin is empty", &empty, origin.Request{Host: "localhost:8080", Site: "cross-site"}, false},
		{"any address", &anyIP, origin.Request{Host: "192.0.2.7:9090"}, true},
		{"any address, a page of its own", &anyIP, origin.Request{Host: "192.0.2.7:9090", Origin: "http://192.0.2.7:3000"}, true},
		{"any address, a page of another", &anyIP, origin.Request{Host: "192.0.2.7:9090", Origin: "http://203.0.113.9"}, false},
		{"a name where any address will do", &anyIP, origin.Request{Host: "evil.example:9090"}, false},
	} {
		t.Run(row.about, func(t *testing.T) {
			if why := row.rule.Refuses(row.q); (why == "") != row.ok {
				t.Errorf("refused because %q", why)
			}
		})
	}
	if why := loopback.Refuses(origin.Request{Host: strings.Repeat("x", 1000)}); len(why) > 200 {
		t.Errorf("it says %q", why)
	}
}
