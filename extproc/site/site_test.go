package site

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
)

// client is a downstream connection that records what it is sent; it disconnects after the given number of pieces, if that is not 0.
type client struct {
	stream.Client // the methods that pages do not use

	reply  *stream.Reply
	status int
	head   header.List
	pieces []string
	ended  bool
	most   int
}

func (c *client) Reply(r stream.Reply) error {
	c.reply = &r
	return nil
}

func (c *client) StreamHead(status int, h header.List) error {
	c.status, c.head = status, h
	return nil
}

func (c *client) StreamBody(b []byte, end bool) error {
	if c.most > 0 && len(c.pieces) >= c.most {
		return stream.ErrDisconnected
	}
	c.pieces, c.ended = append(c.pieces, string(b)), end
	return nil
}

func serve(t *testing.T, c *client, hd stream.Head, body string, h http.HandlerFunc) (int, error) {
	t.Helper()
	return Serve(t.Context(), c, &hd, []byte(body), h)
}

func TestAnAnswerIsSentWhole(t *testing.T) {
	var c client
	hd := stream.Head{
		Method: http.MethodPost, Path: "/ui/a%2Fb", Query: "x=1&x=2", Host: "gateway.example", Peer: netip.MustParseAddr("2001:db8::1"),
		Header: header.List{{Name: "cookie", Value: "a=1"}, {Name: "cookie", Value: "b=2"}, {Name: "content-type", Value: "application/x-www-form-urlencoded"}},
	}
	status, err := serve(t, &c, hd, "f=g", func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("b")
		if err != nil || cookie.Value != "2" || r.URL.Path != "/ui/a/b" || r.URL.EscapedPath() != "/ui/a%2Fb" || len(r.URL.Query()["x"]) != 2 || r.PostFormValue("f") != "g" ||
			r.Host != "gateway.example" || r.RemoteAddr != "[2001:db8::1]:0" {
			t.Errorf("the request is %+v, %v", r, err)
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Add("Set-Cookie", "c=1")
		w.Header().Add("Set-Cookie", "d=2")
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "short and stout")
	})
	if err != nil || status != http.StatusTeapot || c.reply == nil || string(c.reply.Body) != "short and stout" || c.reply.Status != status || c.reply.Header.Get("content-type") != "text/html" ||
		len(c.reply.Header.Values("set-cookie")) != 2 {
		t.Errorf("%d %v %+v", status, err, c.reply)
	}
}

func TestAHeadHasNoBody(t *testing.T) {
	var c client
	status, err := serve(t, &c, stream.Head{Method: http.MethodHead, Path: "/ui"}, "", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
	if err != nil || status != http.StatusOK || len(c.reply.Body) != 0 {
		t.Errorf("%d %v %+v", status, err, c.reply)
	}
}

func TestWhatIsFlushedIsAStream(t *testing.T) {
	var c client
	status, err := serve(t, &c, stream.Head{Method: http.MethodGet, Path: "/ui"}, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		for _, s := range []string{"one", strings.Repeat("x", stream.MaxPiece+1)} {
			if _, err := io.WriteString(w, s); err != nil || out.Flush() != nil {
				t.Errorf("write: %v", err)
			}
		}
		_, _ = io.WriteString(w, "last")
	})
	if err != nil || status != http.StatusOK || c.status != status || c.reply != nil || c.head.Get("content-type") != "text/event-stream" || !c.ended {
		t.Errorf("%d %v %+v", status, err, c)
	}
	if len(c.pieces) != 4 || c.pieces[0] != "one" || len(c.pieces[1]) != stream.MaxPiece || c.pieces[2] != "x" || c.pieces[3] != "last" {
		t.Errorf("%d pieces", len(c.pieces))
	}
}

func TestAClientThatDisconnectsFailsTheNextWrite(t *testing.T) {
	c := client{most: 1}
	writes := 0
	_, err := serve(t, &c, stream.Head{Method: http.MethodGet, Path: "/ui"}, "", func(w http.ResponseWriter, _ *http.Request) {
		for ; writes < 100; writes++ {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush() // the next write reports it
		}
	})
	if !errors.Is(err, stream.ErrDisconnected) || writes != 2 {
		t.Errorf("%v after %d writes", err, writes)
	}
}

func TestAPathThatIsNoneIsRefused(t *testing.T) {
	for _, path := range []string{"", "ui", "/ui/%zz", "/ui\x7f"} {
		var c client
		called := false
		if _, err := Serve(context.Background(), &c, &stream.Head{Method: http.MethodGet, Path: path}, nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true })); err == nil || called {
			t.Errorf("%q is served", path)
		}
	}
}
