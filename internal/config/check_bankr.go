package config

import (
	"time"

	"bardo.money/gateway/policy"
)

// Limits of an account at Bankr.
const (
	minCreditInterval = time.Second // minimum interval of reading the credit
	largestTopup      = 1000 * policy.USD
)

// checkBankr checks when credit is read and bought.
func (d *decoder) checkBankr(b *Bankr) {
	const section = "providers.bankr."
	if b == nil {
		return
	}
	if b.CreditInterval != 0 && b.CreditInterval < minCreditInterval {
		d.problem(section+"credit_interval", "0, or at least 1s", "%s", b.CreditInterval)
	}
	if b.AutoTopup && (b.TopupAmount <= 0 || b.TopupAmount > largestTopup) {
		d.problem(section+"auto_topup_amount_usd", "more than 0, at most 1000", "%s USD", b.TopupAmount)
	}
	if b.AutoTopup && b.TopupDaily < b.TopupAmount {
		d.problem(section+"auto_topup_daily_usd", "at least auto_topup_amount_usd", "%s USD allow no purchase", b.TopupDaily)
	}
	if b.AutoTopup && !b.Buys() {
		const key = section + "auto_topup"
		d.warn(d.place(key), key, "nothing is bought: endpoint is not Bankr's own, and account_endpoint does not say where credit is sold")
	}
	if u := b.AccountEndpoint; b.Buys() && !u.TLS() && u.Public() {
		const key = section + "account_endpoint"
		d.warn(d.place(key), key, "the key goes to %s without encryption", u.Host)
	}
}
