package adminapi_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/polltest"
)

// streamed is a kind of event for tests.
var streamed = event.Declare[struct{}]("test:streamed", "The tests' own.")

// TestAStreamEndsWithItsToken: a stream gets no events after the token it was opened with has been replaced.
func TestAStreamEndsWithItsToken(t *testing.T) {
	var events event.Sink
	var changed atomic.Bool
	web := httptest.NewServer(adminapi.Handler(adminapi.Options{Events: &events, Token: func() string {
		if changed.Load() {
			return token + "2"
		}
		return token
	}}))
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/admin/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	streamed.Emit(&events, "before", struct{}{})
	lines := bufio.NewReader(resp.Body)
	for text := ""; !strings.Contains(text, `"before"`); {
		if text, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	changed.Store(true)
	streamed.Emit(&events, "after", struct{}{})
	rest, err := io.ReadAll(lines)
	if err != nil || strings.Contains(string(rest), `"after"`) {
		t.Errorf("%v: %q", err, rest)
	}
}
