package extproc

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/quota"
)

// faulty is a part of the program that panics.
type faulty struct{}

func (faulty) Verify(context.Context, auth.Request) (policy.Principal, bool, error) {
	panic("a value that quotes the prompt")
}

// lone is a client that keeps what it is answered.
type lone struct {
	door
	got reply
}

func (l *lone) Reply(r reply) error {
	l.got = r
	return nil
}

// TestAPanicEndsOneRequest with a 500 in its client's format; it is counted, and the log has the stack and nothing that was said.
func TestAPanicEndsOneRequest(t *testing.T) {
	var log strings.Builder
	m := telemetry.New(telemetry.Build{})
	dialects := map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}} //nolint:exhaustive // one client
	g := New(&Runtime{Dialects: dialects}, Deps{
		Verifier: faulty{}, Metrics: m, Log: slog.New(slog.NewJSONHandler(&log, nil)), Limiter: quota.New(quota.Options{}),
	})
	hd := newHead(header.List{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/v1/models"}, {Name: ":authority", Value: "localhost"}}, "127.0.0.1:1")
	for range 2 {
		d := &lone{}
		if err := g.serve(t.Context(), d, hd, true); err != nil {
			t.Fatal(err)
		}
		if d.got.status != http.StatusInternalServerError || !strings.Contains(string(d.got.body), `"code":"internal"`) {
			t.Errorf("%d %s", d.got.status, d.got.body)
		}
	}
	if g.Live() != 0 {
		t.Errorf("%d exchanges are under way", g.Live())
	}
	if s := log.String(); !strings.Contains(s, "panic_test.go") || strings.Contains(s, "prompt\"") || strings.Contains(s, "quotes the prompt") {
		t.Errorf("the log says %s", s)
	}
}
