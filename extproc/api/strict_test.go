package api

import (
	"errors"
	"testing"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// paramOf returns the name in a fault; "none" for no error, "" if it names nothing.
func paramOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "none"
	}
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Kind != fault.InvalidRequest {
		t.Fatalf("%v", err)
	}
	return f.Param
}

func TestParametersThatThereAreNotAreRefusedByName(t *testing.T) {
	for _, row := range []struct{ query, param string }{
		{"", "none"},
		{"limit=1&by=x", "none"},
		{"limit=1&limit=1", "limit"},
		{"limit=", "limit"},
		{"limit", "limit"},
		{"Limit=1", "Limit"},
		{"limit%00=1", "limit%00"},
		{"limit=1;by=x", ""},
		{"limit=%zz", ""},
		{"=1", ""},
	} {
		c := Caller{Head: &stream.Head{Query: row.query}}
		_, err := c.query("by", "limit")
		if got := paramOf(t, err); got != row.param && row.query != "limit%00=1" || row.param != "none" && err == nil {
			t.Errorf("%q: %q, want %q", row.query, got, row.param)
		}
	}
	if _, err := (&Caller{Head: &stream.Head{Query: "a=1"}}).query(); paramOf(t, err) != "a" {
		t.Errorf("where there are none: %v", err)
	}
}

func TestALinkHasTheMembersOfAUserOrOfAnAgent(t *testing.T) {
	for _, row := range []struct {
		body, param string
		own         bool
	}{
		{`{"privy_token":"x"}`, "none", false},
		{`{"privy_token":"x","agent_id":null}`, "none", false},
		{`{"agent_id":7}`, "none", false},
		{`{"agent_id":"7","wallet":true,"holder":"0x"}`, "none", true},
		{`{"agent_id":"7","wallet":false}`, "none", false},
		{`{"object":"identity.claim","agent_id":"7","holder":"0x","nonce":"0x","expires":1,"typed_data":{},"signature":"0x"}`, "none", false},
		{`{"agent_id":"7","privy_token":"x"}`, "privy_token", false},
		{`{"agent_id":"7","Wallet":true}`, "Wallet", false},
		{`{"agent_id":"7","wallet":"true"}`, "wallet", false},
		{`{"agent_id":null,"wallet":true}`, "wallet", false},
		{`{"privy_token":"x","subject":"y"}`, "subject", false},
		{`{"token":"x"}`, "token", false},
	} {
		doc, err := jsonx.Unique.Scan([]byte(row.body))
		if err != nil {
			t.Fatal(err)
		}
		own, err := readLinkForm(&doc)
		if got := paramOf(t, err); got != row.param || own != row.own {
			t.Errorf("%s: %q %v, want %q", row.body, got, own, row.param)
		}
	}
}
