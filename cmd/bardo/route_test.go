package main

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

func candidate(p policy.ProviderID) policy.Resolution {
	return policy.Resolution{Provider: p, Model: "m", Upstream: "m", Why: "it lists the model"}
}

func TestADryRunFollowsHealth(t *testing.T) {
	found := resolve.Decision{Order: []policy.Resolution{candidate("a"), candidate("b"), candidate("c"), candidate("new")}}
	for _, row := range []struct {
		about                 string
		states                []providerState
		order, refused, error string
	}{
		{"without a gateway, the configured order", nil, "a b c new", "", ""},
		{
			"a provider that is down goes last, one that the gateway does not know behind it",
			[]providerState{{Provider: "a", State: "down", Order: 3}, {Provider: "b", Order: 1}, {Provider: "c", Order: 2}},
			"b c a new", "", "",
		},
		{
			"one that an operator disabled is not asked",
			[]providerState{{Provider: "a", Order: 1}, {Provider: "b", State: "disabled"}, {Provider: "c", Order: 2}},
			"a c new", "b: an operator disabled it", "",
		},
		{
			"all are disabled",
			[]providerState{{Provider: "a"}, {Provider: "b"}, {Provider: "c"}, {Provider: "new"}},
			"",
			"a: an operator disabled it; b: an operator disabled it; c: an operator disabled it; new: an operator disabled it",
			"no_provider: every provider of this model is disabled",
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			r := newRouteReport(found, row.states, routeAsk{Model: "m"}, 20)
			var order, refused []string
			for _, p := range r.Order {
				order = append(order, string(p.Provider))
			}
			for _, no := range r.Refused {
				refused = append(refused, string(no.Provider)+": "+no.Reason)
			}
			if got := strings.Join(order, " "); got != row.order {
				t.Errorf("order %q, want %q", got, row.order)
			}
			if got := strings.Join(refused, "; "); got != row.refused {
				t.Errorf("refused %q, want %q", got, row.refused)
			}
			if r.Error != row.error {
				t.Errorf("error %q, want %q", r.Error, row.error)
			}
		})
	}
}

func TestADryRunShowsNoPrivateCause(t *testing.T) {
	r := newRouteReport(resolve.Decision{Err: fault.New(fault.NoProvider, "nobody", errors.New("private"))}, nil, routeAsk{}, 0)
	if r.Error != "no_provider: nobody" {
		t.Errorf("got %q", r.Error)
	}
}

func TestADryRunsRequestSurvivesTheSocket(t *testing.T) {
	ask := routeAsk{Model: "a/b c&d", Require: []policy.Feature{policy.Tools, policy.Vision}, Prefer: []policy.Feature{policy.Privacy}, Input: 7, Output: 9}
	q, err := url.ParseQuery(ask.query().Encode())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := askOf(q); err != nil || !reflect.DeepEqual(got, ask) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "input=1&output=x", "input=1&output=1&require=nothing", "input=1&output=1&prefer=nothing"} {
		q, err := url.ParseQuery(bad)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := askOf(q); err == nil {
			t.Errorf("%q gives %+v", bad, got)
		}
	}
}
