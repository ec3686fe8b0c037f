package runtime_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/privacy"
	"bardo.money/gateway/policy/resolve"
)

// TestP09ATierThatIsInForceIsTheIntents: whether a request is private is decided by its intent, so that it has the tier of every class whose
// constraints apply in the operator's mode. A class of tier private is only private if all tasks go to the private plane.
func TestP09ATierThatIsInForceIsTheIntents(t *testing.T) {
	t.Parallel()
	for _, mode := range []resolve.Mode{resolve.ModeUnset, resolve.ModeVenice, resolve.ModeBoth, resolve.ModeBardo} {
		r := resolve.New(catalog.New(), nil).WithRules(resolve.Rules{Mode: mode})
		rt := runtime.Config{Resolver: r}
		for _, class := range privacy.Classes() {
			h := policy.Hints{TaskClass: class}
			got := rt.Needs(&h, &intent.Facts{Model: "auto"}, &policy.Principal{})
			if want := privacy.InForce(&h, r.PrivatePlane()); want != policy.PrivacyUnset && got.PrivacyTier != want {
				t.Errorf("%s, %s: the intent's tier is %q, in force is %q", mode, class, got.PrivacyTier, want)
			}
			if private := mode == resolve.ModeVenice || privacy.TierOf(class) >= policy.PrivacyTEE; got.IsPrivate() != private || slices.Contains(got.Prefer, policy.Privacy) != private {
				t.Errorf("%s, %s: private %v, prefers %v", mode, class, got.IsPrivate(), got.Prefer)
			}
		}
	}
}

// TestP12AWalletsStateChoosesModels: each band of the table, for agents' requests only, and never for critical subsystems or what the request itself
// states.
func TestP12AWalletsStateChoosesModels(t *testing.T) {
	t.Parallel()
	of := func(w budget.Wallet, h policy.Hints) intent.Built {
		rt := runtime.Config{Resolver: resolve.New(catalog.New(), nil), Wallet: w}
		return rt.Needs(&h, &intent.Facts{Model: "auto"}, &policy.Principal{})
	}
	const usd = policy.USD
	for _, row := range []struct {
		state   string
		wallet  budget.Wallet
		classes int
		cost    float64 // that is added
	}{
		{"", budget.Wallet{}, 0, 0},
		{"bootstrapping", budget.Wallet{Cost: usd}, 0, 0},
		{"expanding", budget.Wallet{Revenue: 3 * usd, Cost: usd}, 1, 0},
		{"sustainable", budget.Wallet{Revenue: 3 * usd, Cost: 2 * usd}, 0, 0},
		{"pressured", budget.Wallet{Revenue: usd, Cost: 2 * usd}, 0, 0.2},
		{"contracting", budget.Wallet{Revenue: usd, Cost: 3 * usd}, -1, 1},
	} {
		for _, subsystem := range []string{"curator", "risk", "operator", "death", ""} {
			h := policy.Hints{Subsystem: subsystem}
			before, after := of(budget.Wallet{}, h), of(row.wallet, h)
			classes, cost := row.classes, min(before.CostSensitivity+row.cost, 1)
			if subsystem != "curator" {
				classes, cost = 0, before.CostSensitivity
			}
			if int(after.Quality)-int(before.Quality) != classes || after.CostSensitivity != cost {
				t.Errorf("%s, %q: quality %s, before %s; cost sensitivity %v, want %v", row.state, subsystem, after.Quality, before.Quality, after.CostSensitivity, cost)
			}
			if told := strings.Contains(strings.Join(after.Why, ";"), "the wallet is "+row.state); told != (subsystem == "curator" && (row.classes != 0 || row.cost != 0)) {
				t.Errorf("%s, %q: %v", row.state, subsystem, after.Why)
			}
		}
	}
	said := policy.Hints{Subsystem: "curator", Quality: policy.QualityHigh, CostSensitivity: new(0.1)}
	if got := of(budget.Wallet{Revenue: usd, Cost: 3 * usd}, said); got.Quality != policy.QualityHigh || got.CostSensitivity != 0.1 {
		t.Errorf("what the request says: %s, %v", got.Quality, got.CostSensitivity)
	}
}
