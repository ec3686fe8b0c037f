package e2e

import (
	"bytes"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/fake/testca"
	"bardo.money/gateway/e2e/gateway"
)

// attestLab is a gateway whose Venice has an enclave that signs, with further providers where wanted.
type attestLab struct {
	*gateway.Gateway

	venice, vault, open *fake.Server
	enclave             *enclave.Enclave
	events              string // file
}

const enclaveModel = "capabilities: [tools, tee_attested, structured_outputs]"

// runAttestLab: rules are keys below inference; vault: a second provider has an enclave, for which the operator vouches; open: an ordinary provider has the model too.
func runAttestLab(t *testing.T, rules string, vault, open bool) *attestLab {
	t.Helper()
	return runAttestLabOver(t, nil, rules, vault, open)
}

// runAttestLabOver is runAttestLab with a Venice over TLS, which Envoy speaks HTTP/2 with, where ca is not nil.
func runAttestLabOver(t *testing.T, ca *testca.CA, rules string, vault, open bool) *attestLab {
	t.Helper()
	signer, trust := enclave.New("venice"), ""
	if ca != nil {
		trust = fmt.Sprintf("\n  ca_file: %q", ca.File)
	}
	l := &attestLab{
		enclave: signer,
		venice:  fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice, Enclave: signer, CA: ca}),
		vault:   fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "vault"}),
		open:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "open"}),
		events:  filepath.Join(t.TempDir(), "events.jsonl"),
	}
	custom := ""
	if vault {
		custom += fmt.Sprintf("\n    - {id: vault, endpoints: [%q], api_key: %s, private: true, models: [{id: sealed, price: {input: 2, output: 4}, %s}]}", l.vault.URL, l.vault.Key, enclaveModel)
	}
	if open {
		custom += fmt.Sprintf("\n    - {id: open, endpoints: [%q], api_key: %s, models: [{id: sealed, price: {input: 3, output: 6}, capabilities: [tools, structured_outputs]}]}", l.open.URL, l.open.Key)
	}
	if custom != "" {
		custom = "\n  custom:" + custom
	}
	l.Gateway = gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
inference: {%s}
providers:
  order: [venice%s%s]%s
  venice:
    base_url: %q
    api_key: %s
    attestation_pubkey: %q
    attestation_measurements: [%q]
    characters: {risk-assessor: sober-analyst}
    models: [{id: sealed, price: {input: 1, output: 2}, %s}]%s
`, l.events, rules, wordIf(vault, ", vault"), wordIf(open, ", open"), trust, l.venice.URL, l.venice.Key, signer.PublicKey(), signer.Measurement, enclaveModel, custom)})
	return l
}

func wordIf(on bool, word string) string {
	if on {
		return word
	}
	return ""
}

// saw reports whether an event of a request has all of the texts.
func (l *attestLab) saw(id string, texts ...string) bool {
	b, err := os.ReadFile(l.events)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		found := strings.Contains(line, `"request_id":"`+id+`"`)
		for _, text := range texts {
			found = found && strings.Contains(line, text)
		}
		if found {
			return true
		}
	}
	return false
}

// trade is a request that only an enclave may answer.
func trade(stream bool) gateway.Call {
	more := ""
	if stream {
		more = `"stream":true,`
	}
	return gateway.Call{
		Path: "/v1/chat/completions", Body: `{"model":"sealed",` + more + asSchema + `,"messages":[{"role":"user","content":"What now?"}]}`,
		Header: []string{"content-type: application/json", "X-Bardo-Task-Class: trade", "X-Bardo-Tick: 41", "X-Bardo-Golem-Id: g1"},
	}
}

const bid = `{"price":"PLANTED-4711"}`

// attacks are answers that are not attested, with the reason that is told.
func attacks() []struct {
	about string
	b     fake.Behaviour
	why   string
} {
	forge := func(f func(*enclave.Receipt)) fake.Behaviour { return fake.Behaviour{JSON: bid, Forge: f} }
	text := func(f func(string) string) fake.Behaviour { return forge(func(r *enclave.Receipt) { r.Text = f }) }
	value := func(f func(string) string) fake.Behaviour { return forge(func(r *enclave.Receipt) { r.Header = f }) }
	swap := func(old, by string) fake.Behaviour {
		return text(func(s string) string { return strings.Replace(s, old, by, 1) })
	}
	_, stranger, _ := ed25519.GenerateKey(nil)
	first := ""
	return []struct {
		about string
		b     fake.Behaviour
		why   string
	}{
		{"no receipt", forge(func(r *enclave.Receipt) { r.Sent = func(string) []string { return []string{} } }), "missing"},
		{"an empty receipt", value(func(string) string { return "" }), "missing"},
		{"a replayed receipt", value(func(v string) string {
			if first == "" {
				first = v
			}
			return first
		}), ""},
		{"another nonce", forge(func(r *enclave.Receipt) { r.Nonce = strings.Repeat("ab", 32) }), "nonce"},
		{"no nonce", forge(func(r *enclave.Receipt) { r.Nonce = "" }), "malformed"},
		{"another model", forge(func(r *enclave.Receipt) { r.Model = "small-tee" }), "model"},
		{"the model outside of the enclave", forge(func(r *enclave.Receipt) { r.Model = "sealed" }), "model"},
		{"an old receipt", forge(func(r *enclave.Receipt) { r.At = r.At.Add(-2 * time.Minute) }), "stale"},
		{"a receipt of the future", forge(func(r *enclave.Receipt) { r.At = r.At.Add(2 * time.Minute) }), "future"},
		{"a time before 1970", forge(func(r *enclave.Receipt) { r.At = time.UnixMilli(-5) }), "malformed"},
		{"an enclave in debug mode", forge(func(r *enclave.Receipt) { r.Debug = true }), "debug_mode"},
		{"debug mode denied after the signature", forge(func(r *enclave.Receipt) {
			r.Debug, r.Text = true, func(s string) string { return strings.Replace(s, `"debug_mode":true`, `"debug_mode":false`, 1) }
		}), "signature"},
		{"the hash of other bytes", forge(func(r *enclave.Receipt) { r.Hash = strings.Repeat("0", 64) }), "hash"},
		{"the hash of no bytes", forge(func(r *enclave.Receipt) { r.Hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" }), "hash"},
		{"an unknown enclave", forge(func(r *enclave.Receipt) { r.Measurement = strings.Repeat("12", 48) }), "measurement"},
		{"another key", forge(func(r *enclave.Receipt) { r.Key = stranger }), "signature"},
		{"a signature of zeros", text(func(s string) string {
			return replaceMember(s, "signature", base64.StdEncoding.EncodeToString(make([]byte, 64)))
		}), "signature"},
		{"half a signature", text(func(s string) string {
			return replaceMember(s, "signature", base64.StdEncoding.EncodeToString(make([]byte, 32)))
		}), "malformed"},
		{"a member twice", swap(`{`, `{"debug_mode":false,`), "malformed"},
		{"a member twice in another case", swap(`{`, `{"Nonce":"x",`), "malformed"},
		{"a member that nobody knows", swap(`{`, `{"extra":1,`), "malformed"},
		{"an escaped member", swap(`"nonce"`, `"\u006eonce"`), "malformed"},
		{"a number as a text", text(func(s string) string {
			return strings.Replace(strings.Replace(s, `"timestamp":`, `"timestamp":"`, 1), `}`, `"}`, 1)
		}), "malformed"},
		{"something behind it", text(func(s string) string { return s + "{}" }), "malformed"},
		{"no JSON", text(func(string) string { return "receipt" }), "malformed"},
		{"no base64", value(func(string) string { return "***" }), "malformed"},
		{"base64 without its padding", value(func(v string) string { return strings.TrimRight(v, "=") + "A" }), "malformed"},
		{"a huge receipt", value(func(v string) string { return v + strings.Repeat("A", 12<<10) }), "too_large"},
		{"two receipts that differ", forge(func(r *enclave.Receipt) { r.Sent = func(v string) []string { return []string{v, "AAAA"} } }), "contradicts"},
		{"a trailer that contradicts the receipt", forge(func(r *enclave.Receipt) { r.Late = func(string) []string { return []string{"AAAA"} } }), "contradicts"},
	}
}

// replaceMember is a JSON object with another text in one of its members.
func replaceMember(s, key, value string) string {
	var o map[string]any
	if json.Unmarshal([]byte(s), &o) != nil {
		return s
	}
	o[key] = value
	b, _ := json.Marshal(o) // of what was JSON
	return string(b)
}

// TestP05AnAnswerThatIsNotAttestedIsDiscarded: every attack, as JSON and as a stream, over HTTP/1.1 and HTTP/2. The client gets 503 and no byte of the answer,
// pays nothing, nobody else is asked, no valid token is kept, and the event names the reason.
func TestP05AnAnswerThatIsNotAttestedIsDiscarded(t *testing.T) {
	t.Parallel()
	t.Run("HTTP/1.1", func(t *testing.T) {
		t.Parallel()
		discardsAttacks(t, runAttestLab(t, "on_privacy_exhausted: fail", false, true), "HTTP/1.1")
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		discardsAttacks(t, runAttestLabOver(t, testca.New(t), "on_privacy_exhausted: fail", false, true), "HTTP/2.0")
	})
}

func discardsAttacks(t *testing.T, l *attestLab, proto string) {
	t.Helper()
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	refused := func(about string, stream bool, why string) {
		t.Helper()
		l.venice.Forget()
		c := trade(stream)
		c.Key = key
		got := l.Do(t, c)
		id := got.Header.Get("X-Request-Id")
		if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"details":{"error":"VeniceAttestationError"}`) || strings.Contains(got.Body, "PLANTED") {
			t.Errorf("%s, stream %v: %d %s", about, stream, got.Status, got.Body)
		}
		if n := len(l.venice.Generations()); n != 1 {
			t.Errorf("%s, stream %v: it was called %d times", about, stream, n)
		} else if got := l.venice.Generations()[0].Proto; got != proto {
			t.Errorf("%s, stream %v: it was called over %s", about, stream, got)
		}
		if got.Header.Get("X-Bardo-Attestation") != "" {
			t.Errorf("%s, stream %v: the answer counts as attested", about, stream)
		}
		eventually(t, about+": the event of "+id, func() bool {
			return l.saw(id, `"event":"venice:attestation_error"`, `"error":"VeniceAttestationError"`, `"reason":"`+why+`"`, `"task_class":"trade"`, `"tick":41`)
		})
	}
	for _, stream := range []bool{false, true} {
		for _, row := range attacks() {
			l.venice.Behave(row.b)
			if row.why == "" { // its own first use was good
				c := trade(stream)
				c.Key = key
				if got := l.Do(t, c); got.Status != http.StatusOK {
					t.Fatalf("%s, stream %v: %d %s", row.about, stream, got.Status, got.Body)
				}
				row.why = "nonce"
			}
			refused(row.about, stream, row.why)
		}
	}
	l.venice.Behave(fake.Behaviour{JSON: bid, Encoding: "gzip"})
	refused("a compressed body", false, "encoding")
	for _, body := range []string{"{", "", `{"error":{"message":"PLANTED"}}`, "PLANTED", bid + bid} { // that is no answer, and nobody has signed
		kept := []string{"content-type: application/json", "X-Venice-Privacy-Level: tee", "X-Venice-Retention-Policy: none"}
		l.venice.Behave(fake.Behaviour{Raw: &fake.Raw{Status: http.StatusOK, Header: kept, Body: body}})
		refused(fmt.Sprintf("a body of %q", body), false, "missing")
	}
	for about, b := range map[string]fake.Break{
		"a stream without its end":    {Kind: fake.Stop, At: fake.AfterTokens, Tokens: 1},
		"a stream that is closed":     {Kind: fake.Close, At: fake.AfterTokens, Tokens: 1},
		"a connection that is broken": {Kind: fake.Reset, At: fake.AfterTokens, Tokens: 1},
	} {
		l.venice.Behave(fake.Behaviour{JSON: bid, Break: b, Piece: 4})
		refused(about, true, "truncated")
	}
	if n := len(l.open.Generations()); n != 0 {
		t.Errorf("%d requests for an enclave reached a provider without one", n)
	}
	if l.saw("", "PLANTED") || bytes.Contains([]byte(exported(t, l)), []byte("PLANTED")) {
		t.Error("an event or a token has a part of an answer")
	}
	if r := verified(t, l, 0); r.Valid != 2 || r.Tokens != 2 {
		t.Errorf("the tokens are %+v, want those of the two answers that were attested", r)
	}
	l.AssertSound(t)
}

// TestP05AnAttestedAnswerHasAToken, in every form and dialect; the tokens are verified without the gateway, and what was changed shows.
func TestP05AnAttestedAnswerHasAToken(t *testing.T) {
	t.Parallel()
	l := runAttestLab(t, "", false, true)
	l.venice.Behave(fake.Behaviour{JSON: bid, Piece: 3})
	for _, stream := range []bool{false, true} {
		got := l.Do(t, trade(stream))
		token, ok := strings.CutPrefix(got.Header.Get("X-Bardo-Attestation"), "verified; token=")
		if got.Status != http.StatusOK || !ok || len(token) != 64 || !strings.Contains(got.Body, "PLANTED") && !stream {
			t.Fatalf("stream %v: %d %v %s", stream, got.Status, got.Header, got.Body)
		}
		if stream && !strings.Contains(got.Body, `"attestation":"`+token+`"`) {
			t.Errorf("the last comment does not name the token: %s", got.Body)
		}
		id := got.Header.Get("X-Request-Id")
		eventually(t, "the event", func() bool {
			return l.saw(id, `"event":"venice:tee_attestation"`, `"verified":true`, `"attestation_hash":"`+token+`"`, `"enclave_measurement":"`+l.enclave.Measurement+`"`)
		})
		if r := recordOf(t, l.Gateway, got); r.Attestation != token {
			t.Errorf("stream %v: the record names %q", stream, r.Attestation)
		}
		last := l.venice.Generations()[len(l.venice.Generations())-1]
		if last.Model != "sealed-tee" || len(last.Header.Get("X-Venice-Attestation-Nonce")) != 64 {
			t.Errorf("stream %v: %s was called with the nonce %q", stream, last.Model, last.Header.Get("X-Venice-Attestation-Nonce"))
		}
	}
	text := exported(t, l)
	for _, want := range []string{`"seq":1,`, `"seq":2,`, `"tick":41`, `"task_class":"trade"`, `"golem_id":"g1"`, `"model":"sealed-tee"`, `"measurement":"` + l.enclave.Measurement + `"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the export lacks %s: %s", want, text)
		}
	}
	if r := verified(t, l, 0); r.Valid != 2 || r.Void != 0 || len(r.Head) != 64 {
		t.Errorf("%+v", r)
	}
	keys := []string{"--pubkey", l.enclave.PublicKey(), "--measurement", l.enclave.Measurement}
	lines := strings.SplitAfter(strings.TrimSpace(text), "\n")
	for about, changed := range map[string]string{
		"another class": strings.Replace(text, `"trade"`, `"plan"`, 1),
		"another order": lines[1] + "\n" + lines[0],
		"another tick":  strings.Replace(text, `"tick":41`, `"tick":42`, 1),
	} {
		file := filepath.Join(t.TempDir(), "tokens.jsonl")
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := verified(t, l, 1, append(keys, file)...); len(r.Faults) == 0 {
			t.Errorf("%s: %+v", about, r)
		}
	}
	if r := verified(t, l, 1, "--pubkey", enclave.New("another").PublicKey(), "--measurement", l.enclave.Measurement); r.Valid != 0 {
		t.Errorf("by another key: %+v", r)
	}
	if r := verified(t, l, 1, "--head", strings.Repeat("0", 64)); r.Valid != 2 || len(r.Faults) != 1 {
		t.Errorf("with another end: %+v", r)
	}
}

// report is what `bardo attest verify --json` prints.
type report struct {
	Tokens, Valid, Void int
	Head                string
	Faults              []string
}

// verified runs the verification, which has to end with a status.
func verified(t *testing.T, l *attestLab, status int, args ...string) (r report) {
	t.Helper()
	out := l.Try(t, append([]string{"attest", "verify", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out.Stdout), &r); err != nil || out.Code != status {
		t.Fatalf("bardo attest verify %v: %v: %+v", args, err, out)
	}
	return r
}

func exported(t *testing.T, l *attestLab) string {
	t.Helper()
	return l.Bardo(t, "attest", "export")
}

// TestP05TheNextCandidateAnswers: one with an enclave, and, where the operator lets tasks continue, one without, by name.
func TestP05TheNextCandidateAnswers(t *testing.T) {
	t.Parallel()
	bad := fake.Behaviour{JSON: bid, Forge: func(r *enclave.Receipt) { r.Debug = true }}
	for _, stream := range []bool{false, true} {
		l := runAttestLab(t, "", true, true)
		l.venice.Behave(bad)
		got := l.Do(t, trade(stream))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "vault" || strings.Contains(got.Body, "PLANTED") || got.Header.Get("X-Bardo-Attestation") != "" ||
			got.Header.Get("X-Bardo-Degraded") != "tee_mode,attestation" {
			t.Errorf("stream %v: %d %v %s", stream, got.Status, got.Header, got.Body)
		}
		l.vault.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
		got = l.Do(t, trade(stream))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "open" || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "privacy_tier") {
			t.Errorf("stream %v: %d %v %s", stream, got.Status, got.Header, got.Body)
		}
		eventually(t, "the event", func() bool { return l.saw(got.Header.Get("X-Request-Id"), `"event":"venice:privacy_relaxed"`) })
	}
}

// TestP05AnAnswerWithoutItsSchemaVoidsItsReceipt: the client gets the error of the schema, and the token says that it counts for nothing. A character is asked for,
// and does not stand above the schema.
func TestP05AnAnswerWithoutItsSchemaVoidsItsReceipt(t *testing.T) {
	t.Parallel()
	l := runAttestLab(t, "", false, false)
	l.venice.Behave(fake.Behaviour{Text: "I would rather not say."})
	for i, stream := range []bool{false, true} {
		c := trade(stream)
		c.Body = strings.Replace(c.Body, asSchema, `"bardo":{"role":"risk-assessor","profile":{"response_schema":"CognitionPlan"}}`, 1)
		got := l.Do(t, c)
		if asked := string(lastOf(t, l.venice).Body); !strings.Contains(asked, `"character_slug":"sober-analyst"`) || !strings.Contains(asked, `"json_schema"`) {
			t.Errorf("stream %v: it was asked %s", stream, asked)
		}
		id := got.Header.Get("X-Request-Id")
		if got.Status == http.StatusOK || got.Header.Get("X-Bardo-Attestation") != "" || !strings.Contains(got.Body, "VeniceStructuredOutputError") {
			t.Errorf("stream %v: %d %v %s", stream, got.Status, got.Header, got.Body)
		}
		eventually(t, "the event", func() bool {
			return l.saw(id, `"event":"venice:attestation_void"`, `"reason":"schema"`, `"verified":false`)
		})
		if r := verified(t, l, 0); r.Void != i+1 || r.Valid != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestP05AnAnswerThatCannotBeChargedForVoidsItsReceipt: the provider reports more than was reserved, and the ledger does not take the charge. The client gets an
// error that names no token, the one that was stored counts for nothing, and the key has its money. Once charges are taken again, answers have valid tokens.
func TestP05AnAnswerThatCannotBeChargedForVoidsItsReceipt(t *testing.T) {
	t.Parallel()
	l := runAttestLab(t, "", false, false)
	const balance = 1_000_000 // millionths; a quarter is set aside for requests under way
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	l.venice.Behave(fake.Behaviour{JSON: bid, Usage: &fake.Usage{Input: 400_000, Output: 1}})
	end := refuseCharges(t, l.Gateway)
	for i, stream := range []bool{false, true} {
		c := trade(stream)
		c.Key = key
		got := l.Do(t, c)
		id := got.Header.Get("X-Request-Id")
		if !stream && (got.Status != http.StatusInternalServerError || got.Header.Get("X-Bardo-Attestation") != "") {
			t.Errorf("stream %v: %d %v %s", stream, got.Status, got.Header, got.Body)
		}
		if !strings.Contains(got.Body, `"error":`) || strings.Contains(got.Body, `"attestation":`) || strings.Contains(got.Body, "[DONE]") {
			t.Errorf("stream %v: %s", stream, got.Body)
		}
		eventually(t, "the event", func() bool {
			return l.saw(id, `"event":"venice:attestation_void"`, `"reason":"unsent"`, `"verified":false`)
		})
		if r := verified(t, l, 0); r.Void != 2*(i+1) || r.Valid != 0 {
			t.Errorf("stream %v: %+v", stream, r)
		}
	}
	if left := balanceOf(t, l.Gateway, key); left != balance {
		t.Errorf("%d are left, want all of %d", left, balance)
	}
	end()
	c := trade(false)
	c.Key = key
	got := l.Do(t, c)
	if r := verified(t, l, 0); got.Status != http.StatusOK || r.Valid != 1 {
		t.Errorf("once it is charged for: %d %s, %+v", got.Status, got.Body, r)
	}
	l.AssertSound(t)
}

// refuseCharges makes the ledger's store refuse to set money of a key aside, as a fault of a single change and not of the store, until it is ended.
func refuseCharges(t *testing.T, g *gateway.Gateway) (end func()) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(g.Home, "bardo.db")+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TRIGGER refuse BEFORE UPDATE OF held ON balance WHEN NEW.held > 250000 BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	return func() { exec(`DROP TRIGGER refuse`) }
}

// TestP05NothingGoesOutBeforeTheReceipt: a slow stream whose receipt is bad ends in an error; its client has seen heartbeats alone.
func TestP05NothingGoesOutBeforeTheReceipt(t *testing.T) {
	t.Parallel()
	l := runAttestLab(t, "on_privacy_exhausted: fail", false, false)
	l.venice.Behave(fake.Behaviour{JSON: bid, Piece: 2, Gap: 30 * time.Millisecond, Forge: func(r *enclave.Receipt) { r.Hash = strings.Repeat("0", 64) }})
	for range 2 {
		got := l.Do(t, trade(true))
		if strings.Contains(got.Body, "PLANTED") || strings.Contains(got.Body, `"content"`) || !strings.Contains(got.Body, "VeniceAttestationError") {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
}
