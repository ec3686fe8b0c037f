package pay

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"bardo.money/gateway/policy"
)

// The contracts of scheme upto, at the same addresses on every chain.
var (
	// Permit2 has the allowances of payers, and moves their tokens on behalf of the spender of a signed permit.
	Permit2 = Address{0x00, 0x00, 0x00, 0x00, 0x00, 0x22, 0xd4, 0x73, 0x03, 0x0f, 0x11, 0x6d, 0xde, 0xe9, 0xf6, 0xb4, 0x3a, 0xc7, 0x8b, 0xa3}
	// UpToProxy is the spender in permits: x402's contract, which moves tokens only to the signed payee, and only for the signed facilitator.
	UpToProxy = Address{0x40, 0x20, 0xa4, 0xf3, 0xb7, 0xb9, 0x0c, 0xca, 0x42, 0x3b, 0x9f, 0xab, 0xcc, 0x0c, 0xe5, 0x7c, 0x6c, 0x24, 0x00, 0x02}
)

// exactPayload is the payload of scheme exact.
type exactPayload struct {
	Signature     string `json:"signature"`
	Authorization *struct {
		From        string  `json:"from"`
		To          string  `json:"to"`
		Value       decimal `json:"value"`
		ValidAfter  decimal `json:"validAfter"`
		ValidBefore decimal `json:"validBefore"`
		Nonce       string  `json:"nonce"`
	} `json:"authorization"`
}

// permitPayload is the payload of scheme upto.
type permitPayload struct {
	Signature     string `json:"signature"`
	Authorization *struct {
		From      string `json:"from"`
		Permitted struct {
			Token  string  `json:"token"`
			Amount decimal `json:"amount"`
		} `json:"permitted"`
		Spender  string  `json:"spender"`
		Nonce    decimal `json:"nonce"`
		Deadline decimal `json:"deadline"`
		Witness  struct {
			To          string  `json:"to"`
			Facilitator string  `json:"facilitator"`
			ValidAfter  decimal `json:"validAfter"`
		} `json:"witness"`
	} `json:"permit2Authorization"`
}

// decimal is an integer, as a JSON string or number.
type decimal string

func (d *decimal) UnmarshalJSON(b []byte) error {
	*d = decimal(strings.Trim(string(b), `"`))
	return nil
}

func (t *Terms) readPayload(p *Payment, raw json.RawMessage) error {
	if p.UpTo {
		return t.readPermit(p, raw)
	}
	return p.readExact(raw)
}

func (p *Payment) readExact(raw json.RawMessage) (err error) {
	var e exactPayload
	if err := json.Unmarshal(raw, &e); err != nil || e.Authorization == nil {
		return errors.New("payload is not an object with signature and authorization")
	}
	a := e.Authorization
	r := reader{in: "authorization"}
	p.From, p.To = r.address("from", a.From), r.address("to", a.To)
	p.Value = policy.Micro(r.number("value", a.Value, maxValue)) //nolint:gosec // at most mostValue
	p.ValidAfter, p.ValidBefore = r.number("validAfter", a.ValidAfter, maxTime), r.number("validBefore", a.ValidBefore, maxTime)
	p.Nonce = r.word("nonce", a.Nonce)
	return p.sign(&r, e.Signature)
}

// readPermit parses a permit, and refuses one for another token or spender.
func (t *Terms) readPermit(p *Payment, raw json.RawMessage) (err error) {
	var e permitPayload
	if err := json.Unmarshal(raw, &e); err != nil || e.Authorization == nil {
		return errors.New("payload is not an object with signature and permit2Authorization")
	}
	a := e.Authorization
	r := reader{in: "permit2Authorization"}
	p.From, p.To, p.Facilitator = r.address("from", a.From), r.address("witness.to", a.Witness.To), r.address("witness.facilitator", a.Witness.Facilitator)
	token, spender := r.address("permitted.token", a.Permitted.Token), r.address("spender", a.Spender)
	p.Value = policy.Micro(r.number("permitted.amount", a.Permitted.Amount, maxValue)) //nolint:gosec // at most mostValue
	p.ValidAfter, p.ValidBefore = r.number("witness.validAfter", a.Witness.ValidAfter, maxTime), r.number("deadline", a.Deadline, maxTime)
	p.Nonce = r.permitNonce(string(a.Nonce))
	if err := p.sign(&r, e.Signature); err != nil {
		return err
	}
	if token != t.Asset.Address {
		return refuse("permit2_token_mismatch", "the permit is for the token %s, not %s", token, t.Asset.Address)
	}
	if spender != UpToProxy {
		return refuse(ReasonSpender, "the permit is for %s, not x402's contract %s", spender, UpToProxy)
	}
	return nil
}

// sign adds the signature to the parsed authorization.
func (p *Payment) sign(r *reader, signature string) (err error) {
	if r.err != nil {
		return r.err
	}
	p.Signature, err = parseSignature(signature)
	return err
}

// reader parses the members of a payload, and keeps the first error.
type reader struct {
	in  string
	err error
}

func (r *reader) setErr(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("payload.%s.%s: %w", r.in, name, err)
	}
}

func (r *reader) address(name, text string) Address {
	a, err := ParseAddress(text)
	r.setErr(name, err)
	return a
}

func (r *reader) word(name, text string) Word {
	w, err := ParseWord(text)
	r.setErr(name, err)
	return w
}

// Bounds of numbers: amounts far above any quote, and times that fit into a time.Time.
const (
	maxValue = 1_000_000 * uint64(policy.USD)
	maxTime  = 1 << 40
)

func (r *reader) number(name string, d decimal, limit uint64) uint64 {
	n, err := strconv.ParseUint(string(d), 10, 64)
	if err != nil || n > limit {
		r.setErr(name, fmt.Errorf("not a whole number from 0 to %d", limit))
		return 0
	}
	return n
}

var errNonce = errors.New("not a number of 256 bits, in decimal digits or as 0x and hexadecimal digits")

// permitNonce parses a nonce of 256 bits, in decimal or hexadecimal digits: the same number is the same nonce.
func (r *reader) permitNonce(text string) (w Word) {
	digits, base, allowed := text, 10, "0123456789"
	if rest, ok := strings.CutPrefix(text, "0x"); ok {
		digits, base, allowed = rest, 16, "0123456789abcdefABCDEF"
	}
	const maxDigits = 80 // digits; a number of 256 bits has at most 78
	if digits == "" || len(digits) > maxDigits || strings.Trim(digits, allowed) != "" {
		r.setErr("nonce", errNonce)
		return w
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok || n.BitLen() > 256 {
		r.setErr("nonce", errNonce)
		return w
	}
	n.FillBytes(w[:])
	return w
}
