package resolve

import (
	"slices"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// role is what a provider is to a request.
type role uint8

const (
	generalist role = iota
	specialist      // it was made for such requests: it comes first
	aside           // a specialist for others: it serves only where there is no generalist, or where its model was named
	barred          // it may not serve it
)

// candidate is a provider at one request.
type candidate struct {
	*providerOptions
	role    role
	why     string
	diem    bool        // staked credit pays
	ceiling policy.Pico // the most that the request may cost there; 0: no bound
	must    set         // a model must have one of these; empty: none of them
	options []option    // that are looked at
	way     *way        // for a named model: the one way to serve it here
	from    int         // where the standings of the options begin
	picked  bool        // it stands in the order
}

// servesAnything reports whether the provider takes any request: that it comes first for this one makes it no specialist for others.
func (c *candidate) servesAnything() bool {
	return c.role == generalist || c.role == specialist && c.p.Traits.First == kind.ForNone && !c.direct()
}

// chair is what a provider is to a request.
func (r *Resolver) chair(s *providerOptions, n *need) candidate {
	c := candidate{providerOptions: s, options: s.options, diem: n.DIEM && s.p.DIEM}
	c.role, c.why = r.place(s, n)
	switch {
	case c.role != specialist:
	case s.p.Traits.First == kind.ForWallet:
		c.ceiling = policy.Pico(ceiling(s.p.Earnings, n.critical())) * (1e12 / policy.Pico(policy.USD))
	case s.direct() && n.Provider == "":
		c.must = (n.require | n.prefer) & native
	}
	return c
}

// place says what a provider is to a request, and why.
func (r *Resolver) place(s *providerOptions, n *need) (role, string) {
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
		return specialist, privacyAsked
	}
	return generalist, ""
}

// privacyAsked is why a provider that retains nothing comes first.
const privacyAsked = "privacy is asked for, and it retains nothing"

// privacyFirst reports whether providers that retain nothing come first: privacy is required or preferred, and the operator's mode does not say that agents' tasks go
// elsewhere.
func (r Rules) privacyFirst(n *need) bool {
	return (n.require|n.prefer)&hasPrivate != 0 && r.Mode != ModeBoth && (r.Mode != ModeBardo || n.Subsystem == "")
}

func (n *need) dreams() bool { return n.Subsystem == "dream" }

// anybodyElse is what inference.dream_provider says where it means the providers that are not Venice.
const anybodyElse = "bardo"

// placeVenice: the private plane serves what wants privacy, and all while staked credit pays. It competes for nothing else.
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
		return specialist, privacyAsked
	}
	return aside, "it serves what wants privacy, and all while staked credit pays"
}

// venice is what the operator's mode says of Venice for the task of an agent; ok is false where it says nothing.
func (r Rules) venice(n *need) (at role, why string, ok bool) {
	switch {
	case r.Mode == ModeVenice:
		return specialist, "inference.provider_mode is venice", true
	case r.Mode == ModeBardo:
		return barred, "inference.provider_mode is bardo", true
	case n.dreams() && r.Dreams == anybodyElse && n.enclave == 0:
		return aside, "inference.dream_provider is bardo", true
	}
	return generalist, "", false
}

// placeBankr: a wallet's earnings pay for the parts of an agent that were given to it, as far as they reach.
func placeBankr(s *providerOptions, n *need) (role, string) {
	if n.besides {
		return specialist, "it verifies other models' answers"
	}
	if n.Subsystem == "" || !slices.Contains(s.p.Subsystems, n.Asked) && !slices.Contains(s.p.Subsystems, n.Subsystem) {
		return aside, "it serves only the parts of an agent in providers.bankr.subsystems"
	}
	if ceiling(s.p.Earnings, n.critical()) < least {
		return barred, unaffordable
	}
	return specialist, "the wallet that earns pays for it"
}

// unaffordable is what is said of a provider whose wallet is empty.
const unaffordable = "its wallet cannot afford any inference"

// unfunded is the provider whose wallet would pay for the request and cannot afford any: it may not serve it, or it alone would, with nothing left; "" for none.
func (d *ranking) unfunded() (id policy.ProviderID) {
	if d.n.besides {
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

// placeDirect: a user's own key serves what only the vendor's own API can do.
func placeDirect(s *providerOptions, n *need) (role, string) {
	if (n.require|n.prefer)&native&s.offers != 0 {
		return specialist, "the vendor's own API has what is asked for"
	}
	return aside, "a user's own key serves only what needs its vendor's own API"
}

// critical are the parts of an agent whose budget is never cut.
func (n *need) critical() bool { return n.Subsystem == "risk" || n.Subsystem == "death" }

// The bounds of what one request may cost that a wallet pays for.
const (
	least = policy.USD / 1000 // below it, no inference can be afforded
	seed  = budget.Seed       // a day's worth while nothing was earned
	share = 10                // a request may cost this part of the balance
)

// ceiling is the most that one request may cost: a tenth of the wallet's balance, more or less by how well it earns. What is critical is
// not cut.
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

// multiplier is the percentage of its usual budget that a wallet spends, by lifetime revenue over lifetime cost; 0: it has earned nothing
// yet, and lives on its seed.
func multiplier(e kind.Earnings) int64 {
	if e.Revenue <= 0 {
		return 0
	}
	return budget.Wallet{Revenue: e.Revenue, Cost: e.Cost}.Percent()
}
