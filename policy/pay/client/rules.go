package client

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/outgoing"
)

// Rules are what a wallet pays for. What they do not allow is refused before anything is signed.
type Rules struct {
	Assets    []Asset
	Payees    []pay.Address
	Schemes   []pay.Scheme  // none: exact alone
	Most      policy.Micro  // of one request
	MostDaily policy.Micro  // of all in 24 hours
	MostTime  time.Duration // that an authorization is valid; zero means one hour
}

// Asset is a token of six decimals on a chain, with the EIP-712 domain that is signed for.
type Asset struct {
	Network pay.Network
	Token   pay.Token
}

// Refusal is why none of a server's offers is accepted.
type Refusal struct{ Reasons []string }

func (r *Refusal) Error() string { return "nothing was paid: " + strings.Join(r.Reasons, "; ") }

// choose is the first offer that the rules allow, exact before upto.
func (r *Rules) choose(offers []Offer, unread []string) (*Offer, Asset, error) {
	schemes := r.schemes()
	refusal := &Refusal{Reasons: unread}
	for i := range offers {
		if !slices.Contains(schemes, offers[i].Scheme) {
			refusal.Reasons = append(refusal.Reasons, fmt.Sprintf("%s: the scheme is not allowed", offers[i].what()))
		}
	}
	for _, s := range schemes {
		for i := range offers {
			if offers[i].Scheme != s {
				continue
			}
			a, why := r.allows(&offers[i])
			if why == "" {
				return &offers[i], a, nil
			}
			refusal.Reasons = append(refusal.Reasons, offers[i].what()+": "+why)
		}
	}
	return nil, Asset{}, refusal
}

// allowsAgain reports whether a price that was paid before may be paid now.
func (r *Rules) allowsAgain(q *quote) bool {
	_, why := r.allows(&q.offer)
	return why == ""
}

// what names an offer in a message.
func (o *Offer) what() string {
	return fmt.Sprintf("%s on %s", clip(string(o.Scheme)), clip(o.Network))
}

// mostTime is how long an authorization is valid at most, unless the rules say otherwise.
const mostTime = time.Hour

// allows is the asset that an offer is paid with, or why it is not paid.
func (r *Rules) allows(o *Offer) (a Asset, why string) {
	a, why = r.asset(o)
	switch {
	case why != "":
	case !slices.Contains(r.Payees, o.PayTo):
		why = fmt.Sprintf("the payee %s is not allowed", o.PayTo)
	case o.Amount > r.Most:
		why = fmt.Sprintf("it costs $%s, and a request may cost $%s", o.Amount, r.Most)
	case o.Timeout <= 0 || time.Duration(o.Timeout) > r.mostTime()/time.Second:
		why = fmt.Sprintf("the authorization would be valid for %d s, and at most %s is allowed", o.Timeout, r.mostTime())
	case o.Scheme == pay.SchemeUpTo && o.Version != 2:
		why = "scheme upto is of version 2 of the protocol alone"
	}
	if o.Scheme == pay.SchemeUpTo && why == "" {
		if _, err := pay.ParseAddress(o.Facilitator); err != nil {
			why = "scheme upto needs extra.facilitatorAddress"
		}
	}
	return a, why
}

// forbids is why an authorization that was signed earlier is not sent now; "" if it may be.
func (r *Rules) forbids(a *outgoing.Authorization) string {
	scheme := pay.SchemeExact
	if a.UpTo {
		scheme = pay.SchemeUpTo
	}
	switch {
	case !slices.ContainsFunc(r.Assets, func(o Asset) bool { return o.Network.String() == a.Network && o.Token.Address == a.Asset }):
		return fmt.Sprintf("the token %s on %s is not allowed", a.Asset, a.Network)
	case !slices.Contains(r.schemes(), scheme):
		return fmt.Sprintf("the scheme %s is not allowed", scheme)
	case !slices.Contains(r.Payees, a.To):
		return fmt.Sprintf("the payee %s is not allowed", a.To)
	case a.Value > r.Most:
		return fmt.Sprintf("it is of $%s, and a request may cost $%s", a.Value, r.Most)
	}
	return ""
}

// schemes are those that are allowed, in their order.
func (r *Rules) schemes() []pay.Scheme {
	if len(r.Schemes) == 0 {
		return []pay.Scheme{pay.SchemeExact}
	}
	return r.Schemes
}

func (r *Rules) mostTime() time.Duration {
	if r.MostTime > 0 {
		return r.MostTime
	}
	return mostTime
}

func (r *Rules) asset(o *Offer) (a Asset, why string) {
	named := func(a Asset) bool { return a.Network.Is(o.Network, o.Version) }
	if !slices.ContainsFunc(r.Assets, named) {
		return a, "the network is not allowed"
	}
	i := slices.IndexFunc(r.Assets, func(a Asset) bool { return named(a) && a.Token.Address == o.Asset })
	if i < 0 {
		return a, fmt.Sprintf("the token %s is not allowed", o.Asset)
	}
	a = r.Assets[i]
	if o.Scheme == pay.SchemeExact && (o.Name != a.Token.Name || o.DomainOf != a.Token.Version) {
		return a, fmt.Sprintf("the token is called %q version %q, not %q version %q", clip(o.Name), clip(o.DomainOf), a.Token.Name, a.Token.Version)
	}
	return a, ""
}
