package config_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

const goodStaking = `data_path: module
providers: {venice: {creditRatePerVvv: 2, dailyUsdcRate: 0.05, staking: {rpc: "https://node.example/secret", wallet: "0x71c7656ec7ab88b098defb751b7401b5f6d8976f", admin_key: k, phase: declining}}}
`

func TestStakingNeedsWhatItWorksWith(t *testing.T) {
	t.Parallel()
	v := mustParse(t, goodStaking).Providers.Venice
	if s := v.Staking; s.InitialPhase() != policy.PhaseDeclining || s.Contract != "0x321b7ff75154472b18edb199033ff4d116f340ff" || s.Network != "base" {
		t.Errorf("%+v", s)
	}
	for _, row := range []struct{ from, to, key string }{
		{"creditRatePerVvv: 2", "creditRatePerVvv: 0", "providers.venice.creditRatePerVvv"},
		{", dailyUsdcRate: 0.05", "", "providers.venice.dailyUsdcRate"},
		{`rpc: "https://node.example/secret", `, "", "providers.venice.staking.rpc"},
		{", admin_key: k", "", "providers.venice.staking.admin_key"},
		{"71c7656e", "", "providers.venice.staking.wallet"},
		{"phase: declining", "contract: x", "providers.venice.staking.contract"},
		{"phase: declining", "interval: 10ms", "providers.venice.staking.interval"},
	} {
		_, problems := config.Parse("test.yaml", []byte(strings.Replace(goodStaking, row.from, row.to, 1)), variables(), kinds...)
		if len(problems) != 1 || problems[0].Key != row.key || strings.Contains(problems[0].String(), "secret") {
			t.Errorf("%s: %v", row.key, problems)
		}
	}
}
