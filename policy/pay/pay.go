// Package pay takes payments for single requests by the x402 protocol: its messages, quotes, the checks of a payment, and the states that a
// payment goes through until its money has arrived. It knows neither HTTP nor the node of a chain: a Chain answers what only a chain can.
//
// A payment is an authorization, signed by the payer, to transfer a token: a fixed amount (EIP-3009, scheme exact), or up to an amount (Permit2, scheme
// upto). It is taken in this order: verified and reserved, which is durable and unique by token, payer and nonce; the request is served; the transfer is
// sent to the chain, and confirmed there. With upto, the cost of the request is moved; with exact, the whole amount is, and the rest becomes the payer's credit.
// For a request that costs nothing, no transfer is sent.
package pay

import (
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// Terms are the payments that an operator accepts: one token on one chain, sent to one address.
type Terms struct {
	Network Network
	Asset   Token
	PayTo   Address

	Fee       policy.Micro  // price of a settlement, part of every quote
	MinPrice  policy.Micro  // of a quote
	QuoteTTL  time.Duration // validity of a quote
	ServeTime time.Duration // maximum duration of a request
	Margin    time.Duration // for the settlement: additional validity that an authorization must have
}

// Token is an ERC-20 token with EIP-3009, and the name and version of its EIP-712 domain.
type Token struct {
	Address       Address
	Name, Version string
}

// Window is the remaining validity that an authorization must have when its request arrives.
func (t *Terms) Window() time.Duration { return t.ServeTime + t.Margin }

// MaxTimeout is the validity that clients are asked to sign (maxTimeoutSeconds).
func (t *Terms) MaxTimeout() time.Duration { return t.Window() + t.QuoteTTL }

// Price is the quote for a request that costs at most maxCost.
func (t *Terms) Price(maxCost policy.Micro) policy.Micro { return max(maxCost.Plus(t.Fee), t.MinPrice) }

// Account is the ledger account of a payer.
func Account(payer Address) policy.Account { return policy.Account(walletPrefix + payer.String()[2:]) }

// walletPrefix is the prefix of wallets' accounts. No id of an API key has it.
const walletPrefix = "wallet_"

// Refusal is the reason why a payment is not accepted.
type Refusal struct {
	Reason string // the protocol's code
	Detail string // a sentence for the client

	RetryAfter time.Duration // until the same payment may be accepted; zero: unknown
}

func (r *Refusal) Error() string { return r.Detail + " (" + r.Reason + ")" }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Refuse returns a refusal with the code that the payment's scheme uses for the reason.
func (a *Authorization) Refuse(reason, format string, args ...any) *Refusal {
	if code, ok := permitReasons[reason]; ok && a.UpTo {
		reason = code
	}
	return refuse(reason, format, args...)
}

// The codes of refusals.
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

// permitReasons are the codes of scheme upto that differ from those of exact.
var permitReasons = map[string]string{
	ReasonValue: "permit2_amount_mismatch", ReasonRecipient: "invalid_permit2_recipient_mismatch", ReasonValidAfter: "permit2_not_yet_valid",
	ReasonValidBefore: "permit2_deadline_expired", ReasonSignature: "invalid_permit2_signature", ReasonFunds: "permit2_insufficient_balance",
}
