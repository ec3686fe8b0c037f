package later_test

import (
	"net/http"
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// TestWhatNobodyMayKeepIsStoredEncryptedAlone, and is never part of a batch: by its class, its privacy tier, or a required feature.
func TestWhatNobodyMayKeepIsStoredEncryptedAlone(t *testing.T) {
	t.Parallel()
	for about, row := range map[string]struct {
		intent policy.Intent
		hints  policy.Hints
		secret bool
	}{
		"nothing":                {},
		"a confidential request": {intent: policy.Intent{Security: policy.SecurityConfidential}, secret: true},
		"a confidential hint":    {hints: policy.Hints{SecurityClass: policy.SecurityConfidential}, secret: true},
		"a tier":                 {intent: policy.Intent{PrivacyTier: policy.PrivacyNoLog}, secret: true},
		"no_log":                 {intent: policy.Intent{Require: []policy.Feature{policy.Tools, policy.NoLog}}, secret: true},
		"privacy":                {intent: policy.Intent{Require: []policy.Feature{policy.Privacy}}, secret: true},
		"other features":         {intent: policy.Intent{Require: []policy.Feature{policy.Tools}, Prefer: []policy.Feature{policy.Privacy}}},
	} {
		v := &request.View{Exchange: pipeline.Exchange{Request: &chat.Request{}, Intent: row.intent, Hints: row.hints}}
		if later.IsSecret(v) != row.secret || v.KeepsNothing() != row.secret {
			t.Errorf("%s: secret %v, keeps nothing %v", about, later.IsSecret(v), v.KeepsNothing())
		}
		if err := later.Check(v, false); (err != nil) != row.secret {
			t.Errorf("%s where nothing is encrypted: %v", about, err)
		}
		if err := later.Check(v, true); err != nil {
			t.Errorf("%s where it is encrypted: %v", about, err)
		}
	}
}

// TestNoCredentialIsStored, nor anything else that a run does not read: an unknown header may be a credential.
func TestNoCredentialIsStored(t *testing.T) {
	t.Parallel()
	var all header.List
	for _, name := range []string{
		"authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "cookie", "x-bardo-upstream-key", "x-bardo-delegation", "x-bardo-proof",
		"payment-signature", "x-payment", "x-forwarded-for", "x-acme-token", "te", "expect", "origin", "x-bardo-defer",
	} {
		all = append(all, header.Field{Name: name, Value: "PLANTED-" + name})
	}
	kept := header.List{
		{Name: "content-type", Value: "application/json"}, {Name: "user-agent", Value: "u"}, {Name: "x-bardo-subsystem", Value: "dream"}, {Name: "anthropic-version", Value: "2023-06-01"},
	}
	was := slices.Concat(all, kept, header.List{{Name: "x-bardo-session-id", Value: "said"}})
	hd := later.StoredHead(stream.Head{Method: http.MethodPost, Path: "/v1/messages", Query: "token=PLANTED", Header: slices.Clone(was)}, "named")
	want := slices.Concat(kept, header.List{{Name: "x-bardo-session-id", Value: "named"}, {Name: "x-bardo-cache", Value: "off"}})
	if !slices.Equal(hd.Header, want) || hd.Query != "" || hd.Method != http.MethodPost || hd.Path != "/v1/messages" {
		t.Errorf("%+v, want the headers %v", hd, want)
	}
	if hd := later.StoredHead(stream.Head{Header: was}, ""); hd.Header.Get("x-bardo-session-id") != "said" {
		t.Errorf("the request's own session: %v", hd.Header)
	}
}
