package e2ee

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
)

func private(t testing.TB, name string) *ecdh.PrivateKey {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	k, err := ecdh.X25519().NewPrivateKey(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pinned(t testing.TB, name string) *Key {
	t.Helper()
	k, err := ParseKey(base64.StdEncoding.EncodeToString(private(t, name).PublicKey().Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answered returns an enclave's answer to a sealed request: its body, sealed.
func answered(t testing.TB, name string, sealed []byte, u Usage) (opened []byte, answer []byte, err error) {
	t.Helper()
	var r Request
	if err := json.Unmarshal(sealed, &r); err != nil {
		return nil, nil, err
	}
	k, err := hpke.NewDHKEMPrivateKey(private(t, name))
	if err != nil {
		return nil, nil, err
	}
	in, err := hpke.NewRecipient(r.Sealed.Enc, k, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("bardo-e2ee/1"))
	if err != nil {
		return nil, nil, err
	}
	if opened, err = in.Open([]byte("bardo-e2ee/1 request\n"+r.Sealed.KeyID), r.Sealed.Ciphertext); err != nil {
		return nil, nil, err
	}
	secret, err := in.Export("bardo-e2ee/1 response", 32)
	if err != nil {
		return nil, nil, err
	}
	nonce := bytes.Repeat([]byte{7}, 32)
	aead, iv, err := answerKey(secret, r.Sealed.Enc, nonce)
	if err != nil {
		return nil, nil, err
	}
	a := Answer{Usage: u, Sealed: SealedAnswer{Version: 1, Nonce: nonce, Ciphertext: aead.Seal(nil, iv, opened, answerData(&u))}}
	answer, err = json.Marshal(a)
	return opened, answer, err
}

func TestP06OnlyTheTwoEndsReadARequestAndItsAnswer(t *testing.T) {
	t.Parallel()
	body := []byte(`{"model":"m","messages":[]}`)
	sealed, call, err := Seal(pinned(t, "a"), "m", 50, body)
	if err != nil || bytes.Contains(sealed, []byte("messages")) || !bytes.Contains(sealed, []byte(`"max_tokens":50`)) {
		t.Fatalf("%s, %v", sealed, err)
	}
	opened, answer, err := answered(t, "a", sealed, Usage{3, 4})
	if err != nil || !bytes.Equal(opened, body) {
		t.Fatalf("%s, %v", opened, err)
	}
	got, u, err := call.Open(answer)
	if err != nil || !bytes.Equal(got, body) || u != (Usage{3, 4}) {
		t.Errorf("%s, %v, %v", got, u, err)
	}
	if _, _, err := answered(t, "b", sealed, Usage{}); err == nil {
		t.Error("another key opened it")
	}
	again, other, err := Seal(pinned(t, "a"), "m", 0, body)
	if err != nil || bytes.Equal(again, sealed) {
		t.Errorf("the same request twice is %s, %v", again, err)
	}
	if _, _, err := other.Open(answer); !errors.Is(err, NotOpened) {
		t.Errorf("the answer to another request: %v", err)
	}
}

func TestKeysHaveTwoForms(t *testing.T) {
	t.Parallel()
	raw := private(t, "a").PublicKey().Bytes()
	keys, err := ParseKeys([]string{hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)})
	if err != nil || len(keys) != 2 || keys[0].ID != keys[1].ID || len(keys[0].ID) != 16 {
		t.Errorf("%v, %v", keys, err)
	}
	for _, bad := range []string{"", "x", hex.EncodeToString(raw[:31])} {
		if _, err := ParseKeys([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	for _, r := range []Reason{NotSealed, NotOpened, NotWhole, NotBounded} {
		if r.Error() == string(r) {
			t.Errorf("%s says nothing", string(r))
		}
	}
}

// FuzzOpen: any answer is opened as the enclave's own, or refused with a reason.
func FuzzOpen(f *testing.F) {
	sealed, call, err := Seal(pinned(f, "a"), "m", 0, []byte("body"))
	if err != nil {
		f.Fatal(err)
	}
	_, good, err := answered(f, "a", sealed, Usage{1, 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"e2ee":{"v":1,"nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","ciphertext":"AA=="},"usage":{"prompt_tokens":-1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		body, _, err := call.Open(b)
		if err == nil && string(body) != "body" {
			t.Fatalf("%q was opened from %q", body, b)
		}
		if _, ok := errors.AsType[Reason](err); err != nil && !ok {
			t.Fatal(err)
		}
	})
}
