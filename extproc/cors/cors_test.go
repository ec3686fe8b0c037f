package cors_test

import (
	"errors"
	"net/http"
	"testing"

	"bardo.money/gateway/extproc/cors"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

const page = "https://app.example"

// headOf returns a request's head with an origin and more headers, as name and value in turn.
func headOf(origin string, more ...string) *stream.Head {
	hd := &stream.Head{Header: header.List{{Name: "origin", Value: origin}}}
	for i := 0; i < len(more); i += 2 {
		hd.Header = append(hd.Header, header.Field{Name: more[i], Value: more[i+1]})
	}
	return hd
}

func TestOnlyListedOriginsMayReadAnAnswer(t *testing.T) {
	for _, row := range []struct {
		listed       []string
		origin, want string
	}{
		{nil, page, ""},
		{[]string{page}, "", ""},
		{[]string{page}, page, page},
		{[]string{page}, "https://APP.example", "https://APP.example"},
		{[]string{page}, "https://app.example.org", ""},
		{[]string{"*"}, page, "*"},
		{[]string{"*", page}, page, page},
		{[]string{page, "*"}, page, page},
	} {
		p := cors.Policy{Origins: row.listed, Head: headOf(row.origin)}
		h := p.AddHeaders(header.List{{Name: "x-bardo-cost", Value: "0"}, {Name: "server", Value: "s"}, {Name: "vary", Value: "Accept"}})
		if got := h.Get("access-control-allow-origin"); got != row.want || p.Allows() != (row.want != "") {
			t.Errorf("%v, %q: %q, allowed %v, want %q", row.listed, row.origin, got, p.Allows(), row.want)
		}
		vary, exposed := "Accept", ""
		if row.want != "" {
			vary, exposed = "Origin, Accept", "x-bardo-cost"
		}
		if h.Get("vary") != vary || h.Get("access-control-expose-headers") != exposed {
			t.Errorf("%v, %q: vary %q, exposed %q", row.listed, row.origin, h.Get("vary"), h.Get("access-control-expose-headers"))
		}
	}
}

func TestAPreflightSaysWhatAPageMaySend(t *testing.T) {
	p := cors.Policy{Origins: []string{page}, Head: headOf(page, "access-control-request-method", "POST", "access-control-request-headers", "authorization, x-a")}
	r, err := p.Options("POST", nil)
	if err != nil || r.Status != http.StatusNoContent || r.Header.Get("allow") != "POST, OPTIONS" || r.Header.Get("access-control-allow-methods") != "POST" ||
		r.Header.Get("access-control-allow-headers") != "authorization, x-a" || r.Header.Get("access-control-max-age") == "" {
		t.Errorf("got %v, %v", r, err)
	}
	p.Head = headOf(page, "access-control-request-method", "POST", "access-control-request-headers", "a: b")
	if r, err := p.Options("POST", nil); err != nil || r.Header.Get("access-control-allow-headers") != "" {
		t.Errorf("what is no list of names is repeated: %v, %v", r, err)
	}
	p.Head = headOf("https://other.example", "access-control-request-method", "POST")
	var f *fault.Fault
	if _, err := p.Options("POST", nil); !errors.As(err, &f) || f.Status != http.StatusForbidden {
		t.Errorf("another origin's preflight: %v", err)
	}
	p.Head = headOf("https://other.example")
	if r, err := p.Options("GET, HEAD", nil); err != nil || r.Header.Get("allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("a program that asks for the methods: %v, %v", r, err)
	}
}
