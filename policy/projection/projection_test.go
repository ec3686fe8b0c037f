package projection_test

import (
	"fmt"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/projection"
)

func at(model string, input, output policy.Price) policy.Resolution {
	return policy.Resolution{Provider: "blockrun", Model: policy.ModelID(model), Prices: policy.Prices{Input: input, Output: output, Known: true}}
}

const perMillion = policy.Price(policy.USD)

var list = projection.Models{
	T1: at("claude-haiku-4-5", perMillion, 5*perMillion), T2: at("claude-sonnet-4", 3*perMillion, 15*perMillion),
	Deepest: at("claude-opus-4-6", 5*perMillion, 25*perMillion),
}

// cents is an amount in dollars, rounded to cents.
func cents(p policy.Pico) string { return fmt.Sprintf("%.2f", float64(p)/1e12) }

func TestR25DaysCostWhatWasProjected(t *testing.T) {
	want := map[string]struct {
		t1, t2 string
		about  float64 // the expected total of R-25, rounded
	}{
		"calm": {"0.024", "0.02", 0.05}, "normal": {"0.045", "0.15", 0.20}, "volatile": {"0.075", "0.75", 0.83},
	}
	for _, mix := range projection.Mixes {
		tiers, total := projection.Day(100, mix, &list)
		w := want[mix.Name]
		if got := fmt.Sprintf("%.3f", float64(tiers[1].Cost)/1e12); got != w.t1 {
			t.Errorf("%s: T1 costs %s, want %s", mix.Name, got, w.t1)
		}
		if got := cents(tiers[2].Cost + tiers[3].Cost); got != w.t2 {
			t.Errorf("%s: T2 costs %s, want %s", mix.Name, got, w.t2)
		}
		if got := float64(total) / 1e12; got < w.about-0.01 || got > w.about+0.01 {
			t.Errorf("%s costs %v, want about %v", mix.Name, got, w.about)
		}
		if mix.T0+mix.T1+mix.T2 != 1000 || tiers[0].Cost != 0 {
			t.Errorf("%s: the tiers are not all, or T0 costs %d", mix.Name, tiers[0].Cost)
		}
	}
}

func TestTypicalCallsCostWhatTheTiersCost(t *testing.T) {
	for _, row := range []struct {
		call   projection.Call
		prices policy.Prices
		want   string
	}{
		{projection.Routine, list.T1.Prices, "0.003"}, {projection.Deep, list.T2.Prices, "0.010"}, {projection.Deepest, list.Deepest.Prices, "0.250"},
	} {
		if got := fmt.Sprintf("%.3f", float64(row.call.Cost(row.prices))/1e12); got != row.want {
			t.Errorf("%+v costs %s, want %s", row.call, got, row.want)
		}
	}
}

func TestR25MonthsCostWhatWasProjected(t *testing.T) {
	ordinary, private := at("claude-haiku-4-5", perMillion, 5*perMillion), at("llama-3.3-70b", perMillion, 4*perMillion)
	private.Private = true
	tasks, elsewhere, onPrivate := projection.Month(100, &ordinary, &private)
	want := map[string]string{"heartbeat": "4.80", "plan": "2.25", "trade": "1.80", "dream_nrem": "0.30", "dream_rem": "0.48", "dream_integration": "0.54"}
	for _, task := range tasks {
		if got := cents(task.Cost); got != want[task.Class] {
			t.Errorf("%s costs %s a month, want %s", task.Class, got, want[task.Class])
		}
	}
	if cents(elsewhere) != "4.80" || cents(onPrivate) != "5.37" {
		t.Errorf("got %s and %s, want 4.80 and 5.37", cents(elsewhere), cents(onPrivate))
	}
}

func TestStakedCreditMakesPrivateTasksFree(t *testing.T) {
	ordinary, private := at("m", perMillion, 5*perMillion), at("n", 0, 0)
	if _, elsewhere, onPrivate := projection.Month(100, &ordinary, &private); elsewhere == 0 || onPrivate != 0 {
		t.Errorf("got %s and %s", elsewhere, onPrivate)
	}
}

func TestMorePrivacyCostsMore(t *testing.T) {
	last := int64(-1)
	for _, tier := range []policy.PrivacyTier{policy.PrivacyNoLog, policy.PrivacyTEE, policy.PrivacyEndToEnd} {
		if p := projection.Premium(tier); p <= last {
			t.Errorf("%s adds %d %%", tier, p)
		} else {
			last = p
		}
	}
}

func TestOnlyHeartbeatsGrowWithTheTicks(t *testing.T) {
	ordinary, private := at("m", perMillion, 5*perMillion), at("n", perMillion, 4*perMillion)
	_, some, private1 := projection.Month(100, &ordinary, &private)
	_, more, private2 := projection.Month(300, &ordinary, &private)
	if more != 3*some || private1 != private2 {
		t.Errorf("three times the ticks: %s and %s, before %s and %s", more, private2, some, private1)
	}
}

func TestWhereNobodyIsPrivateThereIsNoPremium(t *testing.T) {
	ordinary, open := at("m", perMillion, 5*perMillion), at("n", perMillion, 4*perMillion)
	sealed := open
	sealed.Private = true
	_, _, without := projection.Month(100, &ordinary, &open)
	_, _, with := projection.Month(100, &ordinary, &sealed)
	if without >= with {
		t.Errorf("%s without a private provider, %s with one", without, with)
	}
}
