package config

import (
	"time"

	"bardo.money/gateway/policy"
)

// Staking is a position of staked VVV, with the management of the keys that spend its credit.
type Staking struct {
	Network   string        `key:"network" default:"base" oneof:"base base-sepolia" doc:"The chain of the position: base (eip155:8453) or base-sepolia (eip155:84532)."`
	RPC       Secret        `key:"rpc" doc:"The JSON-RPC address of a node of the chain. It may contain a key, so it is shown nowhere. Required."`
	Contract  string        `key:"contract" default:"0x321b7ff75154472b18edb199033ff4d116f340ff" doc:"The contract of staked VVV: 0x and 40 hexadecimal digits. Its balances (balanceOf) are what is staked. The default is that of Base."`
	Wallet    string        `key:"wallet" doc:"The address that holds the staked VVV. It is only read. Required."`
	AdminKey  Secret        `key:"admin_key" doc:"A key of Venice of the type ADMIN, which makes, limits and deletes the gateway's keys. It serves no inference. Required."`
	PhaseFrom string        `key:"phase_from" doc:"The id of the API key of this gateway whose requests say the agent's phase (X-Bardo-Phase). Other keys' requests do not change it. Without it, or until they say one: phase."`
	Phase     string        `key:"phase" default:"stable" oneof:"thriving stable conservation declining terminal" doc:"The agent's phase: the key may spend all that the position gives, in conservation half of it, in declining a tenth; in terminal there is no key."`
	Interval  time.Duration `key:"interval" default:"5m" doc:"How often the position is read, besides at each change of phase."`
}

// InitialPhase returns the phase before any request has stated one.
func (s *Staking) InitialPhase() policy.Phase {
	p, _ := policy.ParsePhase(s.Phase) // validated
	return p
}

func (d *decoder) checkStaking(cfg *Config) {
	v := cfg.Providers.Venice
	if v == nil || v.Staking == nil {
		return
	}
	const key = "providers.venice.staking."
	s := v.Staking
	for name, a := range map[string]string{"contract": s.Contract, "wallet": s.Wallet} {
		if !addressForm().MatchString(a) {
			d.problem(key+name, "0x and 40 hexadecimal digits", "%q is not an address", a)
		}
	}
	if !s.RPC.IsSet() {
		d.problem(key+"rpc", "the address of a node", "the position cannot be read without a node")
	}
	if !s.AdminKey.IsSet() {
		d.problem(key+"admin_key", "a key of the type ADMIN", "keys cannot be made without it")
	}
	if v.CreditRate <= 0 {
		d.problem("providers.venice.creditRatePerVvv", "more than 0, with staking", "%v", v.CreditRate)
	}
	if v.USDRate <= 0 {
		d.problem("providers.venice.dailyUsdcRate", "more than 0, with staking", "%v", v.USDRate)
	}
	if s.Interval < time.Second || s.Interval > day {
		d.problem(key+"interval", "from 1s to 24h", "%s", s.Interval)
	}
}

const day = 24 * time.Hour
