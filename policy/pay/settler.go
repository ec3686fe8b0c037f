package pay

import (
	"context"
	"encoding/hex"
	"math/big"
	"strconv"
)

// Settler makes transfers in the place of an account of the gateway's own: a facilitator. Safe for concurrent use.
type Settler interface {
	// Check makes sure that it settles payments of the terms. The error is a *Mismatch if it does not.
	Check(ctx context.Context) error
	// Verify asks whether it would settle a payment. The error is a *Refusal if it would not; any other means that it did not say.
	Verify(ctx context.Context, p *Payment) error
	// Settle has a transfer made. hash is its transaction, as the settler says; the zero value if it does not. The error is a *Refusal if it says that it made none; any
	// other leaves the outcome open: the chain has it.
	Settle(ctx context.Context, t *Transfer) (hash Word, err error)
}

// Order is a payment as settlers are told of it, in a version of the protocol.
type Order struct {
	Version      int `json:"x402Version"`
	Payload      any `json:"paymentPayload"`
	Requirements any `json:"paymentRequirements"`
}

// Order writes a payment of scheme exact for a settler. What it pays for is none of the settler's business, so the resource is the payee's address.
func (t *Terms) Order(version int, a *Authorization, signature []byte) Order {
	r := t.requirement(&Offer{Quote: Quote{Amount: a.Value}})
	content := a.Payload(t.Asset.Address, signature)
	if version == 1 {
		return Order{
			1,
			map[string]any{"x402Version": 1, "scheme": r.Scheme, "network": t.Network.Name, "payload": content},
			oldRequirement{r.Scheme, t.Network.Name, r.Amount, t.resource(), "a payment", "application/json", r.PayTo, r.MaxTimeoutSeconds, r.Asset, r.Extra},
		}
	}
	return Order{2, map[string]any{"x402Version": 2, "resource": Resource{URL: t.resource(), Description: "a payment", MimeType: "application/json"}, "accepted": r, "payload": content}, r}
}

func (t *Terms) resource() string { return "https://" + t.PayTo.String() + ".invalid/" }

// Payload is the signed part of a payment.
func (a *Authorization) Payload(token Address, signature []byte) map[string]any {
	value, before, after := strconv.FormatInt(int64(a.Value), 10), strconv.FormatUint(a.ValidBefore, 10), strconv.FormatUint(a.ValidAfter, 10)
	signed := "0x" + hex.EncodeToString(signature)
	if !a.UpTo {
		return map[string]any{"signature": signed, "authorization": map[string]any{
			"from": a.From.String(), "to": a.To.String(), "value": value, "validAfter": after, "validBefore": before, "nonce": a.Nonce.String(),
		}}
	}
	return map[string]any{"signature": signed, "permit2Authorization": map[string]any{
		"from": a.From.String(), "permitted": map[string]any{"token": token.String(), "amount": value}, "spender": UpToProxy.String(),
		"nonce": new(big.Int).SetBytes(a.Nonce[:]).String(), "deadline": before,
		"witness": map[string]any{"to": a.To.String(), "facilitator": a.Facilitator.String(), "validAfter": after},
	}}
}
