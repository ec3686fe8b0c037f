package venice

import (
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
)

var _ provider.Attesting = Adapter{}

// The headers of an attested call and of its answer.
const (
	headerAttestation = "x-venice-attestation"
	headerNonce       = "x-venice-attestation-nonce"
	headerReceipt     = "x-venice-attestation-receipt"
)

// AskReceipt implements provider.Attesting.
func (Adapter) AskReceipt(nonce string) header.List {
	return header.List{{Name: headerAttestation, Value: "required"}, {Name: headerNonce, Value: nonce}}
}

// ReceiptHeader implements provider.Attesting.
func (Adapter) ReceiptHeader() string { return headerReceipt }
