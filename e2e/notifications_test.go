package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/e2e/receiver"
)

const notifySign = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// notified is a configuration that tells all receivers.
func notified(r *receiver.Receivers, more string) string {
	return fmt.Sprintf(`notifications: {private_addresses: true, down_for: 0, telegram_token: %q, telegram_chat: %q, telegram_api: %q, discord_webhook: %q,
  webhooks: [{url: %q, signing_key: %s}]%s}
`, receiver.BotToken, receiver.Chat, r.URL, r.URL+receiver.DiscordHook, r.URL+receiver.Hook, notifySign, more)
}

// toldAll waits until each receiver was told a text.
func toldAll(t *testing.T, r *receiver.Receivers, text string) {
	t.Helper()
	for _, by := range []string{"telegram", "discord", "webhook"} {
		eventually(t, by+" is told: "+text, func() bool { return strings.Contains(r.Texts(by), text) })
	}
}

// noSecret asserts that no secret of the receivers, and nothing of requests, is where it should not be.
func noSecret(t *testing.T, g *gateway.Gateway, r *receiver.Receivers) {
	t.Helper()
	told := r.Texts("telegram") + r.Texts("discord") + r.Texts("webhook")
	for where, text := range map[string]string{"the log": g.Log(), "what is told": told, "the configuration": g.Bardo(t, "config", "print")} {
		for _, planted := range []string{"PLANTED", strings.TrimPrefix(notifySign, "whsec_")} {
			if i := strings.Index(text, planted); i >= 0 {
				t.Errorf("%s has %q: …%.200s", where, planted, text[max(0, i-100):])
			}
		}
	}
}

// TestOperatorsAreToldThatAProviderIsDown and back, once each, by Telegram, Discord and a signed webhook, also by a receiver that is busy at first; of the requests
// they are told nothing.
func TestOperatorsAreToldThatAProviderIsDown(t *testing.T) {
	t.Parallel()
	r := receiver.StartReceivers(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: "limits: {rpm: 0}\nrouting: {ping_interval: 200ms}\n" + notified(r, ""), Providers: []gateway.Provider{{ID: "first", Fake: p, Models: models("m", "")}}})
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: "PLANTED question"}.call()); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	r.Refuse(2)
	p.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable, Message: "PLANTED of the provider"})
	for range 5 {
		g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: "PLANTED question"}.call())
	}
	toldAll(t, r, "Provider first is down")
	p.Behave(fake.Behaviour{})
	eventually(t, "an answer, and with it the end", func() bool {
		return g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()).Status == http.StatusOK && strings.Contains(r.Texts("discord"), "works again")
	})
	toldAll(t, r, "Provider first works again")
	headers, bodies := r.Hooked()
	v, err := standardwebhooks.NewWebhook(notifySign)
	if err != nil {
		t.Fatal(err)
	}
	for i := range bodies {
		if err := v.Verify(bodies[i], headers[i]); err != nil {
			t.Errorf("%v: %s", err, bodies[i])
		}
	}
	if n := strings.Count(r.Texts("discord"), "is down"); n != 1 {
		t.Errorf("it is told %d times: %s", n, r.Texts("discord"))
	}
	noSecret(t, g, r)
	if n := g.Metrics(t).Sum("bardo_notifications_total", `result="sent"`); n < 6 {
		t.Errorf("%v are counted", n)
	}
}

// TestOperatorsAreToldOfSpending: a limit that is nearly spent, and a day that costs far more than those before.
func TestOperatorsAreToldOfSpending(t *testing.T) {
	t.Parallel()
	r := receiver.StartReceivers(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 450_000}})
	g := gateway.Run(t, gateway.Options{Config: quick + notified(r, ", topics: [budget]"), Providers: []gateway.Provider{{ID: "first", Fake: p, Models: models("m", "")}}})
	key := g.CreateKey(t, "--name", "alice", "--limit-usd-day", "1.2")
	call := ask{dialect: fake.OpenAI, model: "m"}.call()
	call.Key = key.Key
	if got := g.Do(t, call); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	toldAll(t, r, "(alice) has spent 90 % of its limit for the day")
	noSecret(t, g, r)
}

// TestNotifyTest sends to each receiver, says which one did not take it, and why, without the secrets.
func TestNotifyTest(t *testing.T) {
	t.Parallel()
	r := receiver.StartReceivers(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + notified(r, ""), Providers: []gateway.Provider{{ID: "first", Fake: p, Models: models("m", "")}}})
	if out := g.Bardo(t, "notify", "test"); out != "telegram: sent\ndiscord: sent\nwebhook 1: sent\n" {
		t.Errorf("%q", out)
	}
	toldAll(t, r, "This is a test of the notifications.")
	file := filepath.Join(t.TempDir(), "bardo.yaml")
	for _, row := range []struct{ old, now, says string }{
		{receiver.BotToken, "4200:PLANTEDWRONG", `telegram: not sent: it answered 401, not ok: "Unauthorized"`},
		{receiver.DiscordHook, "/api/webhooks/42/PLANTEDWRONG", `discord: not sent: it answered 404: "Unknown Webhook"`},
		{receiver.Hook, "/hook?key=PLANTEDWRONG", "webhook 1: not sent: it answered 400"},
		{"private_addresses: true", "private_addresses: false", "not sent: its address is not one of the internet"},
	} {
		text := strings.Replace(notified(r, ""), row.old, row.now, 1)
		if strings.Contains(row.now, "false") { // with TLS, as it is required then
			text = strings.ReplaceAll(text, "http://", "https://")
		}
		if err := os.WriteFile(file, []byte("providers: {openai: {api_key: sk-x}}\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := g.Try(t, "notify", "test", "-c", file)
		if got.Code != 1 || !strings.Contains(got.Stdout, row.says) || strings.Contains(got.Stdout+got.Stderr, "PLANTED") {
			t.Errorf("%s: %d %q %q", row.now, got.Code, got.Stdout, got.Stderr)
		}
	}
	if got := g.Try(t, "notify", "test", "-c", filepath.Join(t.TempDir(), "none.yaml")); got.Code == 0 {
		t.Errorf("%+v", got)
	}
	noSecret(t, g, r)
}
