package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/seedtest"
	"bardo.money/gateway/policy/e2ee"
)

// tamperLab is a gateway whose enclaves, one that signs and one that encrypts, are reached by somebody who changes their answers.
type tamperLab struct {
	*gateway.Gateway

	venice, vault, open *fake.Server
	in                  *enclave.Vault
	signed, sealed      *tamperer
	events, audit, log  string // files
}

func runTamperLab(t *testing.T, shape string) *tamperLab {
	t.Helper()
	dir, signer := t.TempDir(), enclave.New("venice")
	l := &tamperLab{
		in: enclave.NewVault("a"), signed: startTamperer(t), sealed: startTamperer(t), events: filepath.Join(dir, "events.jsonl"), audit: filepath.Join(dir, "audit.jsonl"), log: filepath.Join(dir, "log"),
		venice: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice, Enclave: signer}), open: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "open"}),
	}
	l.vault = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "vault", Vault: l.in})
	l.signed.to, l.sealed.to = strings.TrimSuffix(l.venice.URL, "/v1"), strings.TrimSuffix(l.vault.URL, "/v1")
	l.venice.Behave(fake.Behaviour{JSON: longBid})
	l.vault.Behave(fake.Behaviour{JSON: longBid})
	log, err := os.Create(l.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	l.Gateway = gateway.Run(t, gateway.Options{DataPath: shape, Stdout: log, Stderr: log, Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s", log_level: debug}
audit: {file: %q}
inference: {on_privacy_exhausted: fail}
pipeline: {hash: all}
providers:
  order: [venice, vault, open]
  venice:
    base_url: %q
    api_key: %s
    attestation_pubkey: %q
    attestation_measurements: [%q]
    models: [{id: sealed, price: {input: 1, output: 2}, %s}]
  custom:
    - {id: vault, endpoints: [%q], api_key: %s, private: true, e2ee_keys: [%s], models: [{id: hidden, price: {input: 1, output: 2}, capabilities: [e2ee, structured_outputs]}]}
    - {id: open, endpoints: [%q], api_key: %s, models: [{id: sealed, price: {input: 3, output: 6}, capabilities: [structured_outputs]}, {id: hidden, price: {input: 3, output: 6}, capabilities: [structured_outputs]}]}
`, l.events, l.audit, l.signed.URL+"/v1", l.venice.Key, signer.PublicKey(), signer.Measurement, enclaveModel, l.sealed.URL+"/v1", l.vault.Key, enclave.VaultKey("a"), l.open.URL, l.open.Key)})
	return l
}

// longBid has the mark in each of the pieces of a stream.
var longBid = `{"price":"` + strings.Repeat("PLANTED", 12) + `"}`

// inShapes runs a random test in both shapes, for each seed.
func inShapes(t *testing.T, run func(t *testing.T, shape string, r *rand.Rand)) {
	t.Helper()
	for _, seed := range seedtest.Seeds(20) {
		for _, shape := range []string{"extproc", "module"} {
			t.Run(fmt.Sprintf("%s/seed=%d", shape, seed), func(t *testing.T) {
				t.Parallel()
				run(t, shape, rand.New(rand.NewPCG(seed, 0)))
			})
		}
	}
}

// reasons are those of an answer that is not attested.
var reasons = []string{
	"missing", "too_large", "malformed", "contradicts", "debug_mode", "stale", "future", "signature", "nonce", "model", "measurement", "hash", "encoding", "truncated",
}

// told is the reason of the event of a request; "" for none.
func (l *tamperLab) told(t *testing.T, event, id string) string {
	t.Helper()
	b, err := os.ReadFile(l.events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, `"event":"`+event+`"`) && strings.Contains(line, `"request_id":"`+id+`"`) {
			return between(line, `"reason":"`, `"`)
		}
	}
	return ""
}

// TestP05NoAnswerThatWasTamperedWithIsUsed: bytes, receipts, promises, heads, trailers and pieces of answers are changed at random. What is not what the enclave has signed,
// for this call, with the promise, is refused with its error and event, and no byte of it reaches the client or anything that the gateway keeps.
func TestP05NoAnswerThatWasTamperedWithIsUsed(t *testing.T) {
	t.Parallel()
	inShapes(t, func(t *testing.T, shape string, r *rand.Rand) {
		t.Helper()
		l := runTamperLab(t, shape)
		earlier, taken, refused := "", 0, map[string]int{}
		for range 220 {
			c, same, about := trade(r.IntN(2) == 0), true, ""
			if private := r.IntN(4) == 0; private {
				c.Header = []string{isPrivate}
			}
			c.Header = append(c.Header, "X-Bardo-Cache: off")
			l.signed.set(func(a *tampered) {
				if about = "the promise"; a.receipts() == nil {
					a.tamperPromise(r)
					same = a.promised()
					return
				}
				about = tamper(r, a, earlier)
				same, earlier = a.isSame(), a.was.receipts()[0]
			})
			got := l.Do(t, c)
			id := got.Header.Get("X-Request-Id")
			if got.Status == http.StatusOK && same {
				taken++
				continue
			}
			if about == "nothing" {
				t.Fatalf("an answer as it came is refused: %d %s", got.Status, got.Body)
			}
			refused[about]++
			attested, kept := strings.Contains(got.Body, `"VeniceAttestationError"`), strings.Contains(got.Body, `"VeniceRetentionError"`)
			if got.Status != http.StatusServiceUnavailable || strings.Contains(fmt.Sprint(got), "PLANTED") || !attested && !kept || got.Header.Get("X-Bardo-Attestation") != "" {
				t.Errorf("%s, %.60s: %d %v %s", about, c.Body, got.Status, got.Header, got.Body)
				continue
			}
			why := ""
			event := map[bool]string{true: "venice:attestation_error", false: "venice:retention_error"}[attested]
			eventually(t, about+": the event of "+id, func() bool { why = l.told(t, event, id); return why != "" })
			if attested && !slices.Contains(reasons, why) {
				t.Errorf("%s: the reason is %q", about, why)
			}
		}
		if taken < 20 || len(refused) < 12 {
			t.Errorf("%d answers were taken, and refused were %v", taken, refused)
		}
		l.assertClean(t, "PLANTED")
		if n := len(l.open.Generations()); n != 0 {
			t.Errorf("%d requests reached a provider without an enclave", n)
		}
	})
}

// assertClean looks for a text in all that the gateway wrote.
func (l *tamperLab) assertClean(t *testing.T, text string) {
	t.Helper()
	for _, place := range []string{l.Home, filepath.Dir(l.log)} {
		for file, b := range filesBelow(t, place) {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("%s has a part of what was said", file)
			}
		}
	}
	l.AssertSound(t)
}

// filesBelow are the files of a folder and their contents.
func filesBelow(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		all[path], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Errorf("%s: %d files, %v", dir, len(all), err)
	}
	return all
}

// TestP06NoSealedAnswerThatWasTamperedWithIsOpened: of answers to requests that the gateway has encrypted, and of those that clients have.
func TestP06NoSealedAnswerThatWasTamperedWithIsOpened(t *testing.T) {
	t.Parallel()
	pinned, err := e2ee.ParseKey(enclave.VaultKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	inShapes(t, func(t *testing.T, shape string, r *rand.Rand) {
		t.Helper()
		l := runTamperLab(t, shape)
		readable := strings.Replace(auction(false).Body, `"sealed"`, `"hidden"`, 1)
		earlier, taken, refused := "", 0, 0
		for range 160 {
			same, about := true, ""
			l.sealed.set(func(a *tampered) {
				was := string(a.body)
				about = tamperSealed(r, a, earlier)
				same, earlier = !a.cut && meantBySealed(a.body) == meantBySealed([]byte(was)), was
			})
			c := auction(r.IntN(2) == 0)
			c.Body = strings.Replace(c.Body, `"sealed"`, `"hidden"`, 1)
			var call *e2ee.Call
			if r.IntN(2) == 0 {
				body, own, err := e2ee.Seal(pinned, "hidden", 50, []byte(readable))
				if err != nil {
					t.Fatal(err)
				}
				call, c.Path, c.Body = own, "/v1/e2ee/chat/completions", string(body)
			}
			got := l.Do(t, c)
			ok := got.Status == http.StatusOK && strings.Contains(got.Body, "PLANTED")
			if call != nil {
				opened, _, err := call.Open([]byte(got.Body))
				ok = err == nil && bytes.Contains(opened, []byte("PLANTED"))
			}
			if ok && same {
				taken++
				continue
			}
			refused++
			if ok || about == "nothing" || strings.Contains(fmt.Sprint(got), "PLANTED") {
				t.Errorf("%s, by the client %v, the same %v: %d %s", about, call != nil, same, got.Status, got.Body)
				continue
			}
			if call == nil && (got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "VeniceEncryptionError")) {
				t.Errorf("%s: %d %s", about, got.Status, got.Body)
			}
		}
		if taken < 10 || refused < 50 {
			t.Errorf("%d answers were taken, %d refused", taken, refused)
		}
		for _, b := range l.in.Opened() {
			if !strings.Contains(b, sealedQuestion) {
				t.Errorf("the enclave has opened %s", b)
			}
		}
		if l.vault.Saw("PLANTED") || len(l.open.Generations()) != 0 {
			t.Error("somebody outside of the enclave has read a request")
		}
		l.assertClean(t, "PLANTED")
	})
}

// meantBySealed is what a sealed answer says; "" for one that says nothing.
func meantBySealed(body []byte) string {
	var a e2ee.Answer
	if json.Unmarshal(body, &a) != nil {
		return ""
	}
	b, _ := json.Marshal(a) // of numbers and bytes
	return string(b)
}

// tamperSealed changes a sealed answer at random, and says what it did.
func tamperSealed(r *rand.Rand, a *tampered, earlier string) string {
	a.piece = pick(r, 0, 0, 1, 50)
	if r.IntN(7) == 0 {
		return "nothing"
	}
	if r.IntN(8) == 0 {
		a.cut = true
		return "a body that is cut"
	}
	s := string(a.body)
	at := r.IntN(len(s))
	key := pick(r, "nonce", "ciphertext", "prompt_tokens", "completion_tokens", "v", "usage", "e2ee")
	text := between(s, `"ciphertext":"`, `"`)
	other := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", 32)))
	changed := []string{
		s[:at] + string([]byte{s[at] ^ 1<<r.IntN(8)}) + s[at+1:],
		s[:at],
		s[:at] + s[at+1:],
		s[:at] + pick(r, " ", "0", "A", `"`, "\\n", "\n") + s[at:],
		earlier,
		s + pick(r, "}", "{}", " ", "]", "null", "\x00"),
		strings.Replace(s, `"`+key+`":`, `"`+key+`":null,"`+key+`":`, 1),
		strings.Replace(s, `"`+key+`"`, `"`+strings.ToUpper(key)+`"`, 1),
		strings.Replace(s, `"`+key+`":`, `"`+key+`x":`, 1),
		strings.Replace(s, `"completion_tokens":`, `"completion_tokens":`+pick(r, "9", "0", "-", "1e0,\"x\":"), 1),
		strings.Replace(s, `"nonce":"`, `"nonce":"`+other+`","nonce":"`, 1),
		strings.Replace(s, text, text[len(text)/2:]+text[:len(text)/2], 1),
		strings.Replace(s, text, strings.ToLower(text), 1),
		strings.Replace(s, text, text+text, 1),
		`{"choices":[{"message":{"role":"assistant","content":"FORGED"}}]}`,
		"data: " + s + "\n\n",
		"[" + s + "]",
	}
	i := r.IntN(len(changed))
	a.body = []byte(changed[i])
	return fmt.Sprintf("change %d at %d of %s", i, at, key)
}

// TestP06ASealedRequestThatWasTamperedWithIsNotOpened: whoever stands between a client that encrypts and the enclave changes its requests. The enclave opens what the client
// has sealed, or nothing; nobody else gets it; and no change makes an internal error.
func TestP06ASealedRequestThatWasTamperedWithIsNotOpened(t *testing.T) {
	t.Parallel()
	keys := map[string]*e2ee.Key{}
	for _, name := range []string{"a", "b"} {
		k, err := e2ee.ParseKey(enclave.VaultKey(name))
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = k
	}
	inShapes(t, func(t *testing.T, shape string, r *rand.Rand) {
		t.Helper()
		l := runTamperLab(t, shape)
		readable := strings.Replace(auction(false).Body, `"sealed"`, `"hidden"`, 1)
		served := 0
		for range 160 {
			body, call, err := e2ee.Seal(keys[pick(r, "a", "a", "a", "b")], "hidden", 50, []byte(readable))
			if err != nil {
				t.Fatal(err)
			}
			s := string(body)
			at := r.IntN(len(s))
			s = pick(r, s, s[:at]+string([]byte{s[at] ^ 1<<r.IntN(8)})+s[at+1:], s[:at], s[:at]+s[at+1:], strings.Replace(s, `"hidden"`, pick(r, `"sealed"`, `"HIDDEN"`, `"vault/hidden"`, `"open/hidden"`, `null`, `7`), 1),
				strings.Replace(s, `"e2ee":`, pick(r, `"messages":[],"e2ee":`, `"e2ee":{},"e2ee":`, `"E2EE":`, `"e2ee2":`), 1), strings.Replace(s, `"max_tokens":50`, pick(r, `"max_tokens":1`, `"max_tokens":-1`, `"max_tokens":1e9`, `"max_tokens":"x"`), 1),
				strings.Replace(s, `"key_id":"`, `"key_id":"`+pick(r, "0", "x", `","key_id":"`), 1), s+"{}", strings.Replace(s, `"enc":"`, `"enc":"AAAA`, 1), strings.Replace(s, `"v":1`, `"v":`+pick(r, "2", "1.0", `"1"`, "null"), 1))
			got := l.Do(t, gateway.Call{Path: "/v1/e2ee/chat/completions", Body: s, Header: []string{"X-Bardo-Task-Class: sealed_auction"}})
			opened, _, err := call.Open([]byte(got.Body))
			if err == nil && bytes.Contains(opened, []byte("PLANTED")) {
				served++
			}
			if got.Status == http.StatusInternalServerError || strings.Contains(got.Body, "PLANTED") {
				t.Errorf("%s: %d %s", s, got.Status, got.Body)
			}
		}
		if served < 10 {
			t.Errorf("%d requests were served", served)
		}
		for _, b := range l.in.Opened() {
			if b != readable {
				t.Errorf("the enclave has opened %s", b)
			}
		}
		if n := len(l.open.Generations()) + len(l.venice.Generations()); n != 0 {
			t.Errorf("%d sealed requests reached somebody else", n)
		}
		l.assertClean(t, sealedQuestion)
	})
}
