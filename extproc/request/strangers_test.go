package request

import (
	"testing"

	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Users' own keys serve no payer of single requests, neither as candidates nor for other calls.
func TestAPaymentReachesNoKeyOfAUser(t *testing.T) {
	rt := runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"direct": {Direct: true, Engineered: true}, "own": {}})}
	for _, pays := range []bool{false, true} {
		v := View{Config: &rt, PaysItself: pays}
		v.Found = []policy.Resolution{{Provider: "direct"}, {Provider: "own"}}
		if err := v.FilterByPayer(); err != nil || len(v.Found) == 1 != pays || v.Found[len(v.Found)-1].Provider != "own" {
			t.Errorf("pays %v: %v %v", pays, v.Found, err)
		}
		v.Found = []policy.Resolution{{Provider: "direct"}}
		if err := v.FilterByPayer(); (err != nil) != pays {
			t.Errorf("pays %v: %v", pays, err)
		}
		if v.MayCallProvider("direct") == pays || !v.MayCallProvider("own") {
			t.Errorf("pays %v: beside the candidates", pays)
		}
	}
}

// Resources of callers without a key are theirs, and not an unknown payer's.
func TestAPayerWhoIsNotKnownOwnsNothing(t *testing.T) {
	known := map[string]ledger.StoredResource{"anybody's": {Provider: "p"}, "w's": {Provider: "p", Account: "w"}}
	for _, row := range []struct {
		account policy.Account
		pays    bool
		id      string
		may     bool
	}{
		{"", false, "anybody's", true},
		{"", true, "anybody's", false},
		{"w", true, "w's", true},
		{"w", true, "anybody's", false},
		{"", true, "w's", false},
	} {
		v := View{PaysItself: row.pays}
		v.Principal.Account, v.Found = row.account, []policy.Resolution{{Provider: "p"}}
		if err := v.filterByReference(&stored.Ref{ID: row.id, Kind: stored.Resource}, known); (err == nil) != row.may {
			t.Errorf("%+v: %v", row, err)
		}
	}
}
