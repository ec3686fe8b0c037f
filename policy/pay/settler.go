package pay

import (
	"context"
	"encoding/hex"
	"math/big"
	"strconv"
)

// Settler makes transfers instead of the gateway's own account: a facilitator. Safe for concurrent use.
type Settler interface {
	// Check verifies that the settler settles payments of the terms. The error is a *Mismatch if it does not.
	Check(ctx context.Context) error
	// Verify asks the settler whether it would settle a payment. The error is a *Refusal if it would not; after any other error that is unknown.
	Verify(ctx context.Context, p *Payment) error
	// Settle orders a transfer. hash is the transaction that the settler reports, or zero. The error is a *Refusal if the settler reports that it made no transfer;
	// after any other error the outcome is unknown, and the chain must be asked.
	Settle(ctx context.Context, t *Transfer) (hash Word, err error)
}

// Order is a request to a settler about a payment, in a version of the protocol.
type Order struct {
	Version      int `json:"x402Version"`
	Payload      any `json:"paymentPayload"`
	Requirements any `json:"paymentRequirements"`
}

// Order returns the order of a payment of scheme exact. The paid resource is not disclosed to the settler: it gets the payee's address instead.
func (t *Terms) Order(version int, a *Authorization, signature []byte) Order {
	r := t.requirement(&Offer{Quote: Quote{Amount: a.Value}})
	content := a.Payload(t.Asset.Address, signature)
	if version == 1 {
		return Order{
			1,
			map[string]any{"x402Version": 1, "scheme": r.Scheme, "network": t.Network.Name, "payload": content},
			requirementV1{r.Scheme, t.Network.Name, r.Amount, t.resource(), "a payment", "application/json", r.PayTo, r.MaxTimeoutSeconds, r.Asset, r.Extra},
		}
	}
	return Order{2, map[string]any{"x402Version": 2, "resource": Resource{URL: t.resource(), Description: "a payment", MimeType: "application/json"}, "accepted": r, "payload": content}, r}
}

func (t *Terms) resource() string { return "https://" + t.PayTo.String() + ".invalid/" }

// Payload returns the payload of a payment: the authorization and its signature.
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
