package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// namesMasked is a gateway that masks names by a local model, whose files are in a directory.
func namesMasked(t *testing.T, s *fake.Server, dir, more string) *gateway.Gateway {
	t.Helper()
	library, err := filepath.Glob(filepath.Join(modeltest.Dir(t), "libonnxruntime*"))
	if err != nil || len(library) != 1 {
		t.Fatal(library, err)
	}
	return gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
models: {dir: %q, runtime: %q, embedding: "off", injection: "off", entities: auto}
pipeline:
  pii: {policy: mask, names: {timeout: 30s%s}}
providers:
  custom:
    - {id: own, endpoints: [%q], api_key: sk-o, models: [{id: m}]}
`, dir, library[0], more, s.URL)})
}

const introduction = `{"model":"m","messages":[{"role":"system","content":"You assist Ada Lovelace."},{"role":"user","content":"I am Ada Lovelace, from New York. Greet me."}]}`

// TestF01NamesAreMaskedAndRestored: of the system prompt as well, in which nobody looks for names.
func TestF01NamesAreMaskedAndRestored(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	g := namesMasked(t, s, modeltest.Namer(t), "")
	got := g.Chat(t, introduction)
	if got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "masked;person=1;place=1") {
		t.Fatalf("%d %v %s", got.Status, got.Header, got.Body)
	}
	seen := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(s.Generations()[0].Body))
	holders := placeholder.FindAllString(seen, -1)
	if len(holders) != 3 || strings.Contains(seen, "Ada") || strings.Contains(seen, "New York") {
		t.Fatalf("the provider sees %s", seen)
	}
	s.Behave(fake.Behaviour{Text: "Hello " + holders[1] + " of " + holders[2] + ".", Piece: 3})
	for _, request := range []string{introduction, strings.Replace(introduction, `{"model"`, `{"stream":true,"model"`, 1)} {
		got = g.Chat(t, request)
		text := got.Body
		if strings.HasPrefix(text, "data:") {
			text = turnOf(t, ask{dialect: fake.OpenAI, model: "m", stream: true}, got).text
		}
		if !strings.Contains(text, "Hello Ada Lovelace of New York.") {
			t.Errorf("the answer is %s", got.Body)
		}
	}
	g.AssertSound(t)
}

// TestF01WithoutTheModelNamesAreNotSent: unless the operator wants that.
func TestF01WithoutTheModelNamesAreNotSent(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	g := namesMasked(t, s, t.TempDir(), "")
	if got := g.Chat(t, introduction); got.Status != http.StatusServiceUnavailable || len(s.Generations()) != 0 {
		t.Errorf("%d %s; the provider was asked %d times", got.Status, got.Body, len(s.Generations()))
	}
	g = namesMasked(t, s, t.TempDir(), ", on_error: allow")
	if got := g.Chat(t, introduction); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "unnamed") || len(s.Generations()) != 1 {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
}
