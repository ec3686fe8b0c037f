package client

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/outgoing"
	"bardo.money/gateway/policy/pay/typed"
)

// Node is a client of a chain's node, for the states of authorizations. Safe for concurrent use.
type Node struct {
	URL     string // of its JSON-RPC interface; it may contain a key, so no error shows it
	Network pay.Network
	HTTP    *http.Client
}

// finality is the time after an authorization's expiry that the newest block must have for the authorization to count as unused: a reorganisation can replace
// blocks by earlier ones.
const finality = 2 * time.Minute

// Outcome is the state of an authorization on the chain.
type Outcome string

// The outcomes.
const (
	Pending Outcome = "pending" // not used yet
	Used    Outcome = "used"
	Expired Outcome = "over" // not used, and expired
)

// Outcome queries the chain for the state of an authorization.
func (n *Node) Outcome(ctx context.Context, token pay.Address, a *pay.Authorization) (Outcome, error) {
	var id, answer string
	if err := n.call(ctx, &id, "eth_chainId"); err != nil {
		return "", err
	}
	if got, err := quantity(id); err != nil || got != n.Network.ID {
		return "", fmt.Errorf("the node is of chain %s, and not of %s", clip(id), n.Network)
	}
	var head struct {
		Number string `json:"number"`
		Time   string `json:"timestamp"`
	}
	if err := n.call(ctx, &head, "eth_getBlockByNumber", "latest", false); err != nil {
		return "", err
	}
	at, err := quantity(head.Time)
	if err != nil {
		return "", errNode
	}
	to, data := typed.State(token, a)
	if err := n.call(ctx, &answer, "eth_call", map[string]string{"to": to.String(), "data": "0x" + hex.EncodeToString(data)}, head.Number); err != nil { // of the block whose time is compared
		return "", err
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(answer, "0x"))
	if err != nil {
		return "", errNode
	}
	used, err := typed.Used(a, raw)
	switch {
	case err != nil:
		return "", err
	case used:
		return Used, nil
	case at > a.ValidBefore+uint64(finality/time.Second):
		return Expired, nil
	}
	return Pending, nil
}

var errNode = errors.New("the node answered something else than expected")

func quantity(text string) (uint64, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return 0, errNode
	}
	return strconv.ParseUint(digits, 16, 64)
}

// call makes one JSON-RPC call.
func (n *Node) call(ctx context.Context, into any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the node's address is not valid")
	}
	req.Header.Set("Content-Type", "application/json")
	client := *n.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the next server would get the address, with its key, in Referer
	resp, err := client.Do(req)
	if err != nil {
		return errors.New("the node cannot be reached")
	}
	defer resp.Body.Close()
	const maxAnswer = 1 << 20
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the node answers %d", resp.StatusCode)
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer) != nil {
		return errNode
	}
	if answer.Error != nil {
		return fmt.Errorf("the node refuses %s: %s", method, clip(answer.Error.Message))
	}
	if json.Unmarshal(answer.Result, into) != nil {
		return errNode
	}
	return nil
}

// Reconcile queries the nodes for the outcomes of all authorizations whose outcome is unknown, and stores them. It returns the number that are still unknown. An
// error of one does not affect the others.
func Reconcile(ctx context.Context, b *outgoing.Book, nodes []*Node) (left int, err error) {
	all, err := b.Unsettled(ctx)
	errs := []error{err}
	for i := range all {
		known, err := reconcile(ctx, b, nodes, &all[i])
		if !known {
			left++
		}
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}

func reconcile(ctx context.Context, b *outgoing.Book, nodes []*Node, a *outgoing.Authorization) (known bool, err error) {
	for _, n := range nodes {
		if n.Network.String() != a.Network {
			continue
		}
		o, err := n.Outcome(ctx, a.Asset, &a.Authorization)
		if err != nil || o == Pending {
			return false, err
		}
		return true, b.Resolve(ctx, a.ID, o == Used)
	}
	return false, nil
}
