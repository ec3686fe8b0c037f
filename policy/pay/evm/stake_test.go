package evm

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/stake"
)

// openStake is a client of a node with these answers.
func openStake(t *testing.T, answers registry) *Stake {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, answers.answer(body))
	}))
	t.Cleanup(s.Close)
	n, err := OpenStake(t.Context(), stake.NodeOptions{URL: s.URL + "/secret-of-the-node", Network: pay.Network{ID: 84532}, Contract: pay.Address{0xaa}, Wallet: pay.Address{0xbb}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAPositionIsRead(t *testing.T) {
	t.Parallel()
	word := fmt.Sprintf("%064x", big.NewInt(5_000_000_000_000_000_000))
	n := openStake(t, registry{"eth_chainId": "14a34", "eth_getCode": "60", of(balanceOf): word})
	if err := n.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Staked(t.Context()); err != nil || got.String() != "5000000000000000000" {
		t.Error(got, err)
	}
}

// TestANodesRedirectIsNotFollowed: the next server would get the node's address, which may contain a key, in Referer.
func TestANodesRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server is asked, and reads %q", r.Referer())
	}))
	t.Cleanup(other.Close)
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(s.Close)
	n, err := OpenStake(t.Context(), stake.NodeOptions{URL: s.URL + "/secret-of-the-node", Network: pay.Network{ID: 84532}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Check(t.Context()); err == nil {
		t.Error("a redirect is taken for an answer")
	}
}

func TestANodeThatHasNoPosition(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]registry{
		"another chain": {"eth_chainId": "1", "eth_getCode": "60"},
		"no contract":   {"eth_chainId": "14a34", "eth_getCode": ""},
	} {
		if _, ok := errors.AsType[*pay.Mismatch](openStake(t, answers).Check(t.Context())); !ok {
			t.Errorf("%s is taken", name)
		}
	}
	for name, answer := range map[string]string{"nothing": "", "too short": "05", "too long": strings.Repeat("0", 128), "an error": "!execution reverted"} {
		got, err := openStake(t, registry{of(balanceOf): answer}).Staked(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret-of-the-node") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
