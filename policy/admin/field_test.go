package admin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"bardo.money/gateway/policy"
)

func TestAFieldIsAbsentNullOrAValue(t *testing.T) {
	for body, want := range map[string]Field[policy.Micro]{
		`{}`: {}, ``: {}, `{"limit_usd_day":null}`: Null[policy.Micro](), `{"limit_usd_day":1.5}`: Set[policy.Micro](1_500_000), `{"limit_usd_day":0}`: Set[policy.Micro](0),
	} {
		var f KeyFields
		if err := Decode([]byte(body), &f); err != nil || f.SpendDay != want {
			t.Errorf("%s gives %+v, %v", body, f.SpendDay, err)
		}
		if f.Empty() != !want.Given {
			t.Errorf("%s: empty is %v", body, f.Empty())
		}
		again, err := json.Marshal(&f)
		var back KeyFields
		if err != nil || Decode(again, &back) != nil || back.SpendDay != want {
			t.Errorf("%s is written %s, %v", body, again, err)
		}
	}
}

func TestNullIsForFieldsThatItLifts(t *testing.T) {
	var plain struct {
		Dry bool `json:"dry_run"`
	}
	if err := Decode([]byte(`{"dry_run": null}`), &plain); err == nil || !strings.Contains(err.Error(), "dry_run: null") {
		t.Errorf("a null for a plain member: %v", err)
	}
}

// FuzzDecode: any input is refused, or is the same after writing and reading it.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"name":"a","rpm":5,"ip":["10.0.0.0/8"],"policies":{"pii":null},"expires_at":"2999-01-01T00:00:00Z"}`, `{"name":`, `{"balance_usd":1e9}`, `[]`, `{"a":{"a":{}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var n NewKey
		if Decode(body, &n) != nil {
			return
		}
		b, err := json.Marshal(&n)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		var again NewKey
		if err := Decode(b, &again); err != nil {
			t.Fatalf("%q is written %q, which is refused: %v", body, b, err)
		}
		c, err := json.Marshal(&again)
		if err != nil || !bytes.Equal(b, c) {
			t.Fatalf("%q, %q: %v", b, c, err)
		}
		if _, opening, err := n.row(); err == nil && (opening < 0 || strings.TrimSpace(n.Name.Value) == "") {
			t.Fatalf("%q makes a key with %d", body, opening)
		}
	})
}
