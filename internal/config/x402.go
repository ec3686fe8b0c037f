package config

var addressForm = pattern(`^0x[0-9a-fA-F]{40}$`)

// checkX402 checks the settings of payments for single requests.
func (d *decoder) checkX402(cfg *Config) {
	x := cfg.Billing.X402
	if x == nil {
		return
	}
	const key, form = "billing.x402.", "0x and 40 hexadecimal digits"
	if !addressForm().MatchString(x.PayTo) {
		d.problem(key+"pay_to", form, "%q is not an address", x.PayTo)
	}
	if x.Asset != "" && !addressForm().MatchString(x.Asset) {
		d.problem(key+"asset", form, "%q is not an address", x.Asset)
	}
	if !x.RPC.IsSet() {
		d.problem(key+"rpc", "the address of a node", "payments cannot be verified without a node")
	}
	switch by := x.Facilitator.Host != ""; {
	case by && x.SettlementKey.IsSet():
		d.warn(d.place(key+"settlement_key"), key+"settlement_key", "it is not used: the facilitator settles payments")
	case !by && !x.SettlementKey.IsSet():
		d.problem(key+"settlement_key", "a private key of 64 hexadecimal digits", "payments cannot be settled without a key or a facilitator")
	case !by && x.FacilitatorAuth.IsSet():
		d.problem(key+"facilitator_authorization", "facilitator with it", "there is no facilitator to send it to")
	}
}

// checkWallet checks the settings of payments to a provider.
func (d *decoder) checkWallet(cfg *Config) {
	b := cfg.Providers.BlockRun
	if b == nil || !b.WalletKey.IsSet() {
		return
	}
	const key, form = "providers.blockrun.payment.", "0x and 40 hexadecimal digits"
	if len(b.Payment.PayTo) == 0 {
		d.warn(d.place("providers.blockrun"), key+"pay_to", "no address may be paid: the wallet pays for nothing")
		return
	}
	for _, to := range b.Payment.PayTo {
		if !addressForm().MatchString(to) {
			d.problem(key+"pay_to", form, "%q is not an address", to)
		}
	}
	if a := b.Payment.Asset; a != "" && !addressForm().MatchString(a) {
		d.problem(key+"asset", form, "%q is not an address", a)
	}
}
