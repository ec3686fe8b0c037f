package auth

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// oneSession knows one key.
type oneSession struct{}

func (oneSession) Principal(_ context.Context, key string) (policy.Principal, bool, error) {
	if key != "bardo_ss_good" {
		return policy.Principal{}, true, fault.Newf(fault.InvalidAPIKey, "no")
	}
	return policy.Principal{Account: "ada", Session: "ses_1", Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, true, nil
}

func TestKeysOfSessions(t *testing.T) {
	v := SessionKeys{oneSession{}}
	for _, row := range []struct {
		about, name, value, client string
		ok                         bool
		kind                       fault.Kind
	}{
		{"a session's key", "authorization", "Bearer bardo_ss_good", "10.1.1.1", true, ""},
		{"in the other header", "x-api-key", "bardo_ss_good", "10.1.1.1", true, ""},
		{"from elsewhere", "x-api-key", "bardo_ss_good", "192.0.2.1", false, fault.KeyRestricted},
		{"a wrong one", "x-api-key", "bardo_ss_bad", "10.1.1.1", false, fault.InvalidAPIKey},
		{"an API key", "x-api-key", "bardo_sk_x", "10.1.1.1", false, ""},
	} {
		r := Request{Header: header.List{{Name: row.name, Value: row.value}}, Client: netip.MustParseAddr(row.client)}
		p, ok, err := v.Verify(t.Context(), r)
		f, _ := errors.AsType[*fault.Fault](err)
		if ok != row.ok || (row.kind == "") != (err == nil) || f != nil && f.Kind != row.kind || ok && p.Session != "ses_1" {
			t.Errorf("%s: %+v, %v, %v", row.about, p, ok, err)
		}
		if v.Immediate(r) != (row.about == "an API key") {
			t.Errorf("%s: immediate is %v", row.about, v.Immediate(r))
		}
	}
}
