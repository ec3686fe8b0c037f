package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/internal/telemetry"
)

// got is a request that a fake receiver received.
type got struct {
	path, id string
	header   http.Header
	body     string
}

// fake is a receiver with scripted answers, the last of which is repeated.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	answers []func(w http.ResponseWriter)
	got     []got
}

func newFake(t *testing.T, answers ...func(w http.ResponseWriter)) *fake {
	t.Helper()
	f := &fake{answers: answers}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.got = append(f.got, got{r.URL.String(), r.Header.Get("webhook-id"), r.Header, string(b)})
		answer := f.answers[min(len(f.got), len(f.answers))-1]
		f.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) all() []got {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]got(nil), f.got...)
}

func status(n int, body string, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(n)
		_, _ = io.WriteString(w, body)
	}
}

// address is the fake's URL as configured.
func address(f *fake) config.URL {
	return config.URL{Scheme: "http", Host: strings.TrimPrefix(f.URL, "http://")}
}

const (
	token   = "123456:PLANTED-bot-key"
	hook    = "/api/webhooks/42/PLANTED-hook-key"
	signKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// sendOnce sends an alert to a configuration's only receiver, once.
func sendOnce(t *testing.T, n *config.Notifications) error {
	t.Helper()
	all, err := receivers(n, "gw")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d %v", len(all), err)
	}
	return all[0].send(t.Context(), "msg_1", &message{Alert: alerts.Alert{Event: "provider:down", About: "provider/a", Topic: "provider", Text: "a is down @everyone", Time: began, Data: map[string]string{"provider": "a"}}})
}

// TestTelegramIsSent by sendMessage, as plain text without link previews.
func TestTelegramIsSent(t *testing.T) {
	f := newFake(t, status(200, `{"ok":true,"result":{"message_id":1}}`))
	if err := sendOnce(t, &config.Notifications{TelegramToken: secret.New(token), TelegramChat: "-100", TelegramAPI: address(f), Private: true}); err != nil {
		t.Fatal(err)
	}
	const want = `{"chat_id":"-100","link_preview_options":{"is_disabled":true},"text":"[bardo gw] a is down @everyone"}`
	if g := f.all()[0]; g.path != "/bot"+token+"/sendMessage" || g.body != want || g.header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v", g)
	}
}

// TestDiscordIsSent with wait=true, and mentions nobody.
func TestDiscordIsSent(t *testing.T) {
	f := newFake(t, status(200, `{"id":"1"}`))
	if err := sendOnce(t, &config.Notifications{DiscordWebhook: secret.New(f.URL + hook), Private: true}); err != nil {
		t.Fatal(err)
	}
	const want = `{"allowed_mentions":{"parse":[]},"content":"[bardo gw] a is down @everyone"}`
	if g := f.all()[0]; g.path != hook+"?wait=true" || g.body != want {
		t.Errorf("%+v", g)
	}
}

// TestWebhooksAreSigned according to Standard Webhooks, whose library verifies it; a changed body does not verify.
func TestWebhooksAreSigned(t *testing.T) {
	f := newFake(t, status(204, ""))
	if err := sendOnce(t, &config.Notifications{Webhooks: []config.Webhook{{URL: secret.New(f.URL + "/x?key=1"), Key: secret.New(signKey)}}, Private: true}); err != nil {
		t.Fatal(err)
	}
	v, err := standardwebhooks.NewWebhook(signKey)
	if err != nil {
		t.Fatal(err)
	}
	g := f.all()[0]
	if err := v.Verify([]byte(g.body), g.header); err != nil || g.path != "/x?key=1" || g.id != "msg_1" {
		t.Errorf("%v %+v", err, g)
	}
	if v.Verify([]byte(g.body+" "), g.header) == nil {
		t.Error("a changed body verifies")
	}
	const want = `{"type":"provider:down","timestamp":"2026-11-28T09:00:00Z","data":{"gateway":"gw","topic":"provider","about":"provider/a","state":"firing","text":"[bardo gw] a is down @everyone","repeated":0,"event":{"provider":"a"}}}`
	if g.body != want {
		t.Errorf("%s", g.body)
	}
}

// TestPrivateAddressesAreRefused when the connection is made, also for names that resolve to them.
func TestPrivateAddressesAreRefused(t *testing.T) {
	f := newFake(t, status(200, ""))
	_, port, _ := strings.Cut(strings.TrimPrefix(f.URL, "http://"), ":")
	for _, to := range []string{
		f.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://0177.0.0.1:" + port, "http://2130706433:" + port, "http://127.1:" + port,
		"http://169.254.169.254/latest", "http://10.0.0.1", "http://192.168.1.1", "http://100.64.0.1", "http://[fd00::1]", "http://[fe80::1]", "http://[64:ff9b::7f00:1]",
	} {
		err := sendOnce(t, &config.Notifications{Webhooks: []config.Webhook{{URL: secret.New(to)}}})
		if err == nil {
			t.Errorf("%s was called", to)
		}
	}
	if err := sendOnce(t, &config.Notifications{Webhooks: []config.Webhook{{URL: secret.New(f.URL)}}}); !strings.Contains(unwrapPermanent(err).Error(), "not one of the internet") {
		t.Errorf("%v", err)
	}
	if n := len(f.all()); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// TestRedirectsAreNotFollowed: their target is not configured.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := newFake(t, status(200, ""))
	f := newFake(t, status(307, "", "Location", other.URL))
	err := sendOnce(t, &config.Notifications{Webhooks: []config.Webhook{{URL: secret.New(f.URL)}}, Private: true})
	if err == nil || len(other.all()) != 0 {
		t.Errorf("%v, %d calls", err, len(other.all()))
	}
}

// senderTo returns a sender, and its log.
func senderTo(t *testing.T, n *config.Notifications) (*sender, func() string, *telemetry.Metrics) {
	t.Helper()
	var log lockedBuffer
	n.Quiet, n.PerHour = time.Second, 1000
	m := telemetry.New(telemetry.Build{})
	open := Opener(&alerts.Options{Gateway: "gw", Redact: func(s string) string { return s }, Metrics: m, Log: slog.New(slog.NewTextHandler(&log, nil))})
	taker, err := open(t.Context(), &config.Config{Notifications: *n})
	if err != nil {
		t.Fatal(err)
	}
	return taker.(*sender), log.String, m
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestWhatFailsForAWhileIsSentAgain with the same id, no sooner than the receiver says; permanent failures are not retried. Logs contain no secret.
func TestWhatFailsForAWhileIsSentAgain(t *testing.T) {
	t.Run("webhook", func(t *testing.T) {
		f := newFake(t, status(503, "PLANTED"), status(429, "", "Retry-After", "1"), status(200, ""))
		s, _, _ := senderTo(t, &config.Notifications{Webhooks: []config.Webhook{{URL: secret.New(f.URL)}}, Private: true})
		a := lost()
		s.Take(&a)
		polltest.Until(t, "the third try", func() bool { return len(f.all()) == 3 })
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all := f.all(); all[0].id == "" || all[0].id != all[1].id || all[1].id != all[2].id {
			t.Errorf("%q %q %q", all[0].id, all[1].id, all[2].id)
		}
	})
	for name, row := range map[string]struct {
		answer func(http.ResponseWriter)
		says   string
	}{
		"refused":    {status(401, `{"ok":false,"error_code":401,"description":"Unauthorized"}`), `it answered 401, not ok: \"Unauthorized\"`},
		"not ok":     {status(200, `{"ok":false,"description":"chat not found"}`), `chat not found`},
		"no Bot API": {status(200, `<html>`), `without JSON`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, row.answer)
			s, log, _ := senderTo(t, &config.Notifications{TelegramToken: secret.New(token), TelegramChat: "1", TelegramAPI: address(f), Private: true})
			a := lost()
			s.Take(&a)
			polltest.Until(t, "the error", func() bool { return strings.Contains(log(), "an operator was not notified") })
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log(), strings.ReplaceAll(row.says, `\"`, `\\\"`)) && !strings.Contains(log(), row.says) || strings.Contains(log(), "PLANTED") || len(f.all()) != 1 {
				t.Errorf("%d calls: %s", len(f.all()), log())
			}
		})
	}
}

// TestErrorsHaveNoSecret, whatever fails: the URL is a secret.
func TestErrorsHaveNoSecret(t *testing.T) {
	closed := newFake(t, status(200, ""))
	closed.Close()
	for _, n := range []config.Notifications{
		{TelegramToken: secret.New(token), TelegramChat: "1", TelegramAPI: address(closed), Private: true},
		{DiscordWebhook: secret.New(closed.URL + hook), Private: true},
		{Webhooks: []config.Webhook{{URL: secret.New(closed.URL + "/PLANTED")}}, Private: true},
		{Webhooks: []config.Webhook{{URL: secret.New("http://no such host/PLANTED")}}, Private: true},
		{Webhooks: []config.Webhook{{URL: secret.New("http://name.invalid/PLANTED")}}, Private: true},
	} {
		err := sendOnce(t, &n)
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, unwrapPermanent(err)), "PLANTED") {
			t.Errorf("%v", err)
		}
	}
}

// TestAReceiverThatDoesNotAnswerIsBounded: Take never blocks, the newest messages are kept, dropped ones are counted, and another receiver gets all of them.
func TestAReceiverThatDoesNotAnswerIsBounded(t *testing.T) {
	release := make(chan struct{})
	slow := newFake(t, func(http.ResponseWriter) { <-release })
	quick := newFake(t, status(200, ""))
	s, _, m := senderTo(t, &config.Notifications{Webhooks: []config.Webhook{{URL: secret.New(slow.URL)}, {URL: secret.New(quick.URL)}}, Private: true})
	const n = 3 * backlog
	for i := range n {
		a := lost()
		a.About, a.Text = fmt.Sprint("x", i), fmt.Sprint("text ", i)
		s.Take(&a)
		polltest.Until(t, "the quick one", func() bool { return len(quick.all()) == i+1 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Close(ctx)
	close(release)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(backlog, " messages are lost")) {
		t.Errorf("%v", err)
	}
	if got := counted(t, m); got["webhook 2/sent"] != n || got["webhook 1/dropped"]+got["webhook 1/failed"] != n {
		t.Errorf("%v", got)
	}
}

// counted returns the counters by receiver and result.
func counted(t *testing.T, m *telemetry.Metrics) map[string]int {
	t.Helper()
	families, err := m.Gatherer(nil).Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range families {
		if f.GetName() != "bardo_notifications_total" {
			continue
		}
		for _, c := range f.GetMetric() {
			out[c.GetLabel()[0].GetValue()+"/"+c.GetLabel()[1].GetValue()] = int(c.GetCounter().GetValue())
		}
	}
	return out
}

// TestWhatWaitsIsToldByTheNextSender: a new configuration loses no alert.
func TestWhatWaitsIsToldByTheNextSender(t *testing.T) {
	f := newFake(t, status(200, ""))
	cfg := &config.Config{Notifications: config.Notifications{Webhooks: []config.Webhook{{URL: secret.New(f.URL)}}, Private: true, PerHour: 9, Quiet: time.Second, DownFor: config.Interval(time.Hour)}}
	open := Opener(&alerts.Options{Redact: func(s string) string { return s }, Metrics: telemetry.New(telemetry.Build{}), Log: slog.New(slog.DiscardHandler)})
	first, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := down("a")
	first.Take(&a)
	if err := first.Close(t.Context()); err != nil || len(f.all()) != 0 {
		t.Fatalf("%v, %d messages", err, len(f.all()))
	}
	second := *cfg
	second.Notifications.DownFor = 0
	next, err := open(t.Context(), &second)
	if err != nil {
		t.Fatal(err)
	}
	b := lost()
	next.Take(&b) // what waits is due when it was, so that another one shows that the sender works
	polltest.Until(t, "a message", func() bool { return len(f.all()) == 1 })
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	none, err := open(t.Context(), &config.Config{})
	if none != nil || err != nil {
		t.Errorf("%v %v", none, err)
	}
	if third := next.(*sender).filter.subjects["provider/a"]; third == nil || third.due.IsZero() {
		t.Error("the alert that waits is forgotten")
	}
	var p payload
	if err := json.Unmarshal([]byte(f.all()[0].body), &p); err != nil || p.Type != "payment:lost" {
		t.Errorf("%v %+v", err, p)
	}
}
