package fake

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"bardo.money/gateway/e2e/fake/enclave"
)

// attests reports whether the answer has to be signed.
func (p *player) attests() bool {
	return p.s.cfg.Enclave != nil && strings.EqualFold(p.rec.Header.Get("X-Venice-Attestation"), "required")
}

// receipt is the receipt of a body.
func (p *player) receipt(sum []byte) *enclave.Receipt {
	r := p.s.cfg.Enclave.Receipt(p.rec.Header.Get("X-Venice-Attestation-Nonce"), p.rec.Model, sum)
	if p.b.Forge != nil {
		p.b.Forge(r)
	}
	return r
}

const receiptHeader = "X-Venice-Attestation-Receipt"

// sign puts the receipt of a body into the headers. late are trailers that follow.
func (p *player) sign(body []byte) (late []string) {
	sum := sha256.Sum256(body)
	r := p.receipt(sum[:])
	value := r.Value()
	sent := []string{value}
	if r.Sent != nil {
		sent = r.Sent(value)
	}
	for _, v := range sent {
		p.w.Header().Add(receiptHeader, v)
	}
	if r.Late != nil {
		late = r.Late(value)
	}
	return late
}

// signStream puts the receipt of what was streamed into the trailers.
func (p *player) signStream() {
	if p.sum == nil || p.err != nil && p.b.Break.Kind != Stop {
		return
	}
	r := p.receipt(p.sum.Sum(nil))
	value := r.Value()
	sent := []string{value}
	if r.Sent != nil {
		sent = r.Sent(value)
	}
	if r.Late != nil {
		sent = append(sent, r.Late(value)...)
	}
	p.trail(sent)
}

func (p *player) trail(values []string) {
	for _, v := range values {
		p.w.Header().Add(http.TrailerPrefix+receiptHeader, v)
	}
}
