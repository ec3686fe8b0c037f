package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// escapedKey is a key as JSON may write it: every third character is an escape, so that the key stands nowhere as it is.
func escapedKey(key string) string {
	var b strings.Builder
	for i, c := range []byte(key) {
		if i%3 == 1 {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quotingErrors are errors of a provider that quote a key in each of their members, in the forms of OpenAI, Anthropic and Google.
func quotingErrors(key string) map[string]string {
	return map[string]string{
		"openai":          fmt.Sprintf(`{"error":{"message":"a key %[1]s b","type":"t %[1]s","param":"p.%[1]s","code":"c_%[1]s"}}`, key),
		"openai, escaped": fmt.Sprintf(`{"error":{"message":"a key %[1]s b","type":"t %[1]s","param":"p.%[1]s","code":"c_%[1]s"}}`, escapedKey(key)),
		"anthropic":       fmt.Sprintf(`{"type":"error","error":{"type":"t_%[1]s","message":"a key %[1]s b","details":{"error_code":"c_%[1]s","more":"%[1]s"}}}`, key),
		"gemini":          fmt.Sprintf(`{"error":{"code":400,"message":"a key %[1]s b","status":"S_%[1]s","details":[{"reason":"%[1]s"}]}}`, key),
		"in base64": fmt.Sprintf(`{"error":{"message":"a key %s b, %s, %s and %s"}}`, base64.StdEncoding.EncodeToString([]byte(key)),
			base64.StdEncoding.EncodeToString([]byte("Bearer "+key+"\n")), base64.URLEncoding.EncodeToString([]byte("me:"+key)),
			base64.RawURLEncoding.EncodeToString([]byte("it is "+key+" now"))),
		"text":             "a key " + key + " b",
		"JSON in a text":   "a key " + escapedKey(key) + " b",
		"cut in the key":   fmt.Sprintf(`{"error":{"message":"a key %s%s b"}}`, strings.Repeat("x ", 240), key),
		"a page":           "<html><title>a key " + key + "</title></html>",
		"JSON in JSON":     fmt.Sprintf(`{"error":{"message":%q}}`, `{"error":{"message":"a key `+escapedKey(key)+` b"}}`),
		"a validation's":   fmt.Sprintf(`{"detail":[{"loc":["body"],"msg":"a key %[1]s b","type":"t_%[1]s"}]}`, key),
		"an error's words": fmt.Sprintf(`{"error":"a key %s b","code":"c_%s"}`, key, key),
	}
}

// hides fails the test where a key, or enough of it to be of use, is in what a client, or an operator, sees.
func hides(t *testing.T, where, seen, key string) {
	t.Helper()
	forms := []string{key, escapedKey(key), key[:10]}
	for before := range 3 { // base64 takes three bytes at a time
		text := base64.RawStdEncoding.EncodeToString([]byte("   "[:before] + key))
		forms = append(forms, text[4:16], strings.NewReplacer("+", "-", "/", "_").Replace(text[4:16]), text[len(text)-14:len(text)-2])
	}
	for _, form := range forms {
		if i := strings.Index(seen, form); i >= 0 {
			t.Errorf("%s shows the key: …%s…", where, seen[max(0, i-60):min(len(seen), i+60)])
			return
		}
	}
}

// redactLab is a gateway before providers of each format whose errors quote keys. Nothing in the keys looks like one of any vendor.
type redactLab struct {
	*gateway.Gateway

	providers map[fake.Dialect]*fake.Server
	watched   *watching
	events    string   // the file
	records   []string // ids of requests
}

const ownKey, othersKey = "Zq7vX2mN9pL4kT8wRb", "another.Hd83kfLq02/mVx+e"

func newRedactLab(t *testing.T) *redactLab {
	t.Helper()
	l := &redactLab{providers: make(map[fake.Dialect]*fake.Server), events: filepath.Join(t.TempDir(), "events")}
	o := gateway.Options{Config: quick + fmt.Sprintf("telemetry: {log_level: debug, events: %q}\n", "file:"+l.events)}
	for _, d := range formats {
		l.providers[d] = fake.Start(t, fake.Config{Dialect: d, Key: ownKey + string(d)})
		o.Providers = append(o.Providers, gateway.Provider{ID: "p-" + string(d), Fake: l.providers[d], Format: string(d), Models: models("m-"+string(d), "")})
	}
	o.Providers = append(o.Providers, gateway.Provider{ID: "other", BaseURL: "http://" + deadAddress + "/v1", Key: othersKey, Models: models("m-other", "")})
	l.Gateway = gateway.Run(t, o)
	l.watched = watch(t, l.Gateway, "--json")
	awaitWatched(t, l.Gateway, l.watched)
	return l
}

// ask has a provider answer with raw, and looks for the key in what the client gets.
func (l *redactLab) ask(t *testing.T, a ask, raw fake.Raw, key string) gateway.Answer {
	t.Helper()
	l.providers[a.dialect].Behave(fake.Behaviour{Raw: &raw})
	got := l.Do(t, a.call())
	hides(t, "the answer", got.Body, key)
	hides(t, "a header", fmt.Sprint(got.Header, got.Trailer), key)
	l.records = append(l.records, got.Header.Get("X-Request-Id"))
	return got
}

// TestNoErrorOfAProviderShowsAConfiguredSecret: whichever it quotes, in whichever member, however it writes it, and whenever it fails. Not
// to the client, in the record, in the log, in the events, in `bardo watch`, `bardo providers` and `bardo doctor`.
func TestNoErrorOfAProviderShowsAConfiguredSecret(t *testing.T) {
	t.Parallel()
	l := newRedactLab(t)
	for _, d := range formats {
		for _, key := range []string{l.providers[d].Key, othersKey} {
			statuses := []int{400, 401, 404, 422, 500}
			if key == othersKey && os.Getenv("BARDO_SOAK") == "" { // where it is hidden does not depend on whose it is
				statuses = []int{400, 500}
			}
			for form, body := range quotingErrors(key) {
				for _, status := range statuses {
					t.Run(fmt.Sprintf("%s/%s/%d/%.7s", d, form, status, key), func(t *testing.T) {
						raw := fake.Raw{Status: status, Header: []string{"content-type: application/json", "x-said: " + key}, Body: body}
						for _, stream := range []bool{false, true} {
							got := l.ask(t, ask{dialect: d, model: "m-" + string(d), stream: stream}, raw, key)
							if got.Status < 400 {
								t.Fatalf("%d: %s", got.Status, got.Body)
							}
							if (status == 400 || status == 422) && form != "cut in the key" && !strings.Contains(got.Body, "a key ***") {
								t.Errorf("the provider's words are lost: %s", got.Body)
							}
						}
					})
				}
			}
		}
	}
	t.Run("in a stream", func(t *testing.T) { l.checkStreams(t) })
	l.watched.sees(t, l.records[len(l.records)-1])
	for _, key := range []string{ownKey, othersKey} {
		l.checkOperator(t, key)
	}
}

// checkStreams has errors come as events, before content and after it.
func (l *redactLab) checkStreams(t *testing.T) {
	t.Helper()
	const content = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"so"},"finish_reason":null}]}` + "\n\n"
	for _, key := range []string{l.providers[fake.OpenAI].Key, othersKey} {
		for form, body := range quotingErrors(key) {
			if !strings.HasPrefix(body, "{") {
				body = "data: " + body // no JSON
			}
			for _, before := range []string{"", content} {
				raw := fake.Raw{Status: 200, Header: []string{"content-type: text/event-stream"}, Body: before + "data: " + body + "\n\n"}
				got := l.ask(t, ask{dialect: fake.OpenAI, model: "m-openai", stream: true}, raw, key)
				if got.Status == http.StatusOK && before == "" && strings.HasPrefix(body, "{") {
					t.Errorf("%s: %d %s", form, got.Status, got.Body)
				}
			}
		}
	}
}

// checkOperator looks for the key in what an operator sees of the requests.
func (l *redactLab) checkOperator(t *testing.T, key string) {
	t.Helper()
	for i := 0; i < len(l.records); i += 37 {
		hides(t, "a record", l.Do(t, gateway.Call{Path: "/v1/requests/" + l.records[i]}).Body, key)
	}
	hides(t, "the log", l.Log(), key)
	hides(t, "bardo watch", strings.Join(l.watched.all(), "\n"), key)
	b, err := os.ReadFile(l.events)
	if err != nil {
		t.Fatal(err)
	}
	hides(t, "an event", string(b), key)
	for _, command := range [][]string{{"doctor"}, {"doctor", "--json"}, {"providers"}, {"providers", "--json"}, {"config"}} {
		r := l.Try(t, append(command, "-c", l.File)...)
		hides(t, strings.Join(command, " "), r.Stdout+r.Stderr, key)
	}
}

// TestNoErrorShowsAKeyThatARequestBrings: nor a user's own key, where files and batches are asked for.
func TestNoErrorShowsAKeyThatARequestBrings(t *testing.T) {
	t.Parallel()
	const brought = "brought.9sKd+0qPz/Lw27"
	broad := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{brought}})
	var answer gateway.Answer // of the user's own key
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.Status)
		_, _ = w.Write([]byte(answer.Body))
	}))
	defer own.Close()
	const kept = "kept.0dKs8mQz/Lw27+x"
	g := gateway.Run(t, gateway.Options{Config: loudly + fmt.Sprintf(`providers:
  openrouter: {endpoint: %q, byok: true}
  direct: {keys: [{provider: openai, api_key: %s, base_url: %q}]}
`, broad.URL, kept, own.URL+"/v1")})
	for form, body := range quotingErrors(brought) {
		for _, status := range []int{400, 401, 402, 404, 429, 500} {
			broad.Behave(fake.Behaviour{Raw: &fake.Raw{Status: status, Header: []string{"content-type: application/json"}, Body: body}})
			for _, stream := range []bool{false, true} {
				got := g.Do(t, ask{dialect: fake.OpenAI, model: "some/model", stream: stream}.call("X-Bardo-Upstream-Key: "+brought))
				if got.Status < 400 {
					t.Fatalf("%s: %d %s", form, got.Status, got.Body)
				}
				hides(t, form, got.Body+fmt.Sprint(got.Header), brought)
			}
		}
	}
	hides(t, "the log", g.Log(), brought)

	for form, body := range quotingErrors(kept) {
		for _, status := range []int{200, 400, 403, 404, 409, 500} {
			for _, kind := range []string{"application/json", "text/plain", "text/html; key=" + kept} {
				if status == 200 && kind != "application/json" {
					continue // a file's content passes byte for byte
				}
				answer = gateway.Answer{Status: status, Body: body, Header: http.Header{
					"Content-Type": {kind}, "Content-Disposition": {"attachment; filename=" + kept}, "X-Said": {kept},
				}}
				for _, call := range []gateway.Call{{Method: http.MethodGet, Path: "/v1/files"}, {Path: "/v1/batches", Body: "{}"}, {Method: http.MethodHead, Path: "/v1/files"}} {
					got := g.Do(t, call)
					hides(t, fmt.Sprintf("%s, %d as %s", form, status, kind), got.Body+fmt.Sprint(got.Header), kept)
					if status == 400 && call.Method == http.MethodGet && !strings.Contains(got.Body, "a key") {
						t.Errorf("%s: the vendor's words are lost: %d %s", form, got.Status, got.Body)
					}
				}
			}
		}
	}
	hides(t, "the log", g.Log(), kept)
}

// TestAReloadedSecretIsHiddenToo: the one that was added, and the one that is gone, since what it served may still end.
func TestAReloadedSecretIsHiddenToo(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "firstkey.0123456789", Keys: []string{"secondkey.0123456789"}})
	o := gateway.Options{Config: loudly, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	o.Providers[0].Key = "secondkey.0123456789"
	g.Configure(t, o)
	keys := []string{"firstkey.0123456789", "secondkey.0123456789"}
	eventually(t, "the new key", func() bool {
		g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
		return slices.ContainsFunc(p.Requests(), func(r fake.Request) bool { return r.Key() == keys[1] })
	})
	message, err := json.Marshal("a key " + strings.Join(keys, " and "))
	if err != nil {
		t.Fatal(err)
	}
	p.Behave(fake.Behaviour{Raw: &fake.Raw{Status: 400, Body: fmt.Sprintf(`{"error":{"message":%s}}`, message)}})
	got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
	if !strings.Contains(got.Body, "a key *** and ***") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	for _, key := range keys {
		hides(t, "the answer", got.Body, key)
		hides(t, "the log", g.Log(), key)
	}
}
