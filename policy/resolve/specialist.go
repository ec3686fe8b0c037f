package resolve

import (
	"slices"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// role is a provider's role for a request.
type role uint8

const (
	generalist role = iota
	specialist      // made for such requests: it comes first
	lastResort      // a specialist for other requests: it only serves if there is no generalist, or if its model was named
	barred          // must not serve the request
)

// candidate is a provider's state in one decision.
type candidate struct {
	*providerOptions
	role    role
	why     string
	diem    bool        // staked credit pays
	ceiling policy.Pico // maximum cost of the request there; 0: no limit
	must    set         // a model must have one of these; empty: no requirement
	options []option    // options that are considered
	way     *way        // for a named model: its offer here
	from    int         // index of its first option in standings
	picked  bool        // it is in the order
}

// servesAnything reports whether the provider takes any request, so that being first for this one does not make it a specialist for others.
func (c *candidate) servesAnything() bool {
	return c.role == generalist || c.role == specialist && c.p.Traits.First == kind.ForNone && !c.direct()
}

// newCandidate returns a provider's state for a request.
func (r *Resolver) newCandidate(s *providerOptions, n *need) candidate {
	c := candidate{providerOptions: s, options: s.options, diem: n.DIEM && s.p.DIEM}
	c.role, c.why = r.roleOf(s, n)
	switch {
	case c.role != specialist:
	case s.p.Traits.First == kind.ForWallet:
		c.ceiling = policy.Pico(ceiling(s.p.Earnings, n.critical())) * (1e12 / policy.Pico(policy.USD))
	case s.direct() && n.Provider == "":
		c.must = (n.require | n.prefer) & native
	}
	return c
}

// roleOf returns a provider's role for a request, and the reason.
func (r *Resolver) roleOf(s *providerOptions, n *need) (role, string) {
	switch {
	case n.Bars(s.p.ID):
		return barred, "the plan of this key does not include it"
	case n.Provider != "" && n.Provider != s.p.ID:
		return barred, "the request asks for " + clip(string(n.Provider)) + " alone"
	case n.Provider != "":
		return generalist, "the request asks for it"
	case n.Subsystem != "" && r.rules.Mode == ModeVenice && s.p.Traits.First != kind.ForPrivacy:
		return barred, "inference.provider_mode is venice"
	case n.dreams() && r.rules.Dreams == s.p.ID:
		return specialist, "inference.dream_provider names it"
	case s.p.Traits.First == kind.ForPrivacy:
		return r.placeVenice(s, n)
	case s.p.Traits.First == kind.ForWallet:
		return placeBankr(s, n)
	case s.direct():
		return placeDirect(s, n)
	case s.p.Private && r.rules.privacyFirst(n):
		return specialist, retainsNothing
	}
	return generalist, ""
}

// retainsNothing is the reason for a provider that retains nothing to come first.
const retainsNothing = "privacy is asked for, and it retains nothing"

// privacyFirst reports whether providers that retain nothing come first: privacy is required or preferred, and the operator's mode does not send
// agents' tasks elsewhere.
func (r Rules) privacyFirst(n *need) bool {
	return (n.require|n.prefer)&hasPrivate != 0 && r.Mode != ModeBoth && (r.Mode != ModeBardo || n.Subsystem == "")
}

func (n *need) dreams() bool { return n.Subsystem == "dream" }

// notVenice is the value of inference.dream_provider for the providers other than Venice.
const notVenice = "bardo"

// placeVenice returns the role of the private plane: it serves requests that need privacy, and all while staked credit pays. It competes for no
// others.
func (r *Resolver) placeVenice(s *providerOptions, n *need) (role, string) {
	if n.private {
		return specialist, "the request is private, and it retains nothing"
	}
	if n.enclave != 0 && r.rules.Mode == ModeBoth && r.rules.LowCredit {
		return barred, "its credit is below providers.venice.min_credit"
	}
	if n.Subsystem != "" {
		if at, why, ok := r.rules.venice(n); ok {
			return at, why
		}
	}
	switch {
	case n.DIEM && s.p.DIEM:
		return specialist, "staked credit pays"
	case n.enclave != 0:
		return specialist, "the task wants an enclave"
	case r.rules.privacyFirst(n):
		return specialist, retainsNothing
	}
	return lastResort, "it serves what wants privacy, and all while staked credit pays"
}

// venice returns Venice's role for an agent's task by the operator's mode; ok is false if the mode does not decide.
func (r Rules) venice(n *need) (at role, why string, ok bool) {
	switch {
	case r.Mode == ModeVenice:
		return specialist, "inference.provider_mode is venice", true
	case r.Mode == ModeBardo:
		return barred, "inference.provider_mode is bardo", true
	case n.dreams() && r.Dreams == notVenice && n.enclave == 0:
		return lastResort, "inference.dream_provider is bardo", true
	}
	return generalist, "", false
}

// placeBankr returns the role of a wallet-funded provider: its earnings pay for the configured subsystems, as far as they reach.
func placeBankr(s *providerOptions, n *need) (role, string) {
	if n.excludesFamily {
		return specialist, "it verifies other models' answers"
	}
	if n.Subsystem == "" || !slices.Contains(s.p.Subsystems, n.SubsystemName) && !slices.Contains(s.p.Subsystems, n.Subsystem) {
		return lastResort, "it serves only the parts of an agent in providers.bankr.subsystems"
	}
	if ceiling(s.p.Earnings, n.critical()) < least {
		return barred, unaffordable
	}
	return specialist, "the wallet that earns pays for it"
}

// unaffordable is the reason for a provider whose wallet is empty.
const unaffordable = "its wallet cannot afford any inference"

// unfunded returns the provider whose wallet would pay for the request and cannot afford any: it may not serve it, or it is the only candidate and
// has nothing left; "" if there is none.
func (d *ranking) unfunded() (id policy.ProviderID) {
	if d.n.excludesFamily {
		return ""
	}
	for i := range d.candidates {
		if c := &d.candidates[i]; c.p.Traits.First == kind.ForWallet && c.why == unaffordable && len(c.options) > 0 {
			return c.p.ID
		}
	}
	for i := range d.picks {
		p := d.picks[i].c.p
		if p.Traits.First != kind.ForWallet || p.Earnings.Balance >= 0 {
			return ""
		}
		id = p.ID
	}
	return id
}

// placeDirect returns the role of a user's own key: it serves requests that need the vendor's own API.
func placeDirect(s *providerOptions, n *need) (role, string) {
	if (n.require|n.prefer)&native&s.offers != 0 {
		return specialist, "the vendor's own API has what is asked for"
	}
	return lastResort, "a user's own key serves only what needs its vendor's own API"
}

// critical reports whether the subsystem's budget is never cut.
func (n *need) critical() bool { return n.Subsystem == "risk" || n.Subsystem == "death" }

// Limits of what one request may cost a wallet.
const (
	least = policy.USD / 1000 // below it, no inference can be afforded
	seed  = budget.Seed       // a day's budget while nothing was earned
	share = 10                // a request may cost one part in share of the balance
)

// ceiling returns the maximum cost of one request: a tenth of the wallet's balance, scaled by how well it earns. It is not reduced for critical
// subsystems.
func ceiling(e kind.Earnings, critical bool) policy.Micro {
	pct := multiplier(e)
	if pct == 0 && e.Balance >= 0 {
		return seed
	}
	if critical {
		pct = max(pct, 100)
	}
	return max(e.Balance, 0) / share * policy.Micro(pct) / 100
}

// multiplier returns the percentage of its usual budget that a wallet spends, by lifetime revenue over lifetime cost; 0: it has earned nothing yet,
// and spends its seed.
func multiplier(e kind.Earnings) int64 {
	if e.Revenue <= 0 {
		return 0
	}
	return budget.Wallet{Revenue: e.Revenue, Cost: e.Cost}.Percent()
}
