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

// Token is the proof that is kept of one attested answer. It has no content. Its members are those of its JSON form, a line of an export.
type Token struct {
	Seq         int64  `json:"seq"` // from 1 on, without gaps
	At          int64  `json:"at"`  // when the receipt was verified: Unix time in milliseconds
	RequestID   string `json:"request_id"`
	GolemID     string `json:"golem_id"`
	Tick        int64  `json:"tick"`
	TaskClass   string `json:"task_class"`
	Provider    string `json:"provider"`
	Model       string `json:"model"`       // that was called
	Measurement string `json:"measurement"` // of the enclave
	Nonce       string `json:"nonce"`       // that was sent
	Hash        string `json:"response_hash"`
	Void        string `json:"void"`    // why the receipt counts for nothing, a Reason; "" for a valid one, unless a later token is void for the same answer
	Receipt     string `json:"receipt"` // as it came
	Prev        string `json:"prev"`    // TokenHash of the token before; "" for the first
	TokenHash   string `json:"hash"`    // of all the other members

	revoked bool // a later token is void for the same answer
}

// answer tells which answer a token is about. A nonce is of one call.
func (t *Token) answer() string { return t.RequestID + "\n" + t.Nonce }

// tokenForm begins what is hashed of a token: no hash of another form is one of a token.
const tokenForm = "bardo-attestation-token/1\n"

// hash is the SHA-256, in hexadecimal, of the token without its own hash, in the JSON Canonicalization Scheme (RFC 8785).
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

// check reports what is wrong with a token by itself, whatever the policy; nil if its receipt says what it says.
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

// Holds reports whether a token, by itself, is what was written, and its receipt is verified by a policy and not void, also by no later token that was read
// with it (Book.Latest). Nothing holds without a policy.
func (t *Token) Holds(p *Policy) bool {
	return p != nil && t.Void == "" && !t.revoked && t.hash() == t.TokenHash && t.check(p) == nil
}

// Report is the result of a check of tokens.
type Report struct {
	Tokens int      `json:"tokens"`
	Valid  int      `json:"valid"` // whose receipts are verified and not void
	Void   int      `json:"void"`  // whose receipts are verified, and whose answers could not be used
	First  int64    `json:"first"` // sequence number of the first token; 0 for none
	Head   string   `json:"head"`  // the last token's hash: whoever knew it before knows that nothing was cut off
	wrong  bool     // the token that is being checked
	Faulty int      `json:"faulty"` // with which anything is wrong
	Faults []string `json:"faults"` // what is wrong, of the first of them

	standing map[string]bool // answers whose tokens are valid so far
}

// maxFaults bounds the faults that a report lists.
const maxFaults = 100

func (r *Report) fault(seq int64, format string, args ...any) {
	r.wrong = true
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf("token %d: ", seq)+fmt.Sprintf(format, args...))
	}
}

// maxLine bounds a line of an export, in bytes.
const maxLine = 64 << 10

// Check reads tokens, a JSON object per line in the order of their numbers, and verifies each receipt and the chain. A selection may begin anywhere in the
// chain. A void token also voids an earlier one of the same answer. The error is of reading alone.
func Check(p *Policy, in io.Reader) (*Report, error) {
	report := &Report{Faults: []string{}, standing: map[string]bool{}}
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

// lineForm are the members of a line. One that is there twice would say one thing to this reader and another to the next.
var lineForm = jsonx.NewForm("seq", "at", "request_id", "golem_id", "tick", "task_class", "provider", "model", "measurement", "nonce", "response_hash", "void", "receipt", "prev", "hash")

// readToken reads a line. It has the members of a token and no others.
func readToken(line []byte) (*Token, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	t := new(Token)
	if _, err := lineForm.Scan(line); err != nil || d.Decode(t) != nil {
		return nil, errors.New("not a token")
	}
	return t, nil
}

// add checks a token and its place behind the one before; nil for the first.
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

// count adds a token to the sums.
func (r *Report) count(t *Token) {
	switch at := t.answer(); {
	case r.wrong:
		r.Faulty++
	case t.Void == "":
		r.Valid++
		r.standing[at] = true
	case r.standing[at]:
		r.Valid--
		r.Void += 2
		delete(r.standing, at)
	default:
		r.Void++
	}
}
