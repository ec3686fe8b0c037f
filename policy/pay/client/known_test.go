package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// getSimilar sends a request with the same SimilarKey, of a size.
func (p *payer) getSimilar(ctx context.Context, name, url string, size policy.Micro, once bool) error {
	resp, _, err := p.Do(ctx, &client.Request{Name: name, SimilarKey: "a model", Size: size, Once: once}, func(header, value string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		if header != "" {
			req.Header.Set(header, value)
		}
		return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// TestAKnownPriceIsForLikeRequests: the price of a larger request is asked for, since the cached one is too low, and that of one below four fifths, since it is
// too high.
func TestAKnownPriceIsForLikeRequests(t *testing.T) {
	p, s := newPayer(t), serve(t, &server{})
	p.Quotes = client.NewQuotes()
	for i, row := range []struct {
		size   policy.Micro
		unpaid int // requests without a payment so far
	}{{1000, 1}, {1000, 1}, {800, 1}, {799, 2}, {799, 2}, {800, 3}, {1000, 4}} {
		if err := p.getSimilar(t.Context(), string(rune('a'+i)), s.URL, row.size, true); err != nil {
			t.Fatal(err)
		}
		if s.unpaid != row.unpaid {
			t.Errorf("size %s: %d prices were asked for, want %d", row.size, s.unpaid, row.unpaid)
		}
	}
}

// TestPitfall13WhatIsSentOnceIsNotSentAgain with an open authorization.
func TestPitfall13WhatIsSentOnceIsNotSentAgain(t *testing.T) {
	p, s := newPayer(t), serve(t, &server{then: func(w http.ResponseWriter, _ *pay.Payment) { w.WriteHeader(http.StatusBadGateway) }})
	if err := p.getSimilar(t.Context(), "a", s.URL, 0, true); err != nil {
		t.Fatal(err)
	}
	err := p.getSimilar(t.Context(), "a", s.URL, 0, true)
	if _, ok := errors.AsType[*outgoing.UnresolvedError](err); !ok {
		t.Errorf("%v", err)
	}
	if authorizations, times := s.received(); authorizations != 1 || times != 1 {
		t.Errorf("%d authorizations were sent %d times", authorizations, times)
	}
	if err := p.getSimilar(t.Context(), "a", s.URL, 0, false); err != nil {
		t.Errorf("what may be sent again: %v", err)
	}
	if authorizations, times := s.received(); authorizations != 1 || times != 2 {
		t.Errorf("%d authorizations were sent %d times", authorizations, times)
	}
}
