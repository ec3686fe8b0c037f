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

// Rules limit a wallet's payments. An offer that they do not allow is refused before anything is signed.
type Rules struct {
	Assets      []Asset
	Payees      []pay.Address
	Schemes     []pay.Scheme  // in order of preference; none: only exact
	MaxPrice    policy.Micro  // of one request
	MaxDaily    policy.Micro  // of all payments in 24 hours
	MaxValidity time.Duration // maximum validity of an authorization; zero means one hour
}

// Asset is a token of six decimals on a chain, with its EIP-712 domain.
type Asset struct {
	Network pay.Network
	Token   pay.Token
}

// Refusal is the error if none of a server's offers is accepted.
type Refusal struct{ Reasons []string }

func (r *Refusal) Error() string { return "nothing was paid: " + strings.Join(r.Reasons, "; ") }

// choose returns the first allowed offer, in the order of the rules' schemes.
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

// allowsAgain reports whether a cached price may be paid now.
func (r *Rules) allowsAgain(q *quote) bool {
	_, why := r.allows(&q.offer)
	return why == ""
}

// what describes an offer in a message.
func (o *Offer) what() string {
	return fmt.Sprintf("%s on %s", clip(string(o.Scheme)), clip(o.Network))
}

// defaultValidity is the maximum validity of an authorization, unless the rules have another one.
const defaultValidity = time.Hour

// allows returns the asset of an offer, or why the offer is not allowed.
func (r *Rules) allows(o *Offer) (a Asset, why string) {
	a, why = r.asset(o)
	switch {
	case why != "":
	case !slices.Contains(r.Payees, o.PayTo):
		why = fmt.Sprintf("the payee %s is not allowed", o.PayTo)
	case o.Amount > r.MaxPrice:
		why = fmt.Sprintf("it costs $%s, and a request may cost $%s", o.Amount, r.MaxPrice)
	case o.Timeout <= 0 || time.Duration(o.Timeout) > r.maxValidity()/time.Second:
		why = fmt.Sprintf("the authorization would be valid for %d s, and at most %s is allowed", o.Timeout, r.maxValidity())
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

// forbids returns why an authorization that was signed earlier is not allowed now; "" if it is.
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
	case a.Value > r.MaxPrice:
		return fmt.Sprintf("it is of $%s, and a request may cost $%s", a.Value, r.MaxPrice)
	}
	return ""
}

// schemes returns the allowed schemes, in order of preference.
func (r *Rules) schemes() []pay.Scheme {
	if len(r.Schemes) == 0 {
		return []pay.Scheme{pay.SchemeExact}
	}
	return r.Schemes
}

func (r *Rules) maxValidity() time.Duration {
	if r.MaxValidity > 0 {
		return r.MaxValidity
	}
	return defaultValidity
}

func (r *Rules) asset(o *Offer) (a Asset, why string) {
	isNamed := func(a Asset) bool { return a.Network.Is(o.Network, o.Version) }
	if !slices.ContainsFunc(r.Assets, isNamed) {
		return a, "the network is not allowed"
	}
	i := slices.IndexFunc(r.Assets, func(a Asset) bool { return isNamed(a) && a.Token.Address == o.Asset })
	if i < 0 {
		return a, fmt.Sprintf("the token %s is not allowed", o.Asset)
	}
	a = r.Assets[i]
	if o.Scheme == pay.SchemeExact && (o.Name != a.Token.Name || o.DomainVersion != a.Token.Version) {
		return a, fmt.Sprintf("the token is called %q version %q, not %q version %q", clip(o.Name), clip(o.DomainVersion), a.Token.Name, a.Token.Version)
	}
	return a, ""
}
