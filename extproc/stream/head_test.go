package stream

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
)

func TestPathsWithAndWithoutV1AreEqual(t *testing.T) {
	for in, want := range map[string]string{
		"/v1/messages":               "/v1/messages",
		"/v1/v1/messages":            "/v1/messages",
		"/v1/v1/v1/messages":         "/v1/messages",
		"/messages":                  "/v1/messages",
		"/messages/count_tokens":     "/v1/messages/count_tokens",
		"/chat/completions":          "/v1/chat/completions",
		"/v1/chat/completions/":      "/v1/chat/completions",
		"/models/a%2Fb":              "/v1/models/a%2Fb",
		"/models/qwen3%3A8b":         "/v1/models/qwen3:8b",
		"/v1/files/a%3Ab":            "/v1/files/a%3Ab",
		"/v1/models/m%3acountTokens": "/v1beta/models/m:countTokens",

		"/v1beta/models/qwen3%3A8b%3AgenerateContent": "/v1beta/models/qwen3:8b:generateContent",

		"/":                          "/",
		"/healthz":                   "/healthz",
		"/v1":                        "/v1",
		"/messagesque":               "/messagesque",
		"/anything/chat/completions": "/anything/chat/completions",
	} {
		if got := foldPath(in); got != want {
			t.Errorf("%s folds to %s, want %s", in, got, want)
		}
	}
}

func FuzzFoldPathIsStable(f *testing.F) {
	for _, s := range []string{"/v1/v1/messages", "/messages/", "/v1/v1", "//", "/chat/completions"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		once := foldPath(p)
		if len(once) > len(p)+len("/v1") {
			t.Errorf("%q grew to %q", p, once)
		}
	})
}

func TestADemoClientIsLocalAndNotAForeignPage(t *testing.T) {
	for _, tt := range []struct {
		name, peer, host, origin string
		want                     bool
	}{
		{"curl", "127.0.0.1:5000", "127.0.0.1:8080", "", true},
		{"localhost", "127.0.0.1:5000", "localhost:8080", "", true},
		{"IPv6", "[::1]:5000", "[::1]:8080", "", true},
		{"a page of this machine", "127.0.0.1:5000", "localhost:8080", "http://localhost:3000", true},
		{"DNS rebinding", "127.0.0.1:5000", "evil.example:8080", "", false},
		{"a page elsewhere", "127.0.0.1:5000", "localhost:8080", "https://evil.example", false},
		{"an opaque origin", "127.0.0.1:5000", "localhost:8080", "null", false},
		{"another machine", "192.0.2.7:5000", "localhost:8080", "", false},
		{"no address", "", "localhost:8080", "", false},
		{"no host", "127.0.0.1:5000", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := header.List{{Name: ":authority", Value: tt.host}, {Name: ":path", Value: "/"}}
			if tt.origin != "" {
				l = append(l, header.Field{Name: "origin", Value: tt.origin})
			}
			hd := NewHead(l, tt.peer)
			if got := hd.FromLoopback(); got != tt.want {
				t.Errorf("admitted is %t, want %t", got, tt.want)
			}
		})
	}
}

func TestClientsCannotSetInternalHeaders(t *testing.T) {
	hd := NewHead(header.List{
		{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/messages?beta=true"},
		{Name: "x-bardo-internal-path", Value: "json"},
		{Name: "x-bardo-internal-cluster", Value: "other"},
		{Name: "x-api-key", Value: "k"},
	}, "")
	if len(hd.Header) != 1 || hd.Header.Get("x-api-key") != "k" {
		t.Errorf("kept %v, want the key alone", hd.Header)
	}
	if len(hd.Forged) != 1 || hd.Forged[0] != "x-bardo-internal-cluster" {
		t.Errorf("to be removed: %v", hd.Forged)
	}
	if hd.Path != "/v1/messages" || hd.Query != "beta=true" || hd.Dialect() != chat.Anthropic {
		t.Errorf("read as %s ? %s, %s", hd.Path, hd.Query, hd.Dialect())
	}
}
