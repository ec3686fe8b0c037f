// Package paytest parses the payments that package client sends, and answers its queries of a chain: for tests with a server that is paid.
package paytest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// message is a payment of either version and scheme.
type message struct {
	Payload struct {
		Signature     string
		Authorization fields
		Permit        struct {
			From, Nonce, Deadline string
			Permitted             struct{ Amount string }
			Witness               struct{ To, Facilitator, ValidAfter string }
		} `json:"permit2Authorization"`
	}
}

// fields are the values of an authorization.
type fields struct{ From, To, Value, ValidAfter, ValidBefore, Nonce string }

// Parse returns the authorization in the value of a payment's header. The error means that it is not valid, or that its payer did not sign it for the token.
func Parse(header string, token pay.Token, network pay.Network) (a pay.Authorization, err error) {
	var m message
	b, err := base64.StdEncoding.DecodeString(header)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return a, err
	}
	of := m.Payload.Authorization
	if p := &m.Payload.Permit; p.From != "" {
		n, ok := new(big.Int).SetString(p.Nonce, 10)
		if !ok {
			return a, fmt.Errorf("the nonce %q", p.Nonce)
		}
		of = fields{p.From, p.Witness.To, p.Permitted.Amount, p.Witness.ValidAfter, p.Deadline, fmt.Sprintf("0x%064x", n)}
		a.UpTo = true
		if a.Facilitator, err = pay.ParseAddress(p.Witness.Facilitator); err != nil {
			return a, err
		}
	}
	if err := parse(&a, &of); err != nil {
		return a, err
	}
	signature, err := hex.DecodeString(strings.TrimPrefix(m.Payload.Signature, "0x"))
	if who, ok := typed.Recover(typed.Digest(token, network.ID, &a), signature); err != nil || !ok || who != a.From {
		return a, errors.Join(err, fmt.Errorf("the signature is of %s, %v", who, ok))
	}
	return a, nil
}

func parse(a *pay.Authorization, of *fields) error {
	var errs [6]error
	var value int64
	a.From, errs[0] = pay.ParseAddress(of.From)
	a.To, errs[1] = pay.ParseAddress(of.To)
	a.Nonce, errs[2] = pay.ParseWord(of.Nonce)
	value, errs[3] = strconv.ParseInt(of.Value, 10, 64)
	a.ValidAfter, errs[4] = strconv.ParseUint(of.ValidAfter, 10, 64)
	a.ValidBefore, errs[5] = strconv.ParseUint(of.ValidBefore, 10, 64)
	a.Value = policy.Micro(value)
	return errors.Join(errs[:]...)
}

// Node answers calls as a node of a chain.
type Node struct {
	Network pay.Network
	Head    time.Time                    // of the newest block
	Used    iter.Seq[*pay.Authorization] // on the chain
}

// Answer returns the response to a JSON-RPC call.
func (n *Node) Answer(body []byte) (response []byte, err error) {
	var m struct {
		Method string
		Params []json.RawMessage
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	var result string
	switch m.Method {
	case "eth_chainId":
		result = fmt.Sprintf(`"0x%x"`, n.Network.ID)
	case "eth_getBlockByNumber":
		result = fmt.Sprintf(`{"number":"0x7","timestamp":"0x%x"}`, n.Head.Unix())
	case "eth_call":
		if result, err = n.call(m.Params); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the method %q", m.Method)
	}
	return []byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`), nil
}

// call answers the query of an authorization's state: its arguments are the payer and the nonce, or the number of the bitmap with the nonce of a permit.
func (n *Node) call(params []json.RawMessage) (string, error) {
	var c struct{ Data string }
	if len(params) == 0 || json.Unmarshal(params[0], &c) != nil {
		return "", errors.New("a call without data")
	}
	data, err := hex.DecodeString(strings.TrimPrefix(c.Data, "0x"))
	if err != nil || len(data) != 4+64 {
		return "", errors.Join(err, fmt.Errorf("a call with the data %s", c.Data))
	}
	var word pay.Word
	query := data[36:]
	for a := range n.Used {
		switch {
		case a.UpTo && slices.Equal(query[1:], a.Nonce[:31]):
			word[31-a.Nonce[31]/8] |= 1 << (a.Nonce[31] % 8)
		case !a.UpTo && slices.Equal(query, a.Nonce[:]):
			word[31] = 1
		}
	}
	return `"` + word.String() + `"`, nil
}
