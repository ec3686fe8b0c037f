// Package receiver has fakes of what the gateway sends notifications and usage to: Telegram, Discord, webhooks, ClickHouse.
package receiver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// Receivers are a Telegram Bot API, Discord's webhooks and a webhook of an operator, as their documentation has them:
// https://core.telegram.org/bots/api#sendmessage, https://docs.discord.com/developers/resources/webhook#execute-webhook.
type Receivers struct {
	URL string

	mu      sync.Mutex
	refuse  int // calls to refuse for a while
	texts   map[string][]string
	bodies  [][]byte
	headers []http.Header
}

// Credentials of the fakes.
const (
	BotToken    = "4200:PLANTEDBOTKEY_0123456789"
	Chat        = "-10042"
	DiscordHook = "/api/webhooks/42/PLANTEDHOOKKEY_0123456789"
	Hook        = "/hook?key=PLANTEDWEBHOOKKEY_0123456789"
)

// StartReceivers starts them.
func StartReceivers(t testing.TB) *Receivers {
	t.Helper()
	r := &Receivers{texts: map[string][]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /bot"+BotToken+"/sendMessage", r.telegram)
	mux.HandleFunc("POST /{bot}/sendMessage", func(w http.ResponseWriter, _ *http.Request) {
		telegramError(w, http.StatusUnauthorized, "Unauthorized")
	})
	mux.HandleFunc("POST "+DiscordHook, r.discord)
	mux.HandleFunc("/api/webhooks/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, map[string]any{"message": "Unknown Webhook", "code": 10015})
	})
	mux.HandleFunc("POST /hook", r.hook)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

// Refuse has the next n calls told to come again in a second.
func (r *Receivers) Refuse(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = n
}

// Texts are what was taken: by telegram, discord or webhook.
func (r *Receivers) Texts(by string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.texts[by], "\n")
}

// Hooked are the headers and bodies of the webhook.
func (r *Receivers) Hooked() ([]http.Header, [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]http.Header(nil), r.headers...), append([][]byte(nil), r.bodies...)
}

func (r *Receivers) take(by, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts[by] = append(r.texts[by], text)
}

// busy reports whether a call is to come again.
func (r *Receivers) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse--
	return r.refuse >= 0
}

func (r *Receivers) telegram(w http.ResponseWriter, req *http.Request) {
	var m struct {
		Chat json.RawMessage `json:"chat_id"`
		Text string          `json:"text"`
	}
	switch err := json.NewDecoder(req.Body).Decode(&m); {
	case r.busy():
		answer(w, http.StatusTooManyRequests, map[string]any{"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 1", "parameters": map[string]int{"retry_after": 1}})
	case err != nil || req.Header.Get("Content-Type") != "application/json":
		telegramError(w, http.StatusBadRequest, "Bad Request: can't parse the request")
	case strings.Trim(string(m.Chat), `"`) != Chat:
		telegramError(w, http.StatusBadRequest, "Bad Request: chat not found")
	case m.Text == "":
		telegramError(w, http.StatusBadRequest, "Bad Request: message text is empty")
	default:
		if len(utf16.Encode([]rune(m.Text))) > 4096 {
			telegramError(w, http.StatusBadRequest, "Bad Request: message is too long")
			return
		}
		r.take("telegram", m.Text)
		answer(w, http.StatusOK, map[string]any{"ok": true, "result": map[string]any{"message_id": 1, "text": m.Text}})
	}
}

func telegramError(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]any{"ok": false, "error_code": status, "description": text})
}

func (r *Receivers) discord(w http.ResponseWriter, req *http.Request) {
	var m struct {
		Content  string `json:"content"`
		Mentions struct {
			Parse []string `json:"parse"`
		} `json:"allowed_mentions"`
	}
	switch err := json.NewDecoder(req.Body).Decode(&m); {
	case r.busy():
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, map[string]any{"message": "You are being rate limited.", "retry_after": 0.65, "global": false})
	case err != nil || m.Content == "" || utf8.RuneCountInString(m.Content) > 2000:
		answer(w, http.StatusBadRequest, map[string]any{"message": "Invalid Form Body", "code": 50035})
	case m.Mentions.Parse == nil:
		answer(w, http.StatusBadRequest, map[string]any{"message": "this test wants mentions switched off"})
	case req.URL.Query().Get("wait") != "true":
		w.WriteHeader(http.StatusNoContent)
	default:
		r.take("discord", m.Content)
		answer(w, http.StatusOK, map[string]any{"id": "1", "content": m.Content})
	}
}

func (r *Receivers) hook(w http.ResponseWriter, req *http.Request) {
	if r.busy() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b, err := io.ReadAll(req.Body)
	if err != nil || req.URL.RequestURI() != Hook {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.take("webhook", string(b))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers, r.bodies = append(r.headers, req.Header), append(r.bodies, b)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}
