package promptlog

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/secret"
)

// call is a call that a receiver received.
type call struct {
	path, auth, kind string
	body             []byte
}

// listen starts a receiver that answers with the statuses in turn, repeating the last one.
func listen(t *testing.T, statuses ...int) (r *receiver, calls func() []call) {
	t.Helper()
	var mu sync.Mutex
	var got []call
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, call{req.URL.Path, req.Header.Get("Authorization"), req.Header.Get("Content-Type"), body})
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(statuses[min(len(got), len(statuses))-1])
	}))
	t.Cleanup(s.Close)
	p := &config.Prompts{OTLP: config.URL{Scheme: "http", Host: strings.TrimPrefix(s.URL, "http://"), Path: "/in"}, OTLPHeaders: map[string]config.Secret{"Authorization": secret.New("Bearer x")}}
	r = newReceiver(p)
	r.retryDelay = time.Millisecond
	t.Cleanup(func() { _ = r.Close() })
	return r, func() []call { mu.Lock(); defer mu.Unlock(); return slices.Clone(got) }
}

var entries = []*prompts.Entry{
	{At: time.UnixMilli(1_700_000_000_000), RequestID: "req_1", Account: "k1", Provider: "p", Model: "m", Request: []prompts.Text{{Kind: "user", Text: "<EMAIL_1>"}}},
	{At: time.UnixMilli(1_700_000_000_001), RequestID: "req_2", Account: "k1"},
}

// TestF05AReceiverOfLogsGetsPrompts as OTLP: OpenTelemetry's library parses it. A busy receiver is retried.
func TestF05AReceiverOfLogsGetsPrompts(t *testing.T) {
	t.Parallel()
	r, calls := listen(t, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusOK)
	if err := r.Write(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	got := calls()
	if len(got) != 3 || got[2].path != "/in/v1/logs" || got[2].auth != "Bearer x" || got[2].kind != "application/json" {
		t.Fatalf("%d calls, the last one to %s", len(got), got[len(got)-1].path)
	}
	var d logs.LogsData
	if err := protojson.Unmarshal(got[2].body, &d); err != nil {
		t.Fatal(err)
	}
	records := d.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()
	if len(records) != 2 || records[0].GetTimeUnixNano() != 1_700_000_000_000_000_000 || records[0].GetEventName() != "bardo.prompt" || records[0].GetAttributes()[0].GetValue().GetStringValue() != "req_1" {
		t.Fatalf("%v", records)
	}
	var e prompts.Entry
	if err := json.Unmarshal([]byte(records[0].GetBody().GetStringValue()), &e); err != nil || e.RequestID != "req_1" || e.Request[0].Text != "<EMAIL_1>" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestAReceiverThatRefusesIsNotAskedAgain, and a redirect is not followed: content goes only where the operator says.
func TestAReceiverThatRefusesIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{http.StatusBadRequest: 1, http.StatusUnauthorized: 1, http.StatusTemporaryRedirect: 1, http.StatusInternalServerError: 1, http.StatusBadGateway: 3} {
		r, calls := listen(t, status)
		if err := r.Write(t.Context(), entries); err == nil {
			t.Errorf("%d: no error", status)
		}
		if n := len(calls()); n != want {
			t.Errorf("%d: %d calls", status, n)
		}
	}
}

func TestAReceiverThatIsAwayIsNotWaitedForAtTheEnd(t *testing.T) {
	t.Parallel()
	r, calls := listen(t, http.StatusServiceUnavailable)
	r.retryDelay = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Write(ctx, entries) }()
	polltest.Until(t, "the first call", func() bool { return len(calls()) == 1 })
	stop()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
}
