package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy/e2ee"
)

// TestP06BothLegsCarryCiphertextIfTheClientEncrypts: the gateway passes what it cannot read, and bills what the answer says that it took.
func TestP06BothLegsCarryCiphertextIfTheClientEncrypts(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`})
	pinned, err := e2ee.ParseKey(enclave.VaultKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	readable := strings.Replace(auction(false).Body, `"model":"sealed",`, `"model":"sealed","max_tokens":50,`, 1)
	send := func() (gateway.Answer, *e2ee.Call) {
		sealed, call, err := e2ee.Seal(pinned, "sealed", 50, []byte(readable))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(sealed, []byte("PLANTED")) {
			t.Error("the client's leg has a readable request")
		}
		return l.Do(t, gateway.Call{Path: "/v1/e2ee/chat/completions", Body: string(sealed), Header: []string{"content-type: application/json"}}), call
	}
	got, call := send()
	if got.Status != http.StatusOK || strings.Contains(got.Body, "PLANTED") || strings.Contains(got.Body, "price") {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	body, used, err := call.Open([]byte(got.Body))
	if err != nil || !strings.Contains(string(body), sealedReply) {
		t.Fatalf("%v: %s", err, body)
	}
	if r := recordOf(t, l.Gateway, got); int64(r.InputTokens) != used.Input || int64(r.OutputTokens) != used.Output || used.Output == 0 {
		t.Errorf("billed as %+v, used %+v", r, used)
	}
	again, other := send()
	if _, _, err := call.Open([]byte(again.Body)); err == nil {
		t.Error("the answer to another request was opened")
	}
	if _, _, err := other.Open([]byte(got.Body)); err == nil {
		t.Error("an earlier answer was opened")
	}
	if l.provider.Saw("PLANTED") || l.provider.Saw("price") || len(l.provider.Generations()) != 2 {
		t.Errorf("the provider saw %+v", l.provider.Generations())
	}
	if n := len(l.open.Generations()); n != 0 || l.leaked(t) {
		t.Errorf("%d requests reached a provider without an enclave, or something was logged", n)
	}
	for _, bad := range []string{readable, `{"model":"sealed","e2ee":7}`, `{"e2ee":{}}`} {
		if got := l.Do(t, gateway.Call{Path: "/v1/e2ee/chat/completions", Body: bad, Header: []string{"content-type: application/json"}}); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, got.Status, got.Body)
		}
	}
	if n := len(l.provider.Generations()); n != 2 {
		t.Errorf("%d requests were sent: a readable one, too", n)
	}
}
