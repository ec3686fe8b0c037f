package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"
)

var secretKey = "bardo_sk_AbCdEf123456_" + strings.Repeat("0123456789", 4) + "abc_Zz9876"

func logged(t *testing.T, log func(*slog.Logger)) string {
	t.Helper()
	var b bytes.Buffer
	l, _, err := NewLogger(&b, "debug", false)
	if err != nil {
		t.Fatal(err)
	}
	log(l)
	var object map[string]any
	if err := json.Unmarshal(b.Bytes(), &object); err != nil {
		t.Fatalf("%s: %v", b.String(), err)
	}
	return b.String()
}

func TestCredentialsAreMaskedWhereverTheyStand(t *testing.T) {
	for _, c := range []struct {
		name, value, secret, keeps string
	}{
		{"a key", secretKey, "0123456789", "bardo_sk_AbCdEf123456_…"},
		{"a key that was masked before", "bardo_sk_AbCdEf123456_…", "……", "bardo_sk_AbCdEf123456_…"},
		{"a publishable key", strings.Replace(secretKey, "_sk_", "_pk_", 1), "0123456789", "bardo_pk_AbCdEf123456_…"},
		{"a broken key", "bardo_sk_0123456789", "0123456789", "bardo_sk_…"},
		{"a bearer token", "Authorization: Bearer abcdefgh.ijkl", "abcdefgh", "Bearer …"},
		{"a bearer token in small letters", "got bearer abcdefghijkl, sorry", "abcdefgh", "sorry"},
		{"an OpenAI key", "key sk-proj-abc_DEF-123 refused", "abc_DEF", "refused"},
		{"a Google key", "AIzaSyA1234567890abcdef", "SyA1234", "AIza…"},
		{"a JWT", "eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl", "c2lnbmF0dXJl", "eyJ…"},
		{"a key in a URL", "GET https://api.example/v1beta/models?alt=sse&key=topsecret1", "topsecret1", "alt=sse&key=…"},
		{"no credential", "the risk-assessor of disk-cache basics", "…", "risk-assessor of disk-cache basics"},
	} {
		for place, log := range map[string]func(*slog.Logger){
			"message":  func(l *slog.Logger) { l.Info(c.value) },
			"string":   func(l *slog.Logger) { l.Info("m", "a", c.value) },
			"error":    func(l *slog.Logger) { l.Info("m", "err", fmt.Errorf("call: %w", errors.New(c.value))) },
			"stringer": func(l *slog.Logger) { l.Info("m", "u", &url.URL{Opaque: c.value}) },
			"list":     func(l *slog.Logger) { l.Info("m", "l", []string{"x", c.value}) },
			"group":    func(l *slog.Logger) { l.Info("m", slog.Group("g", "a", c.value)) },
			"logger":   func(l *slog.Logger) { l.With("a", c.value).WithGroup("g").Info("m", "b", 1) },
			"name":     func(l *slog.Logger) { l.Info("m", c.value, 1) },
		} {
			t.Run(c.name+" in a "+place, func(t *testing.T) {
				line := logged(t, log)
				if strings.Contains(line, c.secret) {
					t.Errorf("shown: %s", line)
				}
				if !strings.Contains(line, c.keeps) {
					t.Errorf("%q is missing: %s", c.keeps, line)
				}
			})
		}
	}
}

func TestValuesOfSecretNamesAreMasked(t *testing.T) {
	for _, name := range []string{"authorization", "Authorization", "x-api-key", "api_key", "apiKey", "APIKey", "apikey", "wallet_key", "password", "client_secret", "pepper"} {
		line := logged(t, func(l *slog.Logger) { l.Info("m", name, `hun"ter2`, "after", "kept") })
		if strings.Contains(line, "ter2") || !strings.Contains(line, `"after":"kept"`) {
			t.Errorf("%s: %s", name, line)
		}
	}
}

type conversation struct{ Prompt string }

type broken struct{ text *string }

func (b *broken) String() string { return *b.text }

func TestPromptsCannotBeLogged(t *testing.T) {
	const prompt = "my diary"
	for name, v := range map[string]any{
		"bytes":           []byte(prompt),
		"raw JSON":        json.RawMessage(`{"a":"` + prompt + `"}`),
		"a struct":        conversation{prompt},
		"a pointer":       &conversation{prompt},
		"structs":         []conversation{{prompt}},
		"a map":           map[string]string{"a": prompt},
		"a text too long": strings.Repeat("x", longest) + prompt,
		"a broken value":  (*broken)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			if line := logged(t, func(l *slog.Logger) { l.Info("m", "v", v) }); strings.Contains(line, prompt) {
				t.Error(line)
			}
		})
	}
}

func TestScalarsAreLoggedAsTheyAre(t *testing.T) {
	line := logged(t, func(l *slog.Logger) {
		l.Warn("hello", "n", 7, "took", 3*time.Second+1500*time.Microsecond, "ok", true, "x", 1.5, "nobody", nil)
	})
	for _, want := range []string{`"level":"WARN"`, `"msg":"hello"`, `"n":7`, `"took_ms":3001.5,`, `"ok":true`, `"x":1.5`, `"time":"`} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is missing: %s", want, line)
		}
	}
}

func TestLevelCanBeChanged(t *testing.T) {
	var b bytes.Buffer
	l, level, err := NewLogger(&b, "warn", false)
	if err != nil {
		t.Fatal(err)
	}
	l.Info("quiet")
	level.Set(slog.LevelInfo)
	l.Info("loud")
	if s := b.String(); strings.Contains(s, "quiet") || !strings.Contains(s, "loud") {
		t.Error(s)
	}
	if _, _, err := NewLogger(&b, "verbose", false); err == nil {
		t.Error("an unknown level was accepted")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestRedactorPassesErrorsOn(t *testing.T) {
	if _, err := (redactor{full{}}).Write([]byte("x")); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

func BenchmarkLog(b *testing.B) {
	l, _, err := NewLogger(io.Discard, "info", false)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Info("request", "id", "req_0123456789", "key", "AbCdEf123456", "provider", "openai", "model", "gpt-5", "status", 200, "took", time.Second)
	}
}

// TestC6TextIsForPeople: the time of day, words, and durations with their unit; a client's text cannot move the cursor.
func TestC6TextIsForPeople(t *testing.T) {
	var b bytes.Buffer
	l, _, err := NewLogger(&b, "info", true)
	if err != nil {
		t.Fatal(err)
	}
	l.Warn("a request failed", "took", 1500*time.Millisecond+300, "model", "\x1b[2Jm", "key", secretKey)
	line := b.String()
	if !strings.Contains(line, `level=WARN msg="a request failed" took=1.5s model="\x1b[2Jm" key=bardo_sk_AbCdEf123456_…`) || len(line) < 5 || line[:5] != "time=" {
		t.Errorf("%q", line)
	}
	if _, err := time.Parse("time=15:04:05.000", strings.Fields(line)[0]); err != nil {
		t.Error(err)
	}
}
