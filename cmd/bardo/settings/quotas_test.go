package settings_test

import (
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy/quota"
)

func TestQuotasOfTheConfiguration(t *testing.T) {
	var cfg config.Config
	cfg.Limits.Quotas = []config.Quota{
		{Name: "a", Per: "owner", Window: time.Minute, Limit: 2.5, Cost: "output_tokens * 2", When: "model == 'm'"},
		{Name: "b", Per: "all", Cost: "output_tokens *"},
		{Name: "c", Per: "all", Cost: "output_tokens", When: "model"},
	}
	all := settings.QuotaRules(&cfg).Quotas
	if len(all) != 3 {
		t.Fatalf("%d quotas", len(all))
	}
	a := all[0]
	if n, err := a.Cost.Of(&rule.Usage{Output: 3}); a.Name != "a" || a.Per != quota.PerOwner || a.Window != time.Minute || a.Limit != 2_500_000 || n != 6 || err != nil {
		t.Errorf("%+v counts %v, %v", a, n, err)
	}
	if holds, err := a.When.Holds(&rule.Usage{Model: "m"}); !holds || err != nil {
		t.Errorf("%v, %v", holds, err)
	}
	for _, bad := range all[1:] { // a quota that cannot be evaluated refuses
		if n, err := bad.Cost.Of(&rule.Usage{}); err == nil {
			t.Errorf("%s counts %v", bad.Name, n)
		}
	}
}
