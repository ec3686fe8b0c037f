package pay

import (
	"bytes"
	"time"

	"bardo.money/gateway/policy"
)

// Check compares an authorization with the terms and the time, without the chain.
func (t *Terms) Check(p *Payment, now time.Time) error {
	if p.To != t.PayTo {
		return p.Refuse(ReasonRecipient, "the authorization pays %s, not %s", p.To, t.PayTo)
	}
	if p.Value <= 0 {
		return p.Refuse(ReasonValue, "the authorization is for nothing")
	}
	if bytes.HasSuffix(p.Signature, erc6492Suffix[:]) {
		return p.Refuse(ReasonUndeployed, "signatures of wallets that are not deployed (ERC-6492) are not taken: deploy the wallet first")
	}
	return t.CheckWindow(&p.Authorization, now)
}

// CheckWindow refuses an authorization that is not valid yet, or that may expire before the request is served and settled.
func (t *Terms) CheckWindow(a *Authorization, now time.Time) error {
	if now.Unix() <= int64(a.ValidAfter) { //nolint:gosec // at most mostTime
		return a.Refuse(ReasonValidAfter, "the authorization is not valid yet")
	}
	if left := time.Unix(int64(a.ValidBefore), 0).Sub(now); left < t.Window() { //nolint:gosec // at most mostTime
		return a.Refuse(ReasonValidBefore, "the authorization is valid for %s, and serving and settling a request may take %s: sign one of maxTimeoutSeconds",
			max(left, 0).Truncate(time.Second), t.Window())
	}
	return nil
}

// clockError is the additional validity that an authorization may have beyond MaxTimeout, since clients' clocks may be wrong.
const clockError = time.Hour

// CheckEnd refuses an authorization that is valid for much longer than MaxTimeout. A failing transfer is retried until its authorization expires, and is known to
// be lost only then.
func (t *Terms) CheckEnd(a *Authorization, now time.Time) error {
	if left := time.Unix(int64(a.ValidBefore), 0).Sub(now); left > t.MaxTimeout()+clockError { //nolint:gosec // at most mostTime
		return refuse(ReasonTerms, "the authorization is valid for much longer than maxTimeoutSeconds, %d: sign one of that", int64(t.MaxTimeout().Seconds()))
	}
	return nil
}

// erc6492Suffix is the suffix of signatures of wallets that are not deployed yet (ERC-6492).
var erc6492Suffix = Word{
	0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92,
	0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92,
}

// CheckAmount compares a payment with the current price of the request plus the payer's debt, which is paid first. A larger payment is accepted: the rest becomes
// the payer's credit. A lower quote for the same request counts until it expires. short is the missing amount, which the payer's credit may cover; why is the
// refusal for a payer without enough credit.
func (t *Terms) CheckAmount(s QuoteSigner, p *Payment, digest Word, price, owed policy.Micro, now time.Time) (short policy.Micro, why *Refusal) {
	if p.Value >= price.Plus(owed) {
		return 0, nil
	}
	why = p.Refuse(ReasonValue, "the authorization is for %s USD, and the request costs %s", p.Value, price)
	if owed > 0 {
		why = p.Refuse(ReasonValue, "the authorization is for %s USD, and the request costs %s; this wallet also owes %s for payments that never arrived", p.Value, price, owed)
	}
	if q, ok := s.Open(p.Quote); ok {
		switch {
		case q.Digest != digest:
			why = refuse(ReasonTerms, "the quote is for another request")
		case now.After(q.Expires):
			why = refuse(ReasonTerms, "the quote has expired")
		default:
			price = min(price, q.Amount)
		}
	}
	if short = price.Plus(owed) - p.Value; short <= 0 {
		return 0, nil
	}
	return short, why
}
