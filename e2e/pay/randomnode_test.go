package pay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/evm"
)

// moody is a server between the gateway and another one, which does something else than it should at random as long as it is moody.
type moody struct {
	*httptest.Server
	on     atomic.Bool
	mu     sync.Mutex
	random *rand.Rand
}

// startMoody starts one. do is what it does in a mood, which is a number below moods; others are passed on, as by pass.
func startMoody(t testing.TB, r *rand.Rand, moods int, do func(mood int, w http.ResponseWriter, r *http.Request, body []byte), pass func(w http.ResponseWriter, r *http.Request, body []byte)) *moody {
	t.Helper()
	m := &moody{random: rand.New(rand.NewPCG(r.Uint64(), 0))}
	m.on.Store(true)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		m.mu.Lock()
		mood := m.random.IntN(moods)
		m.mu.Unlock()
		if m.on.Load() {
			do(mood, w, req, body)
			return
		}
		pass(w, req, body)
	}))
	t.Cleanup(m.Close)
	return m
}

// hangUp closes a connection without an answer.
func hangUp(w http.ResponseWriter) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = c.Close()
	}
}

// startMoodyNode starts a node that now and then does not answer, answers something else, or does what it is told and does not say so.
func startMoodyNode(t testing.TB, r *rand.Rand, c *chain) *moody {
	t.Helper()
	client := &http.Client{Timeout: 20 * time.Second}
	pass := func(w http.ResponseWriter, r *http.Request, body []byte) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, c.URL, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, resp.Body)
	}
	return startMoody(t, r, 60, func(mood int, w http.ResponseWriter, r *http.Request, body []byte) {
		switch mood {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			hangUp(w)
		case 2:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"header not found"}}`)
		case 3:
			_, _ = io.WriteString(w, `<html>`)
		case 4:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":null}`)
		case 5, 6: // it is done, and nobody is told
			pass(httptest.NewRecorder(), r, body)
			w.WriteHeader(http.StatusBadGateway)
		default:
			pass(w, r, body)
		}
	}, pass)
}

// cashier is a facilitator that does not always do what it says.
type cashier struct {
	t     testing.TB
	terms *pay.Terms
	node  *evm.Node
	mu    sync.Mutex // one transaction after another
	last  string     // a transaction that it made
}

// startCashier starts one. After its moods it is an honest one.
func startCashier(t testing.TB, r *rand.Rand, c *chain) *moody {
	t.Helper()
	known, _ := pay.FindNetwork("base-sepolia")
	f := &cashier{t: t, last: "0x" + strings.Repeat("0", 63) + "1", terms: &pay.Terms{
		Network: known.Network, Asset: pay.Token{Address: pay.Address(c.Token), Name: "USD Coin", Version: "2"}, ServeTime: 2 * time.Minute, Margin: 2 * time.Minute, QuoteTTL: 5 * time.Minute,
	}}
	f.terms.PayTo, _ = pay.ParseAddress(payTo)
	var err error
	if f.node, err = evm.Open(t.Context(), pay.NodeOptions{URL: c.URL, Key: settlerKey, Terms: f.terms}); err != nil {
		t.Fatal(err)
	}
	return startMoody(t, r, 24, f.do, func(w http.ResponseWriter, r *http.Request, body []byte) { f.do(-1, w, r, body) })
}

// do answers a message of the protocol.
func (f *cashier) do(mood int, w http.ResponseWriter, r *http.Request, body []byte) {
	say := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	if r.URL.Path == "/supported" {
		say(http.StatusOK, `{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:84532"}]}`)
		return
	}
	switch mood { // what it may do to both
	case 0:
		say(http.StatusOK, "{}")
	case 1:
		say(http.StatusInternalServerError, `{"error":"x"}`)
	case 2:
		say(http.StatusOK, "<html>")
	case 3:
		hangUp(w)
	case 4:
		http.Redirect(w, r, "/"+strings.Repeat("x", 10), http.StatusTemporaryRedirect)
	case 5:
		say(http.StatusOK, `{"isValid":null,"success":null}`)
	case 6:
		say(http.StatusOK, `{"isValid":"true","success":"true"}`)
	case 7:
		say(http.StatusOK, strings.Repeat(" ", 300<<10)+`{"isValid":true,"success":true}`)
	default:
		if r.URL.Path == "/verify" {
			f.verify(mood, say, body)
			return
		}
		f.settle(mood, say, body)
	}
}

// verify says whether a payment is good. Now and then it is moved at once.
func (f *cashier) verify(mood int, say func(int, string), body []byte) {
	switch mood {
	case 8:
		say(http.StatusOK, `{"isValid":false,"invalidReason":"not_today"}`)
	case 9:
		say(http.StatusBadRequest, `{"isValid":true}`)
	case 10, 11:
		f.transfer(body)
		say(http.StatusOK, `{"isValid":true}`)
	case 12:
		f.transfer(body)
		say(http.StatusOK, `{"isValid":false,"invalidReason":"not_today"}`)
	default:
		say(http.StatusOK, `{"isValid":true}`)
	}
}

// settle makes the transfer or does not, and says so or does not.
func (f *cashier) settle(mood int, say func(int, string), body []byte) {
	switch mood {
	case 8:
		say(http.StatusOK, `{"success":false,"errorReason":"not_today","transaction":""}`)
	case 9: // a transaction that is none
		say(http.StatusOK, `{"success":true,"transaction":"0x`+strings.Repeat("ab", 32)+`"}`)
	case 10: // that of another payment
		f.mu.Lock()
		defer f.mu.Unlock()
		say(http.StatusOK, `{"success":true,"transaction":"`+f.last+`"}`)
	case 11:
		say(http.StatusOK, `{"success":true}`)
	case 12:
		say(http.StatusOK, `{"success":false,"errorReason":"settlement_pending","transaction":"0x`+strings.Repeat("cd", 32)+`"}`)
	case 13:
		f.transfer(body)
		say(http.StatusBadGateway, "")
	case 14:
		f.transfer(body)
		say(http.StatusOK, `{"success":false,"errorReason":"not_today"}`)
	case 15:
		f.transfer(body)
		say(http.StatusOK, `{"success":true,"transaction":"0x`+strings.Repeat("ef", 32)+`"}`)
	default:
		hash := f.transfer(body)
		if hash == "" {
			say(http.StatusOK, `{"success":false,"errorReason":"invalid_transaction_state"}`)
			return
		}
		say(http.StatusOK, `{"success":true,"transaction":"`+hash+`"}`)
	}
}

// transfer moves the money of an order; "" if the token does not.
func (f *cashier) transfer(order []byte) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var o struct {
		Payload json.RawMessage `json:"paymentPayload"`
	}
	if err := json.Unmarshal(order, &o); err != nil {
		f.t.Errorf("%v: %s", err, order)
		return ""
	}
	p, err := f.terms.Parse(base64.StdEncoding.EncodeToString(o.Payload), 2)
	if err != nil {
		f.t.Errorf("the gateway's order cannot be read: %v %s", err, order)
		return ""
	}
	t := &pay.Transfer{Authorization: p.Authorization, Amount: p.Value, Signature: p.Signature}
	hash, err := f.send(t)
	if err != nil {
		return ""
	}
	f.last = hash
	return hash
}

// send makes a transfer, and waits for its block.
func (f *cashier) send(t *pay.Transfer) (hash string, err error) {
	ctx := f.t.Context()
	slot, err := f.node.Slot(ctx)
	if err != nil {
		return "", err
	}
	tx, err := f.node.Prepare(ctx, t, slot, pay.Fees{})
	if err == nil {
		err = f.node.Send(ctx, tx.Raw)
	}
	if err != nil {
		return "", err
	}
	for {
		if _, ok, err := f.node.Receipt(ctx, tx.Hash, t); ok || err != nil {
			return tx.Hash.String(), err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
