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

// Node is a node of a chain, which is asked what became of authorizations. Safe for concurrent use.
type Node struct {
	URL     string // of its JSON-RPC interface; it may contain a key, so no error shows it
	Network pay.Network
	HTTP    *http.Client
}

// finality is how long after the end of an authorization the chain's newest block must be for the authorization to be over: a block that is replaced by one of an
// earlier time does not bring it back.
const finality = 2 * time.Minute

// Outcome is what a chain knows of an authorization.
type Outcome string

// The outcomes.
const (
	Pending Outcome = "pending" // it was not used, and may be
	Used    Outcome = "used"
	Over    Outcome = "over" // it was not used, and never can be
)

// Outcome asks the chain.
func (n *Node) Outcome(ctx context.Context, token pay.Address, a *pay.Authorization) (Outcome, error) {
	var id, answer string
	if err := n.ask(ctx, &id, "eth_chainId"); err != nil {
		return "", err
	}
	if got, err := quantity(id); err != nil || got != n.Network.ID {
		return "", fmt.Errorf("the node is of chain %s, and not of %s", clip(id), n.Network)
	}
	var head struct {
		Number string `json:"number"`
		Time   string `json:"timestamp"`
	}
	if err := n.ask(ctx, &head, "eth_getBlockByNumber", "latest", false); err != nil {
		return "", err
	}
	at, err := quantity(head.Time)
	if err != nil {
		return "", errNode
	}
	to, data := typed.State(token, a)
	if err := n.ask(ctx, &answer, "eth_call", map[string]string{"to": to.String(), "data": "0x" + hex.EncodeToString(data)}, head.Number); err != nil { // of the block whose time counts
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
		return Over, nil
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

// ask sends one JSON-RPC message.
func (n *Node) ask(ctx context.Context, into any, method string, params ...any) error {
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
	here := *n.HTTP
	here.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the next server would read the address in Referer
	resp, err := here.Do(req)
	if err != nil {
		return errors.New("the node cannot be reached")
	}
	defer resp.Body.Close()
	const most = 1 << 20
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the node answers %d", resp.StatusCode)
	}
	if json.NewDecoder(io.LimitReader(resp.Body, most)).Decode(&answer) != nil {
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

// Reconcile asks the chains of the nodes what became of all authorizations whose outcome is not known, and notes it. It returns how many are left. What fails for one does
// not keep it from the others.
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
