package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/fake/testca"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy/e2ee"
)

// sealedAttestLab is a gateway whose Venice opens sealed requests in an enclave that signs its answers, and an ordinary provider of the same model.
type sealedAttestLab struct {
	*attestLab

	in  *enclave.Vault
	log string // file
}

// runSealedAttestLab: ca is not nil for a Venice over TLS, which Envoy speaks HTTP/2 with.
func runSealedAttestLab(t *testing.T, ca *testca.CA) *sealedAttestLab {
	t.Helper()
	dir, signer, in, trust := t.TempDir(), enclave.New("venice"), enclave.NewVault("a"), ""
	if ca != nil {
		trust = fmt.Sprintf("\n  ca_file: %q", ca.File)
	}
	l := &sealedAttestLab{in: in, log: filepath.Join(dir, "log"), attestLab: &attestLab{
		enclave: signer,
		venice:  fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice, Enclave: signer, Vault: in, CA: ca}),
		open:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "open"}),
		events:  filepath.Join(dir, "events.jsonl"),
	}}
	log, err := os.Create(l.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	l.Gateway = gateway.Run(t, gateway.Options{Stderr: log, Stdout: log, Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s", log_level: debug}
inference: {on_privacy_exhausted: fail}
providers:
  order: [venice, open]%s
  venice:
    base_url: %q
    api_key: %s
    attestation_pubkey: %q
    attestation_measurements: [%q]
    e2ee_keys: [%s]
    models:
      - {id: sealed, price: {input: 1, output: 2}, capabilities: [e2ee, tee_attested, structured_outputs]}
      - {id: sealed-tee, price: {input: 1, output: 2}, capabilities: [e2ee, tee_attested, structured_outputs]}
  custom:
    - {id: open, endpoints: [%q], api_key: %s, models: [{id: sealed, price: {input: 3, output: 6}, capabilities: [structured_outputs]}]}
`, l.events, trust, l.venice.URL, l.venice.Key, signer.PublicKey(), signer.Measurement, enclave.VaultKey("a"), l.open.URL, l.open.Key)})
	return l
}

// sentBy are the ways in which a sealed request is sent: the gateway encrypts it, or the client has done so. opened is the answer as its reader has it, "" if it
// cannot be opened.
type sentBy struct {
	about string
	send  func(t *testing.T, l *sealedAttestLab, key string) (got gateway.Answer, opened string)
}

func waysToSeal() []sentBy {
	byGateway := func(stream bool) func(*testing.T, *sealedAttestLab, string) (gateway.Answer, string) {
		return func(t *testing.T, l *sealedAttestLab, key string) (gateway.Answer, string) {
			t.Helper()
			c := auction(stream)
			c.Key = key
			got := l.Do(t, c)
			return got, got.Body
		}
	}
	byClient := func(t *testing.T, l *sealedAttestLab, key string) (gateway.Answer, string) {
		t.Helper()
		pinned, err := e2ee.ParseKey(enclave.VaultKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		sealed, call, err := e2ee.Seal(pinned, "sealed-tee", 50, []byte(strings.Replace(auction(false).Body, `"model":"sealed"`, `"model":"sealed-tee"`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		got := l.Do(t, gateway.Call{Path: "/v1/e2ee/chat/completions", Key: key, Body: string(sealed), Header: []string{"content-type: application/json", "X-Bardo-Task-Class: sealed_auction"}})
		opened, _, err := call.Open([]byte(got.Body))
		if err != nil {
			return got, ""
		}
		return got, string(opened)
	}
	return []sentBy{{"by the gateway", byGateway(false)}, {"by the gateway, as a stream", byGateway(true)}, {"by the client", byClient}}
}

// forEachProtocol runs a test with a Venice over each protocol.
func forEachProtocol(t *testing.T, run func(t *testing.T, l *sealedAttestLab, proto string)) {
	t.Helper()
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			ca := (*testca.CA)(nil)
			if proto == "HTTP/2.0" {
				ca = testca.New(t)
			}
			run(t, runSealedAttestLab(t, ca), proto)
		})
	}
}

// TestP05ASealedAnswerIsAttested: an enclave signs the ciphertext that it answers with, its host sees nothing else, and the token proves the bytes that came.
func TestP05ASealedAnswerIsAttested(t *testing.T) {
	t.Parallel()
	forEachProtocol(t, func(t *testing.T, l *sealedAttestLab, proto string) {
		t.Helper()
		l.venice.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`})
		for i, way := range waysToSeal() {
			got, opened := way.send(t, l, "")
			token, ok := strings.CutPrefix(got.Header.Get("X-Bardo-Attestation"), "verified; token=")
			if got.Status != http.StatusOK || !ok || len(token) != 64 || !strings.Contains(opened, "D-REPLY") {
				t.Fatalf("%s: %d %v %s", way.about, got.Status, got.Header, got.Body)
			}
			call := l.venice.Generations()[i]
			if call.Model != "sealed-tee" || call.Proto != proto || call.Header.Get("X-Venice-Attestation") != "required" || len(call.Header.Get("X-Venice-Attestation-Nonce")) != 64 {
				t.Errorf("%s: %s was called over %s with %v", way.about, call.Model, call.Proto, call.Header)
			}
			id := got.Header.Get("X-Request-Id")
			eventually(t, "the event", func() bool {
				return l.saw(id, `"event":"venice:tee_attestation"`, `"verified":true`, `"attestation_hash":"`+token+`"`, `"task_class":"sealed_auction"`)
			})
			if r := recordOf(t, l.Gateway, got); r.Attestation != token {
				t.Errorf("%s: the record names %q", way.about, r.Attestation)
			}
			if r := verified(t, l.attestLab, 0); r.Valid != i+1 || r.Void != 0 {
				t.Errorf("%s: %+v", way.about, r)
			}
		}
		if n := len(l.in.Opened()); n != 3 || l.venice.Saw("PLANTED") || l.venice.Saw("price") {
			t.Errorf("the enclave opened %d requests, and its host saw %+v", n, l.venice.Generations())
		}
		l.voidsErrors(t)
		l.nothingLeft(t)
	})
}

// voidsErrors: what an enclave signs under status 200, and is an error in its body, is no attested answer. Its token is void, whoever encrypts.
func (l *sealedAttestLab) voidsErrors(t *testing.T) {
	t.Helper()
	last := verified(t, l.attestLab, 0)
	l.venice.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`, Sealed: func([]byte) []byte {
		return []byte(`{"error":{"message":"PLANTED overload","type":"server_error"}}`)
	}})
	for _, way := range waysToSeal() {
		got, opened := way.send(t, l, "")
		if got.Status/100 == 2 || got.Header.Get("X-Bardo-Attestation") != "" || strings.Contains(opened, "REPLY") {
			t.Errorf("an error, %s: %d %v %s", way.about, got.Status, got.Header, got.Body)
		}
		id := got.Header.Get("X-Request-Id")
		eventually(t, "the event of "+id, func() bool { return l.saw(id, `"event":"venice:attestation_void"`, `"reason":"parse"`) })
		r := verified(t, l.attestLab, 0)
		if r.Valid != last.Valid || r.Void <= last.Void {
			t.Errorf("an error, %s: %+v after %+v", way.about, r, last)
		}
		last = r
	}
}

// TestP05ASealedAnswerThatIsNotAttestedIsDiscarded: every attack on receipts, whoever encrypts, over HTTP/1.1 and HTTP/2, a contradicting trailer included.
func TestP05ASealedAnswerThatIsNotAttestedIsDiscarded(t *testing.T) {
	t.Parallel()
	forEachProtocol(t, func(t *testing.T, l *sealedAttestLab, _ string) {
		t.Helper()
		key := l.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
		for _, way := range waysToSeal() {
			for _, row := range attacks() {
				b := row.b
				b.JSON = `{"price":"` + sealedReply + `"}`
				l.venice.Behave(b)
				if row.why == "" { // its own first use was good
					if got, _ := way.send(t, l, key); got.Status != http.StatusOK {
						t.Fatalf("%s, %s: %d %s", row.about, way.about, got.Status, got.Body)
					}
					row.why = "nonce"
				}
				l.refuses(t, way, key, row.about, "VeniceAttestationError", "venice:attestation_error", row.why)
			}
		}
		if r := verified(t, l.attestLab, 0); r.Valid != len(waysToSeal()) || r.Tokens != r.Valid {
			t.Errorf("the tokens are %+v, want those of the answers that were attested", r)
		}
		l.nothingLeft(t)
		l.AssertSound(t)
	})
}

// TestP06AnAttestedAnswerThatIsNotForThisRequestIsRefused: a valid receipt of an answer to another request does not make it one to this.
func TestP06AnAttestedAnswerThatIsNotForThisRequestIsRefused(t *testing.T) {
	t.Parallel()
	l := runSealedAttestLab(t, nil)
	first := []byte(nil)
	l.venice.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`, Sealed: func(b []byte) []byte {
		if first == nil {
			first = bytes.Clone(b)
		}
		return first
	}})
	ways := waysToSeal()
	if got, _ := ways[0].send(t, l, ""); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	for _, way := range ways[:2] {
		l.refuses(t, way, "", "a replayed answer", "VeniceEncryptionError", "venice:e2ee_error", "not_opened")
	}
	if got, opened := ways[2].send(t, l, ""); opened != "" {
		t.Errorf("a replayed answer was opened by the client: %s", got.Body)
	}
	l.nothingLeft(t)
}

// refuses sends a request whose answer is an attack: its client gets an error of that name and nothing of the answer, and the event has the reason.
func (l *sealedAttestLab) refuses(t *testing.T, way sentBy, key, about, name, event, why string) {
	t.Helper()
	got, opened := way.send(t, l, key)
	if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"details":{"error":"`+name+`"}`) || strings.Contains(opened, "REPLY") || strings.Contains(got.Body, "ciphertext") {
		t.Errorf("%s, %s: %d %s", about, way.about, got.Status, got.Body)
	}
	if got.Header.Get("X-Bardo-Attestation") != "" {
		t.Errorf("%s, %s: it counts as attested", about, way.about)
	}
	id := got.Header.Get("X-Request-Id")
	eventually(t, about+": the event of "+id, func() bool {
		return l.saw(id, `"event":"`+event+`"`, `"error":"`+name+`"`, `"reason":"`+why+`"`, `"task_class":"sealed_auction"`)
	})
}

// nothingLeft: no provider without the enclave was called, and no content is in what was written.
func (l *sealedAttestLab) nothingLeft(t *testing.T) {
	t.Helper()
	if n := len(l.open.Generations()); n != 0 {
		t.Errorf("%d requests reached a provider without an enclave", n)
	}
	for _, file := range []string{l.events, l.log} {
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("PLANTED")) {
			t.Errorf("%s has content", filepath.Base(file))
		}
	}
	if strings.Contains(exported(t, l.attestLab), "PLANTED") {
		t.Error("a token has content")
	}
}
