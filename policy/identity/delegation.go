package identity

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// The headers of a request that an agent's delegate sends: base64 of JSON, in either alphabet, with or without padding.
const (
	HeaderDelegation = header.Delegation
	HeaderProof      = header.Proof
)

const (
	maxHeader      = 8 << 10
	maxDelegation  = 7 * 24 * time.Hour // from valid_after to valid_before
	maxScope       = 1024
	maxModels      = 16
	scopeGenerate  = "generate"
	scopeModel     = "model:"
	delegationType = "Delegation(uint256 agentId,address delegate,address issuer,string audience,string scope,uint256 maxSpend,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
	proofType      = "RequestProof(bytes32 delegation,string method,string path,bytes32 body,uint256 time,bytes32 nonce)"
)

// Delegation is what an agent's owner or wallet signs to let another key send requests for the agent.
type Delegation struct {
	Agent       pay.Word
	Delegate    pay.Address // signs each request
	Issuer      pay.Address // signs the delegation
	Audience    string      // the gateway
	Scope       string      // as signed
	Models      []string    // of the scope; none: any
	MaxSpend    policy.Micro
	ValidAfter  int64 // seconds since 1970
	ValidBefore int64
	Nonce       pay.Word
}

// Proof is a delegate's statement about one request.
type Proof struct {
	Body  [32]byte // SHA-256
	Time  int64    // seconds since 1970
	Nonce pay.Word
}

// digest returns what the issuer signs.
func (d *Delegation) digest(r *Realm) pay.Word {
	typ, audience, scope := keccak([]byte(delegationType)), keccak([]byte(d.Audience)), keccak([]byte(d.Scope))
	spend, after, before := number(uint64(d.MaxSpend)), number(uint64(d.ValidAfter)), number(uint64(d.ValidBefore)) //nolint:gosec // none is negative
	return r.sign(keccak(typ[:], d.Agent[:], padded(d.Delegate), padded(d.Issuer), audience[:], scope[:], spend[:], after[:], before[:], d.Nonce[:]))
}

// digest returns what the delegate signs.
func (p *Proof) digest(r *Realm, delegation pay.Word, method, path string) pay.Word {
	typ, m, at, when := keccak([]byte(proofType)), keccak([]byte(method)), keccak([]byte(path)), number(uint64(p.Time)) //nolint:gosec // not negative
	return r.sign(keccak(typ[:], delegation[:], m[:], at[:], p.Body[:], when[:], p.Nonce[:]))
}

// decode reads a header into a struct. Members that the struct lacks are refused.
func decode(text string, into any) error {
	if len(text) > maxHeader {
		return fmt.Errorf("it is longer than %d bytes", maxHeader)
	}
	text = strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(text), "=")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errors.New("it is not base64")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if _, err := jsonx.Unique.Scan(b); err != nil || d.Decode(into) != nil { // checked first, because the decoder stops at the end of the value
		return errors.New("it is not JSON with the expected members")
	}
	return nil
}

// parseDelegation reads a delegation header, and its signature.
func parseDelegation(text string) (d *Delegation, signature []byte, err error) {
	var j struct {
		Agent       string `json:"agent_id"`
		Delegate    string `json:"delegate"`
		Issuer      string `json:"issuer"`
		Audience    string `json:"audience"`
		Scope       string `json:"scope"`
		MaxSpend    string `json:"max_spend"`
		ValidAfter  int64  `json:"valid_after"`
		ValidBefore int64  `json:"valid_before"`
		Nonce       string `json:"nonce"`
		Signature   string `json:"signature"`
	}
	if err := decode(text, &j); err != nil {
		return nil, nil, err
	}
	d = &Delegation{Audience: j.Audience, Scope: j.Scope, ValidAfter: j.ValidAfter, ValidBefore: j.ValidBefore}
	var bad [6]error
	d.Agent, bad[0] = ParseAgentID(j.Agent)
	d.Delegate, bad[1] = pay.ParseAddress(j.Delegate)
	d.Issuer, bad[2] = pay.ParseAddress(j.Issuer)
	d.Nonce, bad[3] = pay.ParseWord(j.Nonce)
	d.MaxSpend, bad[4] = parseSpend(j.MaxSpend)
	signature, bad[5] = parseSignature(j.Signature)
	if err := errors.Join(bad[:]...); err != nil {
		return nil, nil, errors.New("agent_id, delegate, issuer, nonce, max_spend or signature is not of its form")
	}
	if d.ValidAfter < 0 || d.ValidBefore <= d.ValidAfter || time.Duration(d.ValidBefore-d.ValidAfter) > maxDelegation/time.Second {
		return nil, nil, fmt.Errorf("it lasts longer than %s, or not at all", maxDelegation)
	}
	d.Models, err = parseScope(d.Scope)
	return d, signature, err
}

// parseSpend reads an integer of USDC's base units: millionths of a dollar.
func parseSpend(s string) (policy.Micro, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || policy.Micro(n) > policy.MaxMicro {
		return 0, errors.New("max_spend is not a number of millionths of a dollar")
	}
	return policy.Micro(n), nil
}

func parseSignature(s string) ([]byte, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	b, err := hex.DecodeString(digits)
	if err != nil || !ok || len(b) == 0 || len(b) > MaxSignature {
		return nil, errors.New("the signature is not 0x and hexadecimal digits")
	}
	return b, nil
}

// parseScope reads a scope: "generate", and the models that may be used, each as "model:" and its id.
func parseScope(s string) (models []string, err error) {
	words := strings.Fields(s)
	if len(s) > maxScope || len(words) == 0 || len(words) > maxModels+1 || words[0] != scopeGenerate {
		return nil, errors.New(`its scope is not "generate", which words such as model:gpt-4.1-mini may follow`)
	}
	for _, w := range words[1:] {
		m, ok := strings.CutPrefix(w, scopeModel)
		if !ok || m == "" {
			return nil, fmt.Errorf("its scope has a word that is no model:…")
		}
		models = append(models, m)
	}
	return models, nil
}

// parseProof reads a proof header, and its signature.
func parseProof(text string) (p *Proof, signature []byte, err error) {
	var j struct {
		Body      string `json:"body"`
		Time      int64  `json:"time"`
		Nonce     string `json:"nonce"`
		Signature string `json:"signature"`
	}
	if err := decode(text, &j); err != nil {
		return nil, nil, err
	}
	p = &Proof{Time: j.Time}
	var bad [3]error
	var body pay.Word
	body, bad[0] = pay.ParseWord(j.Body)
	p.Nonce, bad[1] = pay.ParseWord(j.Nonce)
	signature, bad[2] = parseSignature(j.Signature)
	if err := errors.Join(bad[:]...); err != nil || j.Time < 0 {
		return nil, nil, errors.New("body, nonce, time or signature is not of its form")
	}
	p.Body = body
	return p, signature, nil
}
