package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	"github.com/cenkalti/backoff/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/internal/config"
)

// receiver sends notifications to one service.
type receiver struct {
	name    string // for logs and metrics, without secrets
	request func(id string, m *message) (*http.Request, error)
	fault   func(status int, body []byte) (reason string, wait time.Duration) // describes an unsuccessful answer
	client  *http.Client
}

const (
	callTimeout = 10 * time.Second
	maxAnswer   = 64 << 10 // bytes
	maxText     = 1500     // characters: Discord allows 2,000, Telegram 4,096 UTF-16 units
)

// receivers returns the configured receivers.
func receivers(n *config.Notifications, gateway string) (all []*receiver, err error) {
	client := newClient(n.Private)
	if n.TelegramToken.IsSet() {
		all = append(all, telegram(n, gateway))
	}
	if n.DiscordWebhook.IsSet() {
		all = append(all, discord(n, gateway))
	}
	for i, w := range n.Webhooks {
		r, err := webhook(w, gateway)
		if err != nil {
			return nil, fmt.Errorf("notifications.webhooks[%d]: %w", i, err)
		}
		r.name = "webhook " + strconv.Itoa(i+1)
		all = append(all, r)
	}
	for _, r := range all {
		r.client = client
	}
	return all, nil
}

// newClient returns the HTTP client for receivers. It uses no proxy, which could connect to refused addresses, follows no redirects, and stores no cookies.
func newClient(private bool) *http.Client {
	d := &net.Dialer{Timeout: callTimeout}
	if !private {
		d.Control = ssrf.New(ssrf.WithAnyPort()).Safe
	}
	return &http.Client{
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSHandshakeTimeout: callTimeout, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: maxAnswer,
		},
	}
}

// send sends a message once. The error is a *backoff.PermanentError if a retry is useless, and a *backoff.RetryAfterError if the receiver states a delay.
// Errors do not contain the receiver's URL.
func (r *receiver) send(ctx context.Context, id string, m *message) error {
	req, err := r.request(id, m)
	if err != nil {
		return backoff.Permanent(err)
	}
	resp, err := r.client.Do(req.WithContext(ctx))
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	reason, wait := r.fault(resp.StatusCode, body)
	if resp.StatusCode/100 == 2 && reason == "" {
		return nil
	}
	err = fmt.Errorf("it answered %d%s", resp.StatusCode, reason)
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests:
		if after, e := strconv.Atoi(resp.Header.Get("Retry-After")); e == nil {
			wait = max(wait, time.Duration(after)*time.Second)
		}
		if wait > 0 {
			return fmt.Errorf("%w: %w", err, backoff.RetryAfter(int((wait+time.Second-1)/time.Second)))
		}
		return err
	case s >= 500, s == http.StatusRequestTimeout:
		return err
	default:
		return backoff.Permanent(err)
	}
}

// withoutURL removes the URL, which is a secret, from an error.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	for _, refused := range []error{ssrf.ErrProhibitedIP, ssrf.ErrProhibitedNetwork} {
		if errors.Is(err, refused) {
			return backoff.Permanent(errors.New("its address is not one of the internet: notifications.private_addresses allows that"))
		}
	}
	return err
}

// newRequest returns a POST request with a JSON body.
func newRequest(to string, body any) (*http.Request, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to, bytes.NewReader(b))
	if err != nil {
		return nil, errors.New("not a URL") // err contains the URL
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "bardo/"+cli.Version)
	return req, nil
}

// truncate shortens a text to maxText characters.
func truncate(s string) string {
	if r := []rune(s); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return s
}

// quoted is a receiver's error text, bounded and on one line.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return ": " + strconv.Quote(truncate(s)[:min(len(truncate(s)), 200)])
}

// telegram sends by the Bot API's method sendMessage (https://core.telegram.org/bots/api#sendmessage), as plain text.
func telegram(n *config.Notifications, gateway string) *receiver {
	to := n.TelegramAPI.String() + "/bot" + n.TelegramToken.Reveal() + "/sendMessage"
	return &receiver{
		name: "telegram",
		request: func(_ string, m *message) (*http.Request, error) {
			return newRequest(to, map[string]any{"chat_id": n.TelegramChat, "text": truncate(m.text(gateway)), "link_preview_options": map[string]bool{"is_disabled": true}})
		},
		fault: func(_ int, body []byte) (string, time.Duration) {
			var a struct {
				OK          bool   `json:"ok"`
				Description string `json:"description"`
				Parameters  struct {
					RetryAfter int `json:"retry_after"`
				} `json:"parameters"`
			}
			if json.Unmarshal(body, &a) != nil {
				return ", without JSON", 0
			}
			if a.OK {
				return "", 0
			}
			return ", not ok" + quoted(a.Description), time.Duration(a.Parameters.RetryAfter) * time.Second
		},
	}
}

// discord executes a webhook (https://docs.discord.com/developers/resources/webhook#execute-webhook). Mentions in the text are disabled.
func discord(n *config.Notifications, gateway string) *receiver {
	to := n.DiscordWebhook.Reveal()
	if u, err := url.Parse(to); err == nil {
		q := u.Query()
		q.Set("wait", "true") // without it, a message that was not stored is not reported as an error
		u.RawQuery = q.Encode()
		to = u.String()
	}
	return &receiver{
		name: "discord",
		request: func(_ string, m *message) (*http.Request, error) {
			return newRequest(to, map[string]any{"content": truncate(m.text(gateway)), "allowed_mentions": map[string][]string{"parse": {}}})
		},
		fault: func(status int, body []byte) (string, time.Duration) {
			var a struct {
				Message    string  `json:"message"`
				RetryAfter float64 `json:"retry_after"` // seconds
			}
			if status/100 == 2 || json.Unmarshal(body, &a) != nil {
				return "", 0
			}
			return quoted(a.Message), time.Duration(min(a.RetryAfter, 3600) * float64(time.Second))
		},
	}
}

// payload is a webhook's body, in the format of Standard Webhooks (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
type payload struct {
	Type      string    `json:"type"` // the event's name
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		Gateway string `json:"gateway"`
		Topic   string `json:"topic"`
		About   string `json:"about"`
		State   string `json:"state"` // firing, resolved or test
		Text    string `json:"text"`
		More    int    `json:"repeated"`
		Event   any    `json:"event"` // the event's fields
	} `json:"data"`
}

// webhook sends JSON to a URL of the operator, signed if there is a key.
func webhook(w config.Webhook, gateway string) (*receiver, error) {
	var signer *standardwebhooks.Webhook
	if w.Key.IsSet() {
		var err error
		if signer, err = standardwebhooks.NewWebhook(w.Key.Reveal()); err != nil {
			return nil, errors.New("the signing key is not base64") // err may contain the key
		}
	}
	return &receiver{
		request: func(id string, m *message) (*http.Request, error) {
			p := payload{Type: m.Event, Timestamp: m.Time.UTC()}
			d := &p.Data
			d.Gateway, d.Topic, d.About, d.State, d.Text, d.More, d.Event = gateway, m.Topic, m.About, m.state(), m.text(gateway), m.More, m.Data
			req, err := newRequest(w.URL.Reveal(), p)
			if err != nil {
				return nil, err
			}
			at := time.Now()
			req.Header.Set(standardwebhooks.HeaderWebhookID, id)
			req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
			if signer == nil {
				return req, nil
			}
			return req, sign(req, signer, id, at)
		},
		fault: func(int, []byte) (string, time.Duration) { return "", 0 },
	}, nil
}

// sign signs a request's body.
func sign(req *http.Request, by *standardwebhooks.Webhook, id string, at time.Time) error {
	r, err := req.GetBody()
	if err != nil {
		return err
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	signature, err := by.Sign(id, at, body)
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return err
}

// state is firing, resolved or test.
func (m *message) state() string {
	switch {
	case strings.HasPrefix(m.About, testAbout):
		return "test"
	case m.Over:
		return "resolved"
	default:
		return "firing"
	}
}
