package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// guardedKey is a key of a gateway at whose provider its requests arrive.
type guardedKey struct {
	*gateway.Gateway

	p   *fake.Server
	key gateway.NewKey
}

// brings sends what a tool returned, and says what became of it: refused, withheld, flagged or sent.
func (k *guardedKey) brings(t *testing.T, d fake.Dialect, stream bool) string {
	t.Helper()
	k.p.Forget()
	c := brought(d, stream, overrides, "X-Bardo-Pipeline: minimal") // the caller's profile does not count
	c.Key = k.key.Key
	got := k.Do(t, c)
	switch {
	case got.Status == http.StatusBadRequest && strings.Contains(got.Body, "prompt_injection") && len(k.p.Generations()) == 0:
		return "refused"
	case got.Status != http.StatusOK || len(k.p.Generations()) != 1:
		t.Fatalf("%d %s, after %d calls", got.Status, got.Body, len(k.p.Generations()))
	case strings.Contains(string(k.p.Generations()[0].Body), "Withheld"):
		return "withheld"
	case got.Header.Get("X-Bardo-Injection") != "":
		return "flagged"
	}
	return "sent"
}

// writes sends an address of mail, and says what became of it: refused, masked, found or sent. It checks that a masked one comes back.
func (k *guardedKey) writes(t *testing.T, d fake.Dialect, stream bool, header ...string) (did, request string) {
	t.Helper()
	k.p.Forget()
	c := ask{dialect: d, model: "m", stream: stream, say: "write to jane@example.com"}.call(header...)
	c.Key = k.key.Key
	got := k.Do(t, c)
	id := got.Header.Get("X-Request-Id")
	layers := got.Header.Get("X-Bardo-Pipeline")
	switch {
	case got.Status == http.StatusBadRequest && strings.Contains(got.Body, `"secret_in_prompt"`) && len(k.p.Generations()) == 0:
		return "refused", id
	case got.Status != http.StatusOK || len(k.p.Generations()) != 1:
		t.Fatalf("%d %s, after %d calls", got.Status, got.Body, len(k.p.Generations()))
	}
	sent := strings.Contains(string(k.p.Generations()[0].Body), "jane@example.com")
	switch {
	case !sent && strings.Contains(layers, "masked;email=1"):
		return "masked", id
	case sent && strings.Contains(layers, "found;email=1"):
		return "found", id
	case sent && !strings.Contains(layers, "l7"):
		return "sent", id
	}
	t.Fatalf("layers %s, the provider sees %s", layers, k.p.Generations()[0].Body)
	return "", ""
}

// TestD37D38EachKeyHasItsPolicies: keys of one running gateway differ in what happens to instructions and personal data, in each format; their records and
// explanations say so. A change is felt within a second, and a revocation too.
func TestD37D38EachKeyHasItsPolicies(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"extproc", "module"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
			g := gateway.Run(t, gateway.Options{DataPath: shape, Config: quick + fmt.Sprintf(`
models: {injection: "off", embedding: "off"}
pipeline: {hash: "off"}
providers:
  custom: [{id: own, endpoints: [%q], api_key: sk-o, models: [{id: m}]}]
`, p.URL)})
			key := func(flags ...string) *guardedKey {
				return &guardedKey{g, p, g.CreateKey(t, append([]string{"--name", "k"}, flags...)...)}
			}
			usual := key()
			for _, row := range []struct {
				key           *guardedKey
				brought, mail string
				policies      map[string]string // in explanations
				own           string            // in records
			}{
				{usual, "sent", "found", map[string]string{"injection": "flag", "pii": "detect"}, ""}, // nothing is flagged in the minimal profile
				{key("--injection", "block", "--pii", "mask"), "refused", "masked", map[string]string{"injection": "user=flag, tool_result=block, document=block", "pii": "mask"}, `{"injection":"block","pii":"mask"}`},
				{key("--injection", "quarantine"), "withheld", "found", map[string]string{"injection": "user=flag, tool_result=quarantine, document=quarantine", "pii": "detect"}, `{"injection":"quarantine"}`},
				{key("--injection", "off", "--pii", "off"), "sent", "sent", map[string]string{"injection": "off", "pii": "off"}, `{"injection":"off","pii":"off"}`},
				{key("--pii", "block"), "sent", "refused", map[string]string{"injection": "flag", "pii": "block"}, `{"pii":"block"}`},
			} {
				for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
					for _, stream := range []bool{false, true} {
						if got := row.key.brings(t, d, stream); got != row.brought {
							t.Errorf("%v, %s, stream %v: instructions are %s, want %s", row.policies, d, stream, got, row.brought)
						}
						did, id := row.key.writes(t, d, stream)
						if did != row.mail {
							t.Errorf("%v, %s, stream %v: personal data is %s, want %s", row.policies, d, stream, did, row.mail)
						}
						var r struct{ Policies json.RawMessage }
						get(t, g, row.key.key.Key, "/v1/requests/"+id, &r)
						if string(r.Policies) != row.own {
							t.Errorf("the record has %s, want %s", r.Policies, row.own)
						}
					}
				}
				row.key.explains(t, row.policies)
			}
			if did, _ := key("--pii", "off").writes(t, fake.OpenAI, false, "X-Bardo-Security-Class: confidential"); did != "masked" {
				t.Errorf("a caller asks for more than its key does: %s", did)
			}
			usual.changes(t)
		})
	}
}

// explains checks what an explanation says of the key's policies.
func (k *guardedKey) explains(t *testing.T, want map[string]string) {
	t.Helper()
	c := ask{dialect: fake.OpenAI, model: "m"}.call("X-Bardo-Route: explain")
	c.Key = k.key.Key
	var e struct{ Policies map[string]string }
	k.Do(t, c).JSON(t, &e)
	if !maps.Equal(e.Policies, want) {
		t.Errorf("explained as %v, want %v", e.Policies, want)
	}
}

// changes gives the key other policies while the gateway runs, takes them back, and revokes it.
func (k *guardedKey) changes(t *testing.T) {
	t.Helper()
	takes := func(injection, pii, brought, mail string) time.Duration {
		k.Bardo(t, "keys", "update", k.key.ID, "--injection", injection, "--pii", pii)
		began := time.Now()
		eventually(t, "policies "+injection+" and "+pii, func() bool {
			did, _ := k.writes(t, fake.OpenAI, false)
			return k.brings(t, fake.OpenAI, false) == brought && did == mail
		})
		return time.Since(began)
	}
	polltest.Soon(t, time.Second, "stricter policies", func() time.Duration {
		takes("off", "off", "sent", "sent")
		return takes("block", "block", "refused", "refused")
	})
	polltest.Soon(t, time.Second, "the configured policies", func() time.Duration {
		takes("quarantine", "mask", "withheld", "masked")
		return takes("default", "default", "sent", "found")
	})
	k.Bardo(t, "keys", "revoke", k.key.ID)
	eventually(t, "the revocation", func() bool {
		c := ask{dialect: fake.OpenAI, model: "m"}.call()
		c.Key = k.key.Key
		return k.Do(t, c).Status == http.StatusUnauthorized
	})
}
