package attestation

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

var (
	enclaveKey = testKey("enclave")
	signedAt   = time.UnixMilli(1_767_225_600_000)
)

func testPolicy(t testing.TB) *Policy {
	t.Helper()
	p, err := NewPolicy([]string{hex.EncodeToString(enclaveKey.Public().(ed25519.PublicKey))}, []string{strings.Repeat("AB", 48)}) //nolint:forcetypeassert // it is one
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testReceipt() *Receipt {
	r := &Receipt{
		Measurement: strings.Repeat("ab", 48), Nonce: strings.Repeat("01", 32), Timestamp: signedAt.UnixMilli(), Model: "m-tee", ResponseHash: strings.Repeat("cd", 32),
	}
	r.Sign(enclaveKey)
	return r
}

func expected() *Expected {
	return &Expected{Nonce: strings.Repeat("01", 32), Model: "m-tee", ResponseHash: strings.Repeat("cd", 32), At: signedAt}
}

// P-05: the canonical form is that of RFC 8785, which the document shows.
func TestP05TheCanonicalFormIsDocumented(t *testing.T) {
	t.Parallel()
	r := testReceipt()
	want := `{"debug_mode":false,"enclave_measurement":"` + r.Measurement + `","model_id":"m-tee","nonce":"` + r.Nonce + `","response_hash":"` + r.ResponseHash + `","timestamp":1767225600000}`
	if got := string(r.Signed()); got != want {
		t.Errorf("signed is\n%s, want\n%s", got, want)
	}
	for text, want := range map[string]string{"a\"\\\x01\n\t\r\b\f€<&>\u2028": `"a\"\\\u0001\n\t\r\b\f€<&>` + "\u2028" + `"`, "": `""`} {
		if got := string(appendString(nil, text)); got != want {
			t.Errorf("%q is written %s, want %s", text, got, want)
		}
	}
}

func TestP05AReceiptIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	r := testReceipt()
	again, err := Parse(r.Header())
	if err != nil || fmt.Sprint(again) != fmt.Sprint(r) {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := testPolicy(t).Verify(again, expected()); err != nil {
		t.Error(err)
	}
}

func TestP05EachCheckHasItsReason(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		about  string
		change func(*Receipt, *Expected)
		want   Reason
	}{
		{"debug mode", func(r *Receipt, _ *Expected) { r.Debug = true; r.Sign(enclaveKey) }, Debug},
		{"30 s old", func(_ *Receipt, e *Expected) { e.At = e.At.Add(MaxSkew) }, ""},
		{"older", func(_ *Receipt, e *Expected) { e.At = e.At.Add(MaxSkew + time.Millisecond) }, Stale},
		{"30 s ahead", func(_ *Receipt, e *Expected) { e.At = e.At.Add(-MaxSkew) }, ""},
		{"more ahead", func(_ *Receipt, e *Expected) { e.At = e.At.Add(-MaxSkew - time.Millisecond) }, Future},
		{"another key", func(r *Receipt, _ *Expected) { r.Sign(testKey("another")) }, Signature},
		{"changed after it was signed", func(r *Receipt, _ *Expected) { r.Timestamp++ }, Signature},
		{"another nonce", func(_ *Receipt, e *Expected) { e.Nonce = strings.Repeat("02", 32) }, Nonce},
		{"another model", func(_ *Receipt, e *Expected) { e.Model = "m" }, Model},
		{"another enclave", func(r *Receipt, _ *Expected) { r.Measurement = strings.Repeat("ac", 48); r.Sign(enclaveKey) }, Measurement},
		{"another answer", func(_ *Receipt, e *Expected) { e.ResponseHash = strings.Repeat("ce", 32) }, Hash},
	} {
		r, e := testReceipt(), expected()
		row.change(r, e)
		err := testPolicy(t).Verify(r, e)
		if row.want == "" && err != nil || row.want != "" && !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.about, err, row.want)
		}
	}
	if err := (&Policy{}).Verify(testReceipt(), expected()); !errors.Is(err, Signature) {
		t.Errorf("without any key: %v", err)
	}
	for reason, words := range about {
		if words == "" || reason.Error() != words {
			t.Errorf("%s says nothing", string(reason))
		}
	}
}

func TestAPolicyTakesKeysInTwoForms(t *testing.T) {
	t.Parallel()
	key := enclaveKey.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is one
	p, err := NewPolicy([]string{hex.EncodeToString(key), base64.StdEncoding.EncodeToString(key)}, nil)
	if err != nil || len(p.Keys) != 2 || !p.Keys[0].Equal(p.Keys[1]) {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range [][2][]string{{{"x"}, nil}, {{hex.EncodeToString(key[:31])}, nil}, {nil, {"ab"}}, {nil, {strings.Repeat("zz", 48)}}} {
		if _, err := NewPolicy(bad[0], bad[1]); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

// FuzzParse: any header is a receipt of the one form or a reason; each value has one spelling, and unsigned receipts are not trusted.
func FuzzParse(f *testing.F) {
	good := testReceipt()
	f.Add(good.Header())
	f.Add("")
	f.Add(strings.Repeat("A", MaxReceipt+1))
	for _, text := range []string{
		`{}`, `[]`, `null`, `{"nonce":1}`, `{"debug_mode":false,"debug_mode":true}`, `{"enclave_measurement":"","nonce":"","timestamp":1e3,"model_id":"","response_hash":"","debug_mode":0,"signature":""}`,
		strings.Replace(string(good.Signed()), "{", `{"signature":"AA==",`, 1),
	} {
		f.Add(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	p := testPolicy(f)
	f.Fuzz(func(t *testing.T, header string) {
		r, err := Parse(header)
		if err != nil {
			if _, ok := errors.AsType[Reason](err); !ok || r != nil {
				t.Fatalf("%v, %v", r, err)
			}
			return
		}
		again, err := Parse(r.Header())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		if !json.Valid(r.Signed()) {
			t.Fatalf("signed is %q", r.Signed())
		}
		if p.Verify(r, expected()) == nil && !bytes.Equal(r.Signed(), good.Signed()) {
			t.Fatalf("%+v is trusted", r)
		}
	})
}
