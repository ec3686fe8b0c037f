package pay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"bardo.money/gateway/policy"
)

// Quote is a price for one request, with an expiry.
type Quote struct {
	Amount  policy.Micro
	Digest  Word // of the request: its path and body
	Expires time.Time
}

// QuoteSigner signs quotes, so that gateways need not store them: every gateway with the same secret can verify them. Safe for concurrent use.
type QuoteSigner struct{ key []byte }

// NewQuoteSigner derives a signer from a gateway's secret and its terms. Quotes for other terms are not valid.
func NewQuoteSigner(secret []byte, t *Terms) QuoteSigner {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("x402 quote 1|" + t.Network.String() + "|" + t.Asset.Address.String() + "|" + t.PayTo.String()))
	return QuoteSigner{m.Sum(nil)}
}

const (
	quoteSize = 8 + 8 + len(Word{})
	macSize   = 16
)

// Sign returns a quote with its signature, in base64.
func (s QuoteSigner) Sign(q Quote) string {
	b := make([]byte, 0, quoteSize+macSize)
	b = binary.BigEndian.AppendUint64(b, uint64(q.Amount))         //nolint:gosec // an amount is not negative
	b = binary.BigEndian.AppendUint64(b, uint64(q.Expires.Unix())) //nolint:gosec // after 1970
	b = append(b, q.Digest[:]...)
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(b)...))
}

// Open verifies and parses a signed quote; ok is false for one that this seal did not sign, or for another spelling of one.
func (s QuoteSigner) Open(text string) (q Quote, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != quoteSize+macSize || !hmac.Equal(b[quoteSize:], s.mac(b[:quoteSize])) {
		return Quote{}, false
	}
	q.Amount = policy.Micro(binary.BigEndian.Uint64(b))             //nolint:gosec // as Sign wrote it
	q.Expires = time.Unix(int64(binary.BigEndian.Uint64(b[8:])), 0) //nolint:gosec // as Sign wrote it
	q.Digest = Word(b[16:quoteSize])
	return q, text == s.Sign(q)
}

func (s QuoteSigner) mac(b []byte) []byte {
	m := hmac.New(sha256.New, s.key)
	m.Write(b)
	return m.Sum(nil)[:macSize]
}
