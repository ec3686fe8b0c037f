package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// TestANodeIsAskedForItsOwnChain: a node of another chain would report that a payment was never used.
func TestANodeIsAskedForItsOwnChain(t *testing.T) {
	p := newPayer(t)
	s := serve(t, &server{then: func(w http.ResponseWriter, _ *pay.Payment) { w.WriteHeader(http.StatusBadGateway) }})
	if _, _, _, err := p.get(t.Context(), "a", s.URL); err != nil {
		t.Fatal(err)
	}
	n := &node{chain: "0x2105", time: p.now.Add(24 * time.Hour), state: newWord}
	at := n.start(t)
	base, _ := pay.FindNetwork("base")
	at.Network = base.Network
	if left, err := client.Reconcile(t.Context(), p.Book, []*client.Node{at}); left != 1 || err != nil || len(n.asked) != 0 {
		t.Errorf("%d are left, %v, and it was asked %v", left, err, n.asked)
	}
	if a := p.onlyPayment(t); a.State != outgoing.Open {
		t.Errorf("it is %s", a.State)
	}
}

// TestANodeThatFailsDecidesNothing: a response with an error status, of another server, or without an end.
func TestANodeThatFailsDecidesNothing(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server behind a redirection is asked") }))
	t.Cleanup(other.Close)
	for what, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`+sepolia+`"}`)
		},
		"a redirection": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"no end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`)
			for range 64 {
				_, _ = io.WriteString(w, strings.Repeat(" ", 32<<10))
			}
			_, _ = io.WriteString(w, sepolia+`"}`)
		},
	} {
		s := httptest.NewServer(answer)
		n := &client.Node{URL: s.URL, Network: known.Network, HTTP: &http.Client{Timeout: time.Minute}}
		o, err := n.Outcome(t.Context(), known.USDC.Address, &pay.Authorization{})
		s.Close()
		if err == nil || o != "" || what == "no end" && !strings.Contains(err.Error(), "something else than expected") || what == "an error" && !strings.Contains(err.Error(), "502") {
			t.Errorf("%s: %s, %v", what, o, err)
		}
	}
}

// TestAKnownPriceIsPaidAsLongAsItIsOne: for an hour, and while its requests are served; not for a request with a lower limit.
func TestAKnownPriceIsPaidAsLongAsItIsOne(t *testing.T) {
	p, s := newPayer(t), serve(t, &server{})
	p.Quotes = client.NewQuotes()
	name := byte('a')
	pays := func(what string, unpaid int) {
		t.Helper()
		if err := p.getSimilar(t.Context(), string(rune(name)), s.URL, 1000, true); err != nil {
			t.Fatal(what, err)
		}
		if name++; s.unpaid != unpaid {
			t.Errorf("%s: %d prices were asked for, want %d", what, s.unpaid, unpaid)
		}
	}
	s.then = func(w http.ResponseWriter, _ *pay.Payment) { w.WriteHeader(http.StatusBadGateway) }
	pays("the first, which is not served", 1)
	pays("the second, which is not served", 2)
	s.then = nil
	pays("the third", 3)
	p.now = p.now.Add(59 * time.Minute)
	pays("a known price", 3)
	s.then = func(w http.ResponseWriter, _ *pay.Payment) { w.WriteHeader(http.StatusBadGateway) }
	pays("one that is not served at a known price", 3)
	s.then = nil
	pays("after that", 4)
	p.now = p.now.Add(time.Hour)
	pays("after an hour", 5)
}

// TestARequestMayCostLessThanTheRulesAllow, and not more.
func TestARequestMayCostLessThanTheRulesAllow(t *testing.T) {
	for _, row := range []struct {
		limit, price policy.Micro // the rules allow 2000
		allowed      bool
	}{{0, 1500, true}, {1499, 1500, false}, {1500, 1500, true}, {5000, 1500, true}, {0, 2001, false}, {5000, 2001, false}, {1500, 2001, false}} {
		p, s := newPayer(t), serve(t, &server{price: row.price})
		resp, _, err := p.Do(t.Context(), &client.Request{Name: "a", MaxPrice: row.limit}, s.send(t.Context()))
		if err == nil {
			err = resp.Body.Close()
		}
		if (err == nil) != row.allowed || err != nil && !isRefusal(err) {
			t.Errorf("a request of %s that may cost %s: %v", row.price, row.limit, err)
		}
	}
}

// send sends a request to the server.
func (s *server) send(ctx context.Context) client.Send {
	return func(name, value string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			return nil, err
		}
		if name != "" {
			req.Header.Set(name, value)
		}
		return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	}
}

// TestWhatBecameOfAPaymentIsNotedForAClientThatHasGone: the outcome is stored after the client has disconnected.
func TestWhatBecameOfAPaymentIsNotedForAClientThatHasGone(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadGateway, 0} {
		p, s := newPayer(t), serve(t, &server{})
		ctx, leave := context.WithCancel(t.Context())
		resp, paid, err := p.Do(ctx, &client.Request{Name: "a"}, func(name, value string) (*http.Response, error) {
			if name == "" {
				return s.send(t.Context())(name, value)
			}
			leave()
			if status == 0 {
				return nil, ctx.Err()
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
		})
		if resp != nil {
			_ = resp.Body.Close()
		}
		if _, unknown := errors.AsType[*client.UnknownError](err); paid == nil || (err != nil) != (status == 0) || unknown != (status == 0) {
			t.Fatalf("%d: %+v, %v", status, paid, err)
		}
		a := p.onlyPayment(t)
		if want := map[int]string{http.StatusOK: "", http.StatusBadGateway: "the answer was 502", 0: "no answer"}[status]; a.Reason != want || paid.Reason != want || (a.State == outgoing.Answered) != (status == http.StatusOK) {
			t.Errorf("%d: it is %s (%s)", status, a.State, a.Reason)
		}
	}
}

// TestATransactionThatFailedIsNoneThatPaid: the payee reports a transaction with a failure.
func TestATransactionThatFailedIsNoneThatPaid(t *testing.T) {
	p := newPayer(t)
	s := serve(t, &server{then: func(w http.ResponseWriter, _ *pay.Payment) {
		receipt(w, 2, `{"success":false,"transaction":"0x`+strings.Repeat("ab", 32)+`"}`)
	}})
	if _, _, paid, err := p.get(t.Context(), "a", s.URL); err != nil || paid.Tx != "" || paid.State != outgoing.Answered {
		t.Errorf("%+v, %v", paid, err)
	}
	if a := p.onlyPayment(t); a.Tx != "" || a.State != outgoing.Answered {
		t.Errorf("%+v", a)
	}
}

// TestAPriceWithoutAnEndIsRefused: at most maxBody of it is read.
func TestAPriceWithoutAnEndIsRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 32<<10)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, _, err := newPayer(t).get(ctx, "a", s.URL); !isRefusal(err) {
		t.Errorf("%v", err)
	}
}
