// Package pay takes payments for single requests by the x402 protocol: its messages, quotes, the checks of a payment, and the states that a
// payment goes through until its money has arrived. It knows neither HTTP nor a node of a chain: what only a chain can tell is asked of a Chain.
//
// A payment is an authorization, signed by the payer, to transfer a token: a fixed amount (EIP-3009, scheme exact), or up to an amount (Permit2, scheme
// upto). It is taken in this order: verified and reserved, which is durable and unique by token, payer and nonce; the request is served; the transfer is
// sent to the chain; it is confirmed there. With upto, what the request cost is moved; with exact, the rest is the payer's credit. A request that costs
// nothing sends nothing to the chain.
package pay

import (
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// Terms are what an operator takes: one token on one chain, sent to one address.
type Terms struct {
	Network Network
	Asset   Token
	PayTo   Address

	Fee       policy.Micro  // the price of a settlement, in every quote
	Least     policy.Micro  // of a quote
	QuoteTTL  time.Duration // how long a quote holds
	ServeTime time.Duration // the longest time that a request takes
	Margin    time.Duration // what an authorization must be valid beyond that, for its settlement
}

// Token is an ERC-20 token with EIP-3009, and the name and version of its EIP-712 domain.
type Token struct {
	Address       Address
	Name, Version string
}

// Window is how long an authorization must be valid when its request arrives.
func (t *Terms) Window() time.Duration { return t.ServeTime + t.Margin }

// MaxTimeout is the validity that clients are told to sign.
func (t *Terms) MaxTimeout() time.Duration { return t.Window() + t.QuoteTTL }

// Price is the quote for a request that costs at most so much.
func (t *Terms) Price(most policy.Micro) policy.Micro { return max(most.Plus(t.Fee), t.Least) }

// Account is the ledger account of a payer.
func Account(payer Address) policy.Account { return policy.Account(walletPrefix + payer.String()[2:]) }

// walletPrefix begins the accounts of wallets. No API key has an id like it.
const walletPrefix = "wallet_"

// Refusal is why a payment is not taken.
type Refusal struct {
	Reason string // the protocol's code
	Detail string // a sentence for the client

	RetryAfter time.Duration // when the same payment may be taken; zero: it is not said
}

func (r *Refusal) Error() string { return r.Detail + " (" + r.Reason + ")" }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Refuse is the refusal of a payment with the code that its scheme has for the reason.
func (a *Authorization) Refuse(reason, format string, args ...any) *Refusal {
	if code, ok := permitReasons[reason]; ok && a.UpTo {
		reason = code
	}
	return refuse(reason, format, args...)
}

// The codes of refusals. Those without a prefix of ours are the protocol's.
const (
	ReasonScheme      = "unsupported_scheme"
	ReasonNetwork     = "invalid_network"
	ReasonTerms       = "invalid_payment_requirements"
	ReasonValue       = "invalid_exact_evm_payload_authorization_value_mismatch"
	ReasonRecipient   = "invalid_exact_evm_payload_recipient_mismatch"
	ReasonValidAfter  = "invalid_exact_evm_payload_authorization_valid_after"
	ReasonValidBefore = "invalid_exact_evm_payload_authorization_valid_before"
	ReasonSignature   = "invalid_exact_evm_payload_signature"
	ReasonNonceUsed   = "invalid_exact_evm_nonce_already_used"
	ReasonFunds       = "insufficient_funds"
	ReasonTransfer    = "invalid_transaction_state"
	ReasonUndeployed  = "unsupported_undeployed_wallet" // ERC-6492
	ReasonPending     = "settlement_pending"
	ReasonBlocked     = "payer_blocked"
	ReasonExposure    = "payer_exposure"
	ReasonLosses      = "operator_losses"
	ReasonAllowance   = "permit2_allowance_required"
	ReasonSpender     = "invalid_permit2_spender"
	ReasonFacilitator = "upto_facilitator_mismatch"
)

// permitReasons are the codes of scheme upto where they differ.
var permitReasons = map[string]string{
	ReasonValue: "permit2_amount_mismatch", ReasonRecipient: "invalid_permit2_recipient_mismatch", ReasonValidAfter: "permit2_not_yet_valid",
	ReasonValidBefore: "permit2_deadline_expired", ReasonSignature: "invalid_permit2_signature", ReasonFunds: "permit2_insufficient_balance",
}
