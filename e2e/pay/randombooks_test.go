package pay

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// taken are the statuses that a payment can be answered with, besides those of providers that fail.
var taken = []int{
	0, http.StatusOK, http.StatusBadRequest, http.StatusPaymentRequired, http.StatusConflict, http.StatusPreconditionFailed, http.StatusTooManyRequests, http.StatusNotFound,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestHeaderFieldsTooLarge,
}

// check looks at one answer by itself.
func (m *market) check(s *sending) {
	m.Helper()
	complain := func(what string) {
		m.Errorf("%s: %s\n%s\n%d %.500s", what, s.d, m.gateways[s.at].URL, s.got.Status, s.got.Body)
	}
	switch {
	case !slices.Contains(taken, s.got.Status):
		complain("a status that nothing here has")
	case s.got.Err != nil:
	case s.got.Status >= http.StatusBadRequest && !wellFormed(s):
		complain("an error that is not in the caller's format")
	case s.got.Status == http.StatusOK && s.refused && !m.purses[s.d.purse].odd:
		complain("a wrong payment is taken")
	case s.d.honest() && len(m.moods) == 0 && s.d.key == "" && s.d.way == "once" && s.got.Status != http.StatusOK:
		complain("a good payment is not taken")
	}
	if strings.Contains(s.got.Body, "payment_replayed") && (s.got.Status != http.StatusConflict || s.got.Header.Get("Payment-Required") != "" || s.got.Header.Get("Payment-Response") == "") {
		complain("a payment that was used is answered with a price, or not with its state")
	}
}

// wellFormed reports whether an error is in the caller's format; a price has its own.
func wellFormed(s *sending) bool {
	var e struct {
		Version int    `json:"x402Version"`
		Type    string `json:"type"`
		Error   json.RawMessage
		Accepts []json.RawMessage
	}
	if json.Unmarshal([]byte(s.got.Body), &e) != nil || len(e.Error) < 3 {
		return false
	}
	if e.Version != 0 {
		_, err := base64.StdEncoding.DecodeString(s.got.Header.Get("Payment-Required"))
		return err == nil && len(e.Accepts) > 0 && s.got.Header.Get("Payment-Required") != ""
	}
	var inner struct {
		Message, Type, Status string
		Code                  any
	}
	if json.Unmarshal(e.Error, &inner) != nil || inner.Message == "" || inner.Code == nil {
		return false
	}
	switch s.d.dialect {
	case "messages":
		return e.Type == "error" && inner.Type != ""
	case "gemini":
		return inner.Status != ""
	}
	return inner.Type != ""
}

// row is a payment in the gateways' book.
type row struct {
	Request     string      `json:"request_id"`
	State       string      `json:"state"`
	Scheme      string      `json:"scheme"`
	Payer       string      `json:"payer"`
	Authorized  json.Number `json:"authorized_usd"`
	Amount      json.Number `json:"amount_usd"`
	Fee         json.Number `json:"settlement_fee_usd"`
	Credit      json.Number `json:"credit_usd"`
	Transaction string      `json:"transaction"`
	Attempts    int         `json:"failed_attempts"`
	Reason      string      `json:"reason"`
}

// arrived reports whether the money of a payment is on the chain.
func (r *row) arrived() bool { return r.State == "confirmed" || r.State == "final" }

// over reports whether nothing more becomes of a payment.
func (r *row) over() bool { return r.arrived() || r.State == "released" || r.State == "failed" }

func (m *market) rows() (all []row) {
	m.Helper()
	out := m.gateways[0].Bardo(m.T, "payments", "--json", "--limit", "1000")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		m.Fatalf("%v: %s", err, out)
	}
	return all
}

// close waits until nothing is on its way any more, and compares the chain, the books and the answers.
func (m *market) close() {
	m.Helper()
	wait := func(what string, over func(r *row) bool) (all []row) {
		var left []row
		defer func() {
			if m.Failed() { // the poll ended the test
				m.Logf("not over: %+v", left)
			}
		}()
		polltest.Until(m.T, what, func() bool {
			all = m.rows()
			left = slices.DeleteFunc(slices.Clone(all), func(r row) bool { return over(&r) })
			return len(left) == 0
		})
		return all
	}
	pause(m.T, time.Second) // requests whose clients left may be at work
	wait("what can be settled is", func(r *row) bool { return r.over() || r.Attempts > 0 && m.mayFail(r.Payer) })
	if m.lane.facilitator {
		m.reclaim()
		wait("what was sent again is settled", func(r *row) bool { return r.over() || r.Attempts > 0 && m.mayFail(r.Payer) })
	}
	m.c.Do(m.T, nil, "evm_increaseTime", 1<<14)
	m.c.Do(m.T, nil, "evm_mine")
	all := wait("the end of every payment", (*row).over)
	if m.lane.facilitator {
		all = m.awaitMoved()
	}
	m.compareTransfers(all)
	m.compareAnswers(all)
	var wrong []string
	for range 40 { // losses are written after three seconds
		if wrong = m.compareBooks(all); len(wrong) == 0 {
			break
		}
		pause(m.T, 250*time.Millisecond)
	}
	for _, w := range wrong {
		m.Error(w)
	}
	for i := range all {
		if r := &all[i]; r.State == "failed" && !m.mayFail(r.Payer) {
			m.Errorf("an honest wallet's payment failed: %+v", r)
		}
	}
	for _, g := range m.gateways {
		g.AssertSound(m.T)
	}
}

// reclaim sends payments again that were released, and moved all the same.
func (m *market) reclaim() {
	m.Helper()
	released := map[string]bool{}
	for _, r := range m.rows() {
		released[r.Request] = r.State == "released"
	}
	sent := slices.Clone(m.sent)
	for i := range sent {
		s := &sent[i]
		if s.got.Header == nil || !released[s.got.Header.Get("X-Request-Id")] {
			continue
		}
		var out hexutil.Bytes
		m.c.Do(m.T, &out, "eth_call", map[string]any{"to": m.c.Token, "data": hexutil.Bytes(call("authorizationState(address,bytes32)", s.pm.From[:], s.pm.Nonce[:]))}, "latest")
		if out[31] == 0 {
			continue
		}
		c := s.d.request("")
		c.Header = append(c.Header, s.pm.header())
		got := m.gateways[1-s.at].Do(m.T, c)
		if got.Status == http.StatusPaymentRequired {
			m.Errorf("a payment that arrived is asked for again: %s\n%s", s.d, got.Body)
		}
		m.note(sending{d: s.d, pm: s.pm, at: 1 - s.at, got: got})
	}
}

// awaitMoved waits until the books have what a facilitator moved and did not take: what is not sent again is looked for after a while.
func (m *market) awaitMoved() (all []row) {
	m.Helper()
	polltest.Until(m.T, "the books have every transfer", func() bool {
		all = m.rows()
		arrived := 0
		for i := range all {
			if all[i].arrived() {
				arrived++
			}
		}
		return arrived == len(m.transfers())
	})
	return all
}

// mayFail reports whether a wallet has less than it signs for.
func (m *market) mayFail(payer string) bool {
	return strings.EqualFold(payer, m.purses[2].address.Hex()) || strings.EqualFold(payer, m.purses[5].address.Hex())
}

// transfer is one to the operator.
type transfer struct {
	From   common.Address
	Amount int64
	Tx     string
}

func (m *market) transfers() (all []transfer) {
	m.Helper()
	var logs []struct {
		Topics []common.Hash  `json:"topics"`
		Data   hexutil.Bytes  `json:"data"`
		Tx     common.Hash    `json:"transactionHash"`
		Index  hexutil.Uint64 `json:"logIndex"`
	}
	m.c.Do(m.T, &logs, "eth_getLogs", map[string]any{
		"fromBlock": "0x0", "address": m.c.Token,
		"topics": []any{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")), nil, common.HexToHash("0x" + strings.Repeat("0", 24) + payTo[2:])},
	})
	for _, l := range logs {
		all = append(all, transfer{common.BytesToAddress(l.Topics[1][:]), common.BytesToHash(l.Data).Big().Int64(), l.Tx.Hex()})
	}
	return all
}

// compareTransfers compares the payments with the chain, one by one.
func (m *market) compareTransfers(all []row) {
	m.Helper()
	on := map[transfer]int{}
	for _, t := range m.transfers() {
		on[t]++
	}
	for i := range all {
		r := &all[i]
		if !r.arrived() {
			continue
		}
		amount, signed := micros(m, r.Amount), micros(m, r.Authorized)
		if amount > signed || r.Scheme == "exact" && amount != signed {
			m.Errorf("more was moved than was signed, or less: %+v", r)
		}
		t := transfer{common.HexToAddress(r.Payer), amount, r.Transaction}
		if on[t]--; on[t] < 0 {
			m.Errorf("a payment is said to have arrived, and did not: %+v", r)
		}
	}
	for t, n := range on {
		if n > 0 {
			m.Errorf("%d transfers of which the books know nothing: %+v", n, t)
		}
	}
}

// compareAnswers looks for answers that nobody paid for, and for payments that paid for two.
func (m *market) compareAnswers(all []row) {
	m.Helper()
	byRequest := map[string]*row{}
	for i := range all {
		byRequest[all[i].Request] = &all[i]
	}
	served := map[*payment]int{}
	for i := range m.sent {
		s := &m.sent[i]
		if s.got.Status != http.StatusOK || !s.delivered() {
			continue
		}
		cost := micros(m, m.record(s.got.Header.Get("X-Request-Id")).Cost)
		r := byRequest[s.got.Header.Get("X-Request-Id")]
		switch {
		case cost <= 0 && s.got.Err == nil:
			m.Errorf("an answer for nothing: %s\n%s", s.d, s.got.Body)
		case s.d.key == "alone" || cost <= 0:
			continue
		case r == nil || r.State == "released":
			m.Errorf("an answer without a payment: %s\n%+v", s.d, r)
		}
		if served[s.pm]++; served[s.pm] > 1 {
			m.Errorf("a payment for two answers: %s", s.d)
		}
	}
}

// delivered reports whether the answer has something of what the provider says.
func (s *sending) delivered() bool {
	if s.d.other == "another model" || s.d.behaviour.Text == "" {
		return strings.Contains(s.got.Body, "fake")
	}
	return strings.Contains(s.got.Body, strings.Fields(s.d.behaviour.Text)[0]+" ") || strings.Contains(s.got.Body, "short") || strings.Contains(s.got.Body, "longer")
}

// record is what the gateways have of a request that was served.
func (m *market) record(id string) (v invoice) {
	m.Helper()
	polltest.Until(m.T, "the record of "+id, func() (ok bool) {
		v, ok = m.find(id)
		return ok
	})
	return v
}

// find finds the record of a request; one that was not served has none.
func (m *market) find(id string) (v invoice, ok bool) {
	m.Helper()
	got := m.gateways[0].Do(m.T, gateway.Call{Method: http.MethodGet, NoKey: true, Path: "/v1/requests/" + id})
	if got.Status != http.StatusOK {
		got = m.gateways[0].Do(m.T, gateway.Call{Method: http.MethodGet, Key: m.spent, Path: "/v1/requests/" + id})
	}
	return v, got.Status == http.StatusOK && json.Unmarshal([]byte(got.Body), &v) == nil
}

// compareBooks compares, for each purse, the chain with the payments, and the payments with the ledger: what a wallet has less what it owes is what arrived of it, less fees and costs.
func (m *market) compareBooks(all []row) (wrong []string) {
	m.Helper()
	onChain := map[common.Address]int64{}
	for _, t := range m.transfers() {
		onChain[t.From] += t.Amount
	}
	for i, p := range m.purses {
		var moved, left int64
		paid := false
		for k := range all {
			r := &all[k]
			if !strings.EqualFold(r.Payer, p.address.Hex()) || r.State == "released" {
				continue
			}
			paid = true
			v, _ := m.find(r.Request) // one that was settled first may have served nothing
			left -= micros(m, r.Fee) + micros(m, v.Cost)
			if r.arrived() {
				moved += micros(m, r.Amount)
			}
		}
		left += moved
		if moved != onChain[p.address] {
			wrong = append(wrong, fmt.Sprintf("purse %d: the books say that %d arrived, the chain %d", i, moved, onChain[p.address]))
		}
		if has := m.c.balance(m.T, p.address); !p.thief && has != p.minted-onChain[p.address] {
			wrong = append(wrong, fmt.Sprintf("purse %d: %d of %d are left, and %d arrived", i, has, p.minted, onChain[p.address]))
		}
		if !paid {
			continue
		}
		b := m.balance(p.account())
		if b.Held != "0.000000" {
			wrong = append(wrong, fmt.Sprintf("purse %d: %s is held", i, b.Held))
		}
		if got := micros(m, b.Balance) - micros(m, b.Owed); got != left {
			wrong = append(wrong, fmt.Sprintf("purse %d: the wallet has %d, want %d", i, got, left))
		}
	}
	if b := m.gateways[0].Do(m.T, gateway.Call{Path: "/v1/balance", Key: m.idle}); !strings.Contains(b.Body, "10.000000") {
		wrong = append(wrong, "the key that was sent beside payments has paid: "+b.Body)
	}
	return wrong
}

// standing is what the ledger has of a wallet.
type standing struct {
	Balance json.Number `json:"balance_usd"`
	Owed    json.Number `json:"owed_usd"`
	Held    json.Number `json:"held_usd"`
}

func (m *market) balance(account string) (b standing) {
	m.Helper()
	r := m.gateways[0].Try(m.T, "balance", account, "--json")
	if r.Code != 0 && strings.Contains(r.Stderr, "there is no such key") { // nothing is booked yet
		return standing{Balance: "0.000000", Owed: "0.000000", Held: "0.000000"}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &b); err != nil {
		m.Fatalf("%v: %+v", err, r)
	}
	return b
}

// micros are USD in millionths.
func micros(m *market, n json.Number) int64 {
	m.Helper()
	if n == "" {
		return 0
	}
	return new(big.Rat).Mul(dollars(m.T, n), big.NewRat(1e6, 1)).Num().Int64()
}
