package extproc

import (
	"net/http"
	"net/netip"
	"testing"

	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/quota"
)

// payments accepts payments, and gets none.
type payments struct{ meter.Payments }

// TestX05ALinkWithoutAKeyIsLimitedPerAddress: each address has the rate of a key's lookups, whatever its headers say of it. A key's requests are not those of its
// address.
func TestX05ALinkWithoutAKeyIsLimitedPerAddress(t *testing.T) {
	limiter := quota.New(quota.Options{Rules: quota.Rules{PrepaidRPM: 1}}) // ten lookups
	gw := &Gateway{Deps: Deps{Payments: payments{}, Limiter: limiter}, meter: meter.New(limiter, nil, nil)}
	link := func(from string, h ...header.Field) (counted bool, err error) {
		x := &exchange{View: request.View{Config: &runtime.Config{}}, gw: gw}
		x.report.View, x.report.Bill, x.funds.Report = &x.View, &x.bill, &x.report
		x.bill.Open(gw.meter, x, "r")
		x.Head = stream.Head{Method: http.MethodPost, Path: "/v1/identity/link", Peer: netip.MustParseAddr(from), Header: h}
		e, err := endpoint.Find(&x.Head)
		if err != nil {
			t.Fatal(err)
		}
		if counted, err = x.identifyPayer(&e); err != nil || !counted {
			return counted, err
		}
		return true, x.limit(t.Context(), &e)
	}
	for _, addresses := range [][2]string{{"203.0.113.7", "203.0.113.7"}, {"2001:db8::1", "2001:db8::ffff"}, {"127.0.0.1", "127.0.0.1"}} {
		for range 10 {
			if _, err := link(addresses[0]); err != nil {
				t.Fatalf("%s: %v", addresses[0], err)
			}
		}
		for _, h := range []header.Field{{}, {Name: "x-forwarded-for", Value: "203.0.113.99"}, {Name: "x-bardo-wallet", Value: "0x00000000000000000000000000000000000000aa"}, {Name: "user-agent", Value: "other"}} {
			counted, err := link(addresses[1], h)
			if f := fault.From(err); !counted || err == nil || f.Kind != fault.RateLimited || f.RetryAfter <= 0 {
				t.Errorf("%s with %s: counted %v, %v", addresses[1], h.Name, counted, err)
			}
		}
	}
	if _, err := link("203.0.113.8"); err != nil {
		t.Errorf("another address: %v", err)
	}
	if counted, err := link("203.0.113.7", header.Field{Name: "authorization", Value: "Bearer bardo_sk_x"}); counted || err != nil {
		t.Errorf("a key's request is its address's: %v, %v", counted, err)
	}
}

// TestAnExplanationIsNotPaidFor: it needs a key, and a payment header is ignored.
func TestAnExplanationIsNotPaidFor(t *testing.T) {
	x := &exchange{View: request.View{Config: &runtime.Config{}}, gw: &Gateway{Deps: Deps{Payments: payments{}}}} // which panic when they are called
	x.Head = stream.Head{Method: http.MethodPost, Path: "/v1/chat/completions", Header: header.List{{Name: dryrun.Header, Value: "explain"}, {Name: "x-payment", Value: "e30="}}}
	e, err := endpoint.Find(&x.Head)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := x.identifyPayer(&e); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}
