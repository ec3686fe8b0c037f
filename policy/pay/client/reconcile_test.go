package client_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// node is a chain's node with a newest block and one authorization.
type node struct {
	chain string
	time  time.Time
	clock string // the block's time as the node writes it, instead of time
	state string // the answer to eth_call
	raw   string // instead of all responses
	asked []string
}

func (n *node) start(t *testing.T) *client.Node {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Method string
			Params []json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		n.asked = append(n.asked, m.Method)
		answer := map[string]string{"eth_chainId": `"` + n.chain + `"`, "eth_getBlockByNumber": fmt.Sprintf(`{"number":"0x7","timestamp":%q}`, cmp.Or(n.clock, fmt.Sprintf("0x%x", n.time.Unix()))), "eth_call": `"` + n.state + `"`}[m.Method]
		if m.Method == "eth_call" && string(m.Params[1]) != `"0x7"` {
			t.Errorf("the state is asked at %s, and not at the block whose time counts", m.Params[1])
		}
		if n.raw != "" {
			_, _ = io.WriteString(w, n.raw)
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, answer)
	}))
	t.Cleanup(s.Close)
	return &client.Node{URL: s.URL + "/secret-key", Network: known.Network, HTTP: &http.Client{Timeout: 10 * time.Second}}
}

const (
	sepolia  = "0x14a34"
	usedWord = "0x0000000000000000000000000000000000000000000000000000000000000001"
	newWord  = "0x0000000000000000000000000000000000000000000000000000000000000000"
)

// TestPitfall13TheChainDecides the outcome of a payment whose response was lost; only then is another one signed.
func TestPitfall13TheChainDecides(t *testing.T) {
	for _, row := range []struct {
		name  string
		after time.Duration // the end of the authorization
		state string
		want  outgoing.State
		left  int
	}{
		{"unused, not expired", -time.Second, newWord, outgoing.Open, 1},
		{"unused, expired only by the newest blocks", time.Minute, newWord, outgoing.Open, 1},
		{"unused, expired", 3 * time.Minute, newWord, outgoing.Unused, 0},
		{"used", -time.Second, usedWord, outgoing.Used, 0},
		{"used, expired", time.Hour, usedWord, outgoing.Used, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPayer(t)
			s := serve(t, &server{then: drop(t)})
			if _, _, _, err := p.get(t.Context(), "a", s.URL); err == nil {
				t.Fatal("a lost answer is no error")
			}
			first := p.onlyPayment(t)
			end := time.Unix(int64(first.ValidBefore), 0)
			n := (&node{chain: sepolia, state: row.state, time: end.Add(row.after)}).start(t)
			if left, err := client.Reconcile(t.Context(), p.Book, []*client.Node{n}); left != row.left || err != nil {
				t.Fatalf("%d are left, %v", left, err)
			}
			if got := p.onlyPayment(t); got.State != row.want || (got.Header == "") != (row.left == 0) {
				t.Fatalf("%+v", got)
			}
			spent, err := p.Book.Spent(t.Context(), p.Key.Address(), "test")
			if want := map[bool]int64{true: 0, false: 1500}[row.want == outgoing.Unused]; int64(spent) != want || err != nil {
				t.Errorf("%s counts as spent, %v", spent, err)
			}
			p.now = end
			_, _, _, err = p.get(t.Context(), "a", s.URL)
			if authorizations, _ := s.received(); authorizations != 2-row.left {
				t.Errorf("%d authorizations, %v", authorizations, err)
			}
		})
	}
}

// TestANodeThatIsWrongDecidesNothing.
func TestANodeThatIsWrongDecidesNothing(t *testing.T) {
	for name, n := range map[string]*node{
		"of another chain":             {chain: "0x1", state: newWord},
		"of a token that is not there": {chain: sepolia, state: "0x"},
		"an odd answer":                {chain: sepolia, state: "0x02"},
		"a time of more than 64 bits":  {chain: sepolia, state: newWord, clock: "0xffffffffffffffffff"},
		"a time that is not a number":  {chain: sepolia, state: newWord, clock: "later"},
		"a decimal time":               {chain: sepolia, state: newWord, clock: "9999999999"},
		"no JSON":                      {raw: "no"},
		"an error":                     {raw: `{"error":{"message":"secret"}}`},
		"endless":                      {raw: `{"result":"` + strings.Repeat("a", 2<<20) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPayer(t)
			s := serve(t, &server{then: drop(t)})
			_, _, _, _ = p.get(t.Context(), "a", s.URL)
			n.time = start.Add(time.Hour * 24)
			left, err := client.Reconcile(t.Context(), p.Book, []*client.Node{n.start(t)})
			if left != 1 || err == nil || strings.Contains(err.Error(), "secret-key") {
				t.Errorf("%d are left, %v", left, err)
			}
			if got := p.onlyPayment(t); got.State != outgoing.Open {
				t.Errorf("%+v", got)
			}
		})
	}
	p := newPayer(t)
	s := serve(t, &server{then: drop(t)})
	_, _, _, _ = p.get(t.Context(), "a", s.URL)
	if left, err := client.Reconcile(t.Context(), p.Book, nil); left != 1 || err != nil {
		t.Errorf("without a node %d are left, %v", left, err)
	}
	for _, url := range []string{"http://127.0.0.1:1/secret-key", "http://[::1/secret-key"} {
		n := &client.Node{URL: url, Network: known.Network, HTTP: &http.Client{}}
		if left, err := client.Reconcile(t.Context(), p.Book, []*client.Node{n}); left != 1 || err == nil || strings.Contains(err.Error(), "secret-key") {
			t.Errorf("a node that cannot be reached: %d are left, %v", left, err)
		}
	}
}
