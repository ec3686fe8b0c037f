package envoy

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestEnvoysLinesBecomeRecords(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"info\tmain\tall dependencies initialized", `level=INFO msg="all dependencies initialized" component=envoy.main`},
		{"warning\tconfig\tgRPC config: closed", `level=WARN msg="gRPC config: closed" component=envoy.config`},
		{"warning\tmain\tcaught ENVOY_SIGTERM", `level=INFO msg="caught ENVOY_SIGTERM" component=envoy.main`},
		{"critical\tbacktrace\tCaught Segmentation fault", `level=ERROR msg="Caught Segmentation fault" component=envoy.backtrace`},
		{`{"status":200}`, `level=INFO msg="{\"status\":200}" component=envoy`},
		{"no such\tlevel", `level=INFO msg="no such\tlevel" component=envoy`},
	} {
		if got := logged(tt.line + "\n"); got != tt.want+"\n" {
			t.Errorf("%q is logged as %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestC6AnEnvoyThatIsToldToStopMayLoseItsConfigurationStream(t *testing.T) {
	line := "warning\tconfig\tStreamAggregatedResources gRPC config stream to bardo_xds closed: 13, upstream_reset_after_response_started\n"
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		stop       context.Context
		line, want string
	}{
		{t.Context(), line, "level=WARN"},
		{stopped, line, "level=INFO"},
		{stopped, "warning\tconfig\tgRPC config: rejected\n", "level=WARN"},
		{stopped, "error\tmain\tanother\n", "level=ERROR"},
	} {
		if got := loggedUntil(tt.stop, tt.line); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q is logged as %q, want %s", tt.line, got, tt.want)
		}
	}
}

func TestWhereOutputIsCutChangesNothing(t *testing.T) {
	text := "info\tmain\tone\n\nerror\tmain\ttwo\nlast"
	want := logged(text)
	for i := range text {
		if got := logged(text[:i], text[i:]); got != want {
			t.Errorf("cut at %d: %q, want %q", i, got, want)
		}
	}
}

func TestALineWithoutEndIsBounded(t *testing.T) {
	pieces := append(slices.Repeat([]string{strings.Repeat("x", 1000)}, 64), "\ninfo\tmain\tnext\n")
	if got := logged(pieces...); len(got) > maxLine+200 || !strings.Contains(got, "msg=next") {
		t.Errorf("%d bytes are logged", len(got))
	}
}

func logged(pieces ...string) string { return loggedUntil(context.Background(), pieces...) }

func loggedUntil(stop context.Context, pieces ...string) string {
	var out bytes.Buffer
	w := &lineWriter{stop: stop, log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))}
	for _, p := range pieces {
		_, _ = w.Write([]byte(p))
	}
	w.flush()
	return out.String()
}
