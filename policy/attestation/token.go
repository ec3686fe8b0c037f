package attestation

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"bardo.money/gateway/internal/jsonx"
)

// Token is the stored proof of one attested answer. It has no content. Its members are those of its JSON form, a line of an export.
type Token struct {
	Seq         int64  `json:"seq"` // from 1, without gaps
	At          int64  `json:"at"`  // when the receipt was verified: Unix time in milliseconds
	RequestID   string `json:"request_id"`
	GolemID     string `json:"golem_id"`
	Tick        int64  `json:"tick"`
	TaskClass   string `json:"task_class"`
	Provider    string `json:"provider"`
	Model       string `json:"model"`       // that was called
	Measurement string `json:"measurement"` // of the enclave
	Nonce       string `json:"nonce"`       // the nonce that was sent
	Hash        string `json:"response_hash"`
	Void        string `json:"void"`    // why the receipt does not count, a Reason; "" for a valid one, unless a later token voids the same answer
	Receipt     string `json:"receipt"` // as received
	Prev        string `json:"prev"`    // TokenHash of the previous token; "" for the first
	TokenHash   string `json:"hash"`    // hash of all other members

	revoked bool // a later token voids the same answer
}

// answer identifies the answer of a token. A nonce belongs to one call.
func (t *Token) answer() string { return t.RequestID + "\n" + t.Nonce }

// tokenForm is the prefix of a token's hash input. It separates these hashes from those of other formats.
const tokenForm = "bardo-attestation-token/1\n"

// hash returns the SHA-256, in hexadecimal, of the token without its own hash, in the JSON Canonicalization Scheme (RFC 8785).
func (t *Token) hash() string {
	b := canonical([]member{
		{"at", t.At},
		{"golem_id", t.GolemID},
		{"measurement", t.Measurement},
		{"model", t.Model},
		{"nonce", t.Nonce},
		{"prev", t.Prev},
		{"provider", t.Provider},
		{"receipt", t.Receipt},
		{"request_id", t.RequestID},
		{"response_hash", t.Hash},
		{"seq", t.Seq},
		{"task_class", t.TaskClass},
		{"tick", t.Tick},
		{"void", t.Void},
	})
	sum := sha256.Sum256(append([]byte(tokenForm), b...))
	return hex.EncodeToString(sum[:])
}

// check returns what is wrong with a token by itself, under any policy; nil if its members match its receipt.
func (t *Token) check(p *Policy) error {
	r, err := Parse(t.Receipt)
	if err != nil {
		return err
	}
	if t.Measurement != r.Measurement {
		return errors.New("its measurement is not that of its receipt")
	}
	return p.Verify(r, &Expected{Nonce: t.Nonce, Model: t.Model, ResponseHash: t.Hash, At: time.UnixMilli(t.At)})
}

// Holds reports whether a token is unchanged, its receipt is verified by a policy, and neither the token itself nor a later one read with it
// (Book.Latest) voids it. Without a policy nothing holds.
func (t *Token) Holds(p *Policy) bool {
	return p != nil && t.Void == "" && !t.revoked && t.hash() == t.TokenHash && t.check(p) == nil
}

// Report is the result of a check of tokens.
type Report struct {
	Tokens int      `json:"tokens"`
	Valid  int      `json:"valid"` // tokens whose receipts are verified and not void
	Void   int      `json:"void"`  // tokens whose receipts are verified, and whose answers could not be used
	First  int64    `json:"first"` // number of the first token; 0 for none
	Head   string   `json:"head"`  // hash of the last token: comparing it with an earlier copy shows whether tokens were cut off
	wrong  bool     // the current token has a fault
	Faulty int      `json:"faulty"` // tokens with any fault
	Faults []string `json:"faults"` // the faults of the first of them

	validAnswers map[string]bool // answers whose tokens are valid so far
}

// maxFaults limits the faults in a report.
const maxFaults = 100

func (r *Report) fault(seq int64, format string, args ...any) {
	r.wrong = true
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf("token %d: ", seq)+fmt.Sprintf(format, args...))
	}
}

// maxLine limits a line of an export, in bytes.
const maxLine = 64 << 10

// Check reads tokens, one JSON object per line in the order of their numbers, and verifies each receipt and the chain. A selection may begin anywhere
// in the chain. A void token also voids an earlier one of the same answer. The error is of reading alone.
func Check(p *Policy, in io.Reader) (*Report, error) {
	report := &Report{Faults: []string{}, validAnswers: map[string]bool{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	var last *Token
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		t, err := readToken(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		report.add(p, t, last)
		last = t
	}
	return report, lines.Err()
}

// lineForm lists the members of a line. Duplicates are refused, because readers differ in which one they use.
var lineForm = jsonx.NewForm("seq", "at", "request_id", "golem_id", "tick", "task_class", "provider", "model", "measurement", "nonce", "response_hash", "void", "receipt", "prev", "hash")

// readToken reads a line. It must have exactly the members of a token.
func readToken(line []byte) (*Token, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	t := new(Token)
	if _, err := lineForm.Scan(line); err != nil || d.Decode(t) != nil {
		return nil, errors.New("not a token")
	}
	return t, nil
}

// add checks a token and its link to the previous one, last; nil for the first.
func (r *Report) add(p *Policy, t, last *Token) {
	r.Tokens++
	r.wrong = false
	switch {
	case last == nil:
		r.First = t.Seq
	case t.Seq != last.Seq+1:
		r.fault(t.Seq, "it follows token %d", last.Seq)
	case t.Prev != last.TokenHash:
		r.fault(t.Seq, "the token before is not the one that it was written after")
	}
	if (t.Seq == 1) != (t.Prev == "") {
		r.fault(t.Seq, "the first token is numbered 1")
	}
	if t.hash() != t.TokenHash {
		r.fault(t.Seq, "it was changed: its hash is not that of what it says")
	}
	if err := t.check(p); err != nil {
		r.fault(t.Seq, "%v", err)
	}
	r.Head = t.TokenHash
	r.count(t)
}

// count adds a token to the totals.
func (r *Report) count(t *Token) {
	switch at := t.answer(); {
	case r.wrong:
		r.Faulty++
	case t.Void == "":
		r.Valid++
		r.validAnswers[at] = true
	case r.validAnswers[at]:
		r.Valid--
		r.Void += 2
		delete(r.validAnswers, at)
	default:
		r.Void++
	}
}
