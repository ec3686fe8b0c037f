package budget_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
)

const usd = policy.USD

var morning = time.Date(2026, 3, 14, 9, 15, 0, 0, time.UTC)

// all are the nine parts.
func all() (out []budget.Part) {
	for p := budget.Heartbeat; p <= budget.Death; p++ {
		out = append(out, p)
	}
	return out
}

// TestComputeReasoningBudgets has results of X-12's formula, computed by hand.
func TestComputeReasoningBudgets(t *testing.T) {
	const without = budget.Unlimited
	for _, row := range []struct {
		vitality float64
		want     budget.Budgets
	}{
		{1, budget.Budgets{0, 2_000_000, 1_500_000, 1_500_000, 500_000, 1_000_000, 1_000_000, 500_000, 1_500_000, without}},
		{0.5, budget.Budgets{0, 1_500_000, 1_500_000, 1_275_000, 325_000, 750_000, 850_000, 375_000, 1_500_000, without}},
		{0, budget.Budgets{0, 1_000_000, 1_500_000, 1_050_000, 150_000, 500_000, 700_000, 250_000, 1_500_000, without}},
		{-1, budget.Budgets{0, 1_000_000, 1_500_000, 1_050_000, 150_000, 500_000, 700_000, 250_000, 1_500_000, without}},
	} {
		if got := budget.Compute(row.vitality, 10*usd); got != row.want {
			t.Errorf("at %v: %v, want %v", row.vitality, got, row.want)
		}
	}
}

// TestBudgetsForAnyLife: a lower vitality never means more, firm parts are not reduced, and the sum does not exceed the budget.
func TestBudgetsForAnyLife(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		daily := policy.Micro(r.Int64N(int64(1000 * usd)))
		less, more := r.Float64(), r.Float64()
		if less > more {
			less, more = more, less
		}
		low, high := budget.Compute(less, daily), budget.Compute(more, daily)
		full := budget.Compute(1, daily)
		var sum policy.Micro
		for _, p := range all() {
			switch {
			case low[p] > high[p]:
				t.Fatalf("%s of %s: %s at %v, %s at %v", p, daily, low[p], less, high[p], more)
			case low[p] < 0:
				t.Fatalf("%s is %s", p, low[p])
			}
			if p != budget.Death {
				sum += high[p]
			}
		}
		for _, p := range []budget.Part{budget.Risk, budget.Operator, budget.Death} {
			if low[p] != full[p] {
				t.Fatalf("%s of %s is reduced to %s at %v", p, full[p], low[p], less)
			}
		}
		if rounding := policy.Micro(8); sum > daily+rounding || low[budget.Death] != budget.Unlimited {
			t.Fatalf("%s of %s are given out, and %s for death", sum, daily, low[budget.Death])
		}
	}
}

// TestEverySubsystemUsesABudgetOrIsSaidToUseNone: each of the intents, their aliases, and the rows of the table of profiles.
func TestEverySubsystemUsesABudgetOrIsSaidToUseNone(t *testing.T) {
	want := map[string]string{
		"heartbeat_t0": "heartbeat", "heartbeat_t1": "heartbeat", "heartbeat_t2": "heartbeat", "risk": "risk", "dream": "dream", "daimon": "daimon",
		"daimon_complex": "daimon", "curator": "curator", "playbook": "playbook", "operator": "operator", "death": "death", "session_compact": "",
		"dream_nrem": "dream", "dream_rem": "dream", "dream_rem_creative": "dream", "dream_integration": "dream", "dream_threat": "dream",
		"hypnagogic_induction": "dream", "hypnagogic_dali": "dream", "hypnopompic_return": "dream",
		"hypnagogic_observer": "heartbeat", "hypnagogic_capture": "heartbeat", "mind_wandering": "heartbeat", "context": "context",
		"death_reflect": "death", "death_testament": "death", "session": "", "autonomous": "heartbeat", "social": "heartbeat",
	}
	for _, name := range append(intent.Names(), profile.Names()...) {
		if _, ok := want[name]; !ok {
			t.Errorf("nothing is said of %s", name)
		}
	}
	for name, part := range want {
		if !intent.Known(name) {
			t.Errorf("%s is no subsystem", name)
		}
		if got := budget.PartOf(name).String(); got != part {
			t.Errorf("%s uses the budget of %q, want %q", name, got, part)
		}
	}
	if got := budget.PartOf("other"); got != budget.Heartbeat {
		t.Errorf("what nobody described uses the budget of %s", got)
	}
	if got := budget.PartOf(""); got != budget.None {
		t.Errorf("no agent's request uses the budget of %s", got)
	}
	for _, p := range all() {
		if budget.ParsePart(p.String()) != p || p.String() == "" {
			t.Errorf("%d is called %q", p, p)
		}
	}
}

func TestD55AWalletStretchesAndCutsBudgets(t *testing.T) {
	for _, row := range []struct {
		about  string
		wallet budget.Wallet
		pct    int64
		state  string
	}{
		{"without a wallet", budget.Wallet{}, 100, ""},
		{"it never earned", budget.Wallet{Cost: 1}, 100, "bootstrapping"},
		{"more than twice", budget.Wallet{Revenue: 201, Cost: 100}, 150, "expanding"},
		{"it never spent", budget.Wallet{Revenue: 1}, 150, "expanding"},
		{"twice", budget.Wallet{Revenue: 200, Cost: 100}, 100, "sustainable"},
		{"a little more than its cost", budget.Wallet{Revenue: 101, Cost: 100}, 100, "sustainable"},
		{"its cost", budget.Wallet{Revenue: 100, Cost: 100}, 70, "pressured"},
		{"half", budget.Wallet{Revenue: 50, Cost: 100}, 70, "pressured"},
		{"less than half", budget.Wallet{Revenue: 49, Cost: 100}, 30, "contracting"},
	} {
		t.Run(row.about, func(t *testing.T) {
			if got := row.wallet.Percent(); got != row.pct || row.wallet.Band().State != row.state {
				t.Errorf("%d %%, %s, want %d", got, row.wallet.Band().State, row.pct)
			}
			plain := budget.Compute(0.4, 10*usd)
			got := plain.ScaledBy(row.wallet)
			for _, p := range all() {
				want := plain[p] * policy.Micro(row.pct) / 100
				if p == budget.Death || p == budget.Risk && row.pct < 100 {
					want = plain[p]
				}
				if got[p] != want {
					t.Errorf("%s is %s, want %s", p, got[p], want)
				}
			}
		})
	}
}

func TestAWalletThatNeverEarnedLivesOnItsSeed(t *testing.T) {
	poor := budget.Wallet{Cost: usd}
	if got := poor.Daily(10 * usd); got != budget.Seed {
		t.Errorf("%s", got)
	}
	if got := poor.Daily(usd / 100); got != usd/100 {
		t.Errorf("%s", got)
	}
	if got := (budget.Wallet{}).Daily(10 * usd); got != 10*usd {
		t.Errorf("without a wallet %s", got)
	}
}

// TestTheTableOfDegradation is that of X-12, with what D-55 exempts.
func TestTheTableOfDegradation(t *testing.T) {
	const toMidnight = 14*time.Hour + 45*time.Minute
	b := budget.Compute(1, 10*usd)
	for _, row := range []struct {
		subsystem, word string
		action          budget.Action
	}{
		{"dream", "budget:skip_cycle", budget.Refuse},
		{"dream_rem_creative", "budget:skip_cycle", budget.Refuse},
		{"hypnagogic_dali", "budget:skip_cycle", budget.Refuse},
		{"curator", "budget:skip_cycle", budget.Refuse},
		{"playbook", "budget:skip_cycle", budget.Refuse},
		{"daimon", "budget:occ_rules", budget.Refuse},
		{"daimon_complex", "budget:occ_rules", budget.Refuse},
		{"context", "budget:static_heuristics", budget.Refuse},
		{"heartbeat_t2", "tier:t2->t1", budget.Downgrade},
		{"heartbeat_t1", "", budget.Serve},
		{"mind_wandering", "", budget.Serve},
		{"other", "", budget.Serve},
		{"risk", "", budget.Serve},
		{"operator", "", budget.Serve},
		{"death", "", budget.Serve},
		{"death_testament", "", budget.Serve},
		{"session", "", budget.Serve},
		{"", "", budget.Serve},
	} {
		t.Run(row.subsystem, func(t *testing.T) {
			limit := b[budget.PartOf(row.subsystem)]
			fresh := b.Decide(row.subsystem, budget.Use{Spent: limit - 1}, morning)
			if limit != 0 && (fresh.Action != budget.Serve || fresh.Degraded != "") {
				t.Errorf("with a unit left: %+v", fresh)
			}
			spent := b.Decide(row.subsystem, budget.Use{Spent: limit}, morning)
			if spent.Action != row.action || spent.Degraded != row.word || (spent.Advice != "") != (row.word != "") {
				t.Errorf("once it is spent: %+v", spent)
			}
			if again := spent.RetryAfter; (again != 0) != (row.action == budget.Refuse) || again != 0 && again != toMidnight {
				t.Errorf("it may come again after %v", again)
			}
			held := b.Decide(row.subsystem, budget.Use{Spent: limit - 1, Held: 1}, morning)
			if limit == 0 || limit == budget.Unlimited {
				return
			}
			if held.Action != row.action || held.Remaining != 1 || row.action == budget.Refuse && held.RetryAfter != budget.Soon {
				t.Errorf("while another holds it: %+v", held)
			}
		})
	}
}

// TestDecisionsForAnyUse: exempt requests are served with any use, and more use never turns a refusal into an answer.
func TestDecisionsForAnyUse(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	names := append(intent.Names(), profile.Names()...)
	amount := func() policy.Micro { return policy.Micro(r.Int64N(int64(usd))) }
	for range 20_000 {
		b := budget.Compute(r.Float64(), amount()).ScaledBy(budget.Wallet{Revenue: amount(), Cost: amount()})
		name := names[r.IntN(len(names))]
		less := budget.Use{Spent: amount(), Held: amount()}
		more := budget.Use{Spent: less.Spent + amount(), Held: less.Held + amount()}
		first, second := b.Decide(name, less, morning), b.Decide(name, more, morning)
		switch part := budget.PartOf(name); {
		case second.Action < first.Action:
			t.Fatalf("%s of %s: %+v for %+v, %+v for %+v", name, b[part], first, less, second, more)
		case second.Action == budget.Refuse && (part == budget.Risk || part == budget.Operator || part == budget.Death || part == budget.Heartbeat || part == budget.None):
			t.Fatalf("%s is refused: %+v", name, second)
		case second.Action == budget.Downgrade && name != budget.Deliberate:
			t.Fatalf("%s is downgraded", name)
		case second.Remaining < 0 || second.Remaining > first.Remaining || (second.Action == budget.Refuse) != (second.RetryAfter > 0):
			t.Fatalf("%s: %+v", name, second)
		}
	}
}

// TestWhatIsLeftIsNeverNegative: and unlimited for death, whatever it cost.
func TestWhatIsLeftIsNeverNegative(t *testing.T) {
	b := budget.Compute(0.3, usd)
	if d := b.Decide("risk", budget.Use{Spent: 5 * usd}, morning); d.Remaining != 0 {
		t.Errorf("risk has %s left", d.Remaining)
	}
	if d := b.Decide("death", budget.Use{Spent: 1000 * usd}, morning); d.Remaining != budget.Unlimited {
		t.Errorf("death has %s left", d.Remaining)
	}
}

func TestTheMessageSaysWhetherWaitingHelps(t *testing.T) {
	held := budget.Decision{Action: budget.Refuse, Advice: "use a rule", Remaining: 1}
	if got, want := held.Sentence(budget.Heartbeat, 2*policy.USD), "the requests under way hold what is left of this agent's budget for heartbeat, 2.000000 USD: use a rule, or try again"; got != want {
		t.Errorf("%q", got)
	}
	spent := budget.Decision{Action: budget.Refuse, Advice: "use a rule"}
	if got, want := spent.Sentence(budget.Heartbeat, 2*policy.USD), "this agent's budget for heartbeat, 2.000000 USD of today's, is spent: use a rule; it begins anew at 00:00 UTC"; got != want {
		t.Errorf("%q", got)
	}
}

func TestAVitalityThatIsNoNumberIsFull(t *testing.T) {
	if got, want := budget.Compute(math.NaN(), 10*policy.USD), budget.Compute(1, 10*policy.USD); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTheRatioOfAWallet(t *testing.T) {
	for w, want := range map[budget.Wallet]float64{
		{Revenue: 3 * policy.USD, Cost: 2 * policy.USD}: 1.5, {Revenue: 3 * policy.USD}: 0, {Revenue: -policy.USD, Cost: policy.USD}: 0,
	} {
		if got := w.Ratio(); got != want {
			t.Errorf("%+v: %g, want %g", w, got, want)
		}
	}
}
