package funds

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// Two candidates: an answer of ten tokens costs 100 at the first, 300 at the second, and nothing at the third.
var (
	first  = candidate("first", 10)
	second = candidate("second", 30)
	free   = candidate("free", 0)
)

func candidate(name string, output policy.Price) policy.Resolution {
	return policy.Resolution{Provider: policy.ProviderID(name), Model: policy.ModelID(name), Prices: policy.Prices{Output: output * 1_000_000, Known: true}}
}

// lab is a gateway's money: a ledger with one prepaid key.
type lab struct {
	*testing.T

	ledger *ledger.Ledger
	meter  *meter.Meter
}

func newLab(t *testing.T, balance policy.Micro) *lab {
	t.Helper()
	dir := t.TempDir()
	l, err := ledger.Open(t.Context(), filepath.Join(dir, "ledger.db"), ledger.Options{Gateway: true, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.CreateKey(t.Context(), ledger.KeyRow{ID: "ada", Prepaid: true}, balance); err != nil {
		t.Fatal(err)
	}
	return &lab{t, l, meter.New(quota.New(quota.Options{}), l, budget.NewMeter(budget.Options{}))}
}

// request returns a request of the key for an answer of ten tokens, admitted.
func (l *lab) request(id string, candidates ...policy.Resolution) *Funds {
	l.Helper()
	return l.limited(0, id, candidates...)
}

// limited is request for a key with a limit of spending per day.
func (l *lab) limited(day policy.Micro, id string, candidates ...policy.Resolution) *Funds {
	l.Helper()
	v := &request.View{Config: &runtime.Config{ReserveOutput: 10}, Started: time.Now()}
	v.ID, v.Principal = id, policy.Principal{Account: "ada", Prepaid: true, Limits: policy.Limits{SpendPerDay: day}}
	v.Request = &chat.Request{Op: chat.Generate, Choices: 1, MaxTokens: 10}
	v.Found, v.Order = candidates, candidates
	r := &review.Review{View: v}
	f := &Funds{Report: &report.Report{View: v, Review: r, Bill: &meter.Bill{}, Trace: &record.Trace{}}, Meter: l.meter, Ledger: l.ledger}
	f.Bill.Open(l.meter, bare{}, id)
	f.Bill.PaidBy(v.Principal, l.meter.PayerOf(&v.Principal), 0)
	if err := f.Bill.Admit(l.Context(), &quota.Request{}); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(f.Bill.Release)
	return f
}

// withBudget limits a request to an agent's budget for dreams.
func withBudget(f *Funds, limit policy.Micro) *Funds {
	f.Hints.Subsystem = "dream"
	f.Bill.Allowance = meter.Allowance{Part: budget.Dream, Limits: budget.Budgets{budget.Dream: limit}}
	return f
}

// bare is a request without terms of its own.
type bare struct{}

func (bare) Terms(*policy.Resolution) meter.Terms   { return meter.Terms{} }
func (bare) InputTokens() int64                     { return 0 }
func (bare) Subsystem() string                      { return "" }
func (bare) MaxCallTokens(*policy.Resolution) int64 { return 1000 }

func (l *lab) wantHeld(balance, dreams policy.Micro) {
	l.Helper()
	_, held := l.ledger.Holds()
	use, err := l.meter.Budgets.Look(l.Context(), time.Now(), budget.Agent{Account: "ada"}, budget.Dream)
	if err != nil || held != balance || use.Held != dreams {
		l.Errorf("%d are held of the balance, want %d; %d of the budget, want %d; %v", held, balance, use.Held, dreams, err)
	}
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// TestASecondCallIsReservedBesideTheRequest, of the balance and of the agent's budget, or of neither.
func TestASecondCallIsReservedBesideTheRequest(t *testing.T) {
	for _, row := range []struct {
		about           string
		balance, budget policy.Micro
		day             policy.Micro // the key's limit
		ok              bool
	}{
		{"all suffice", 600, 600, 600, true},
		{"the balance does not", 599, 600, 600, false},
		{"the budget does not", 600, 599, 600, false},
		{"the key's limit does not", 600, 600, 599, false},
	} {
		t.Run(row.about, func(t *testing.T) {
			l := newLab(t, row.balance)
			f := withBudget(l.limited(row.day, "r", first, second), row.budget)
			l.must(f.affordAsked(t.Context()))
			l.wantHeld(300, 300)
			if got := f.HoldHedge(t.Context(), &first, &second); got != row.ok {
				t.Errorf("granted: %v", got)
			}
			if row.ok {
				l.wantHeld(600, 600)
			} else {
				l.wantHeld(300, 300)
			}
			f.Bill.Release()
			l.wantHeld(0, 0)
		})
	}
}

// TestK70RequestsWithSecondCallsShareABudget: what one of two requests holds, the other cannot have.
func TestK70RequestsWithSecondCallsShareABudget(t *testing.T) {
	l := newLab(t, policy.USD)
	a, b := withBudget(l.request("a", first), 350), withBudget(l.request("b", first), 350)
	l.must(a.affordAsked(t.Context()))
	l.must(b.affordAsked(t.Context()))
	if !a.HoldHedge(t.Context(), &first, &first) || b.HoldHedge(t.Context(), &first, &first) {
		t.Error("a budget for three calls is not held by three")
	}
	l.wantHeld(300, 300)
}

// TestALayersCallIsReservedWithItsRequest, of the balance and of the agent's budget; then the request's own reservation replaces that.
func TestALayersCallIsReservedWithItsRequest(t *testing.T) {
	l := newLab(t, 1000)
	f := withBudget(l.request("r", first), 400)
	call := policy.Micro(50).Pico()
	if !f.HoldSide(t.Context(), 0) {
		t.Error("a free call is refused")
	}
	l.wantHeld(0, 0)
	if !f.HoldSide(t.Context(), call) || f.ToReserve() != 150 || f.OwnKeysPay(f.Order) {
		t.Errorf("the call is refused, or %d are to be reserved", f.ToReserve())
	}
	l.wantHeld(150, 150)
	other := withBudget(l.request("other", first), 400)
	if other.HoldSide(t.Context(), policy.Micro(151).Pico()) {
		t.Error("another request gets what this one holds of the budget")
	}
	if !other.HoldSide(t.Context(), policy.Micro(150).Pico()) {
		t.Error("another request does not get the rest")
	}
	l.wantHeld(400, 400)
	other.Bill.Release()
	if f.HoldSide(t.Context(), policy.Micro(951).Pico()) {
		t.Error("more than the balance is granted")
	}
	l.must(f.affordAsked(t.Context()))
	l.wantHeld(150, 100)
}

// TestALayersCallKeepsToTheLimitOfItsKey: nothing is held for a call beyond it.
func TestALayersCallKeepsToTheLimitOfItsKey(t *testing.T) {
	l := newLab(t, 1000)
	f := l.limited(149, "r", first)
	if f.HoldSide(t.Context(), policy.Micro(50).Pico()) || f.sideHeld != 0 {
		t.Error("the call is granted")
	}
	l.wantHeld(0, 0)
	if over := l.limited(99, "over", first); fault.From(over.affordAsked(t.Context())).Kind == fault.Internal {
		t.Error("a request beyond the limit is not refused")
	}
	l.wantHeld(0, 0)
	l.must(f.affordAsked(t.Context()))
	l.wantHeld(100, 0)
}

// TestAUsersOwnKeyNeedsNoMoneyHere: a request that the caller pays at its provider holds nothing. If the caller could pay for other candidates only here,
// and cannot, they are removed.
func TestAUsersOwnKeyNeedsNoMoneyHere(t *testing.T) {
	l := newLab(t, 99)
	own := func(id string, candidates ...policy.Resolution) *Funds {
		f := l.request(id, candidates...)
		f.OwnKey = request.OwnKey{Provider: "second", Key: secret.New("sk")}
		return f
	}
	alone := own("alone", second)
	l.must(alone.affordAsked(t.Context()))
	l.wantHeld(0, 0)
	both := own("both", second, first)
	l.must(both.affordAsked(t.Context()))
	if l.wantHeld(0, 0); len(both.Order) != 1 || both.Order[0].Provider != "second" {
		t.Errorf("%v", both.Order)
	}
	after := own("after", first, second)
	if err := after.affordAsked(t.Context()); fault.From(err).Kind != fault.InsufficientFunds || len(after.Order) != 2 {
		t.Errorf("%v, %v", err, after.Order)
	}
	layered := own("layered", second)
	if layered.sideHeld = 40; layered.OwnKeysPay(layered.Order) {
		t.Error("a layer's call is paid by the caller's key")
	}
	verified := own("verified", second)
	if verified.Review.Verification = (&review.Verification{Verifier: first}); verified.OwnKeysPay(verified.Order) {
		t.Error("the verifier is paid by the caller's key")
	}
	if own("none").OwnKeysPay(nil) {
		t.Error("the caller pays a request without a candidate")
	}
}

// TestAVerifiedAnswerIsNotFree, even if its model is.
func TestAVerifiedAnswerIsNotFree(t *testing.T) {
	f := newLab(t, 1000).request("r", free)
	if f.Review.Verification = (&review.Verification{Verifier: first}); f.onlyFree() {
		t.Error("it is served while nothing can be charged")
	}
}

// TestAReservedAnswerHasTheLengthThatIsReserved.
func TestAReservedAnswerHasTheLengthThatIsReserved(t *testing.T) {
	l := newLab(t, 1000)
	f := l.request("r", first)
	f.Request.MaxTokens = 0
	f.Request.Profile = &chat.Profile{Subsystem: "dream"}
	l.must(f.affordAsked(t.Context()))
	if p := f.Request.Profile; p.MaxTokens != 10 || p.Subsystem != "dream" {
		t.Errorf("%+v", p)
	}
	l.wantHeld(100, 0)
}

// TestOnlyMoneyFaultsLeadToCheaperModels: other faults are the client's answer.
func TestOnlyMoneyFaultsLeadToCheaperModels(t *testing.T) {
	for _, kind := range moneyFaults {
		if !isMoneyFault(fault.Newf(kind, "refused")) {
			t.Errorf("%v is no money fault", kind)
		}
	}
	if isMoneyFault(nil) || isMoneyFault(fault.Newf(fault.RateLimited, "refused")) || isMoneyFault(context.Canceled) {
		t.Error("another error is a money fault")
	}
}

// TestWhileNothingCanBePaidOnlyFreeModelsServe, if the first one is free.
func TestWhileNothingCanBePaidOnlyFreeModelsServe(t *testing.T) {
	l := newLab(t, 1000)
	if f := l.request("paid", first, free); f.onlyFree() || len(f.Order) != 2 {
		t.Errorf("%v", f.Order)
	}
	if f := l.request("free", free, first); !f.onlyFree() || len(f.Order) != 1 || f.Order[0].Provider != "free" {
		t.Errorf("%v", f.Order)
	}
}

// TestASpentBudgetLeavesTheFreeModels, and they hold nothing of the balance; without one the request is refused.
func TestASpentBudgetLeavesTheFreeModels(t *testing.T) {
	l := newLab(t, 1000)
	f := withBudget(l.request("free", free, first), 0)
	l.must(f.affordAsked(t.Context()))
	if len(f.Order) != 1 || f.Order[0].Provider != "free" {
		t.Errorf("%v", f.Order)
	}
	l.wantHeld(0, 0)
	paid := withBudget(l.request("paid", first, free), 0)
	if err := paid.affordAsked(t.Context()); fault.From(err).Kind != fault.BudgetExceeded || paid.Bill.Allowance.Degraded == "" {
		t.Errorf("%v", err)
	}
}

// TestAPrepaidAnswerIsAsLongAsItsReservation, unless it has a limit of its own or costs nothing.
func TestAPrepaidAnswerIsAsLongAsItsReservation(t *testing.T) {
	l := newLab(t, 1000)
	for _, row := range []struct {
		about   string
		change  func(f *Funds)
		limited bool
	}{
		{"without a limit", func(*Funds) {}, true},
		{"with the client's", func(f *Funds) { f.Request.MaxTokens = 5 }, false},
		{"with the profile's", func(f *Funds) { f.Request.Profile = &chat.Profile{MaxTokens: 5} }, false},
		{"with a profile that has none", func(f *Funds) { f.Request.Profile = &chat.Profile{} }, true},
		{"a key that is billed later", func(f *Funds) { f.Principal.Prepaid = false }, false},
		{"embeddings", func(f *Funds) { f.Request.Op = chat.Embed }, false},
		{"a free model", func(f *Funds) { f.Order = []policy.Resolution{free} }, false},
		{"one of two is not limited", func(f *Funds) { f.Order = []policy.Resolution{free, first} }, true},
	} {
		f := l.request(row.about, first)
		f.Request.MaxTokens = 0
		row.change(f)
		before := f.Request.Profile
		f.LimitOutput()
		p := f.Request.Profile
		if limited := p != nil && p.MaxTokens == 10; limited != row.limited || limited != (len(f.Request.Dropped) == 1) || limited && before != nil && before.MaxTokens != 0 {
			t.Errorf("%s: %+v, %v", row.about, p, f.Request.Dropped)
		}
	}
}

// TestOnlyABalanceIsExemptForCriticalRequests: a publishable key is in everyone's hands, and a key without a balance has no bound but its budgets.
func TestOnlyABalanceIsExemptForCriticalRequests(t *testing.T) {
	l := newLab(t, 1000)
	f := l.request("r", first)
	if !f.isExempt("risk") || f.isExempt("dream") {
		t.Error("risk is not exempt, or dreams are")
	}
	f.Principal.Publishable = true
	if f.isExempt("risk") {
		t.Error("a publishable key is exempt")
	}
	f.Principal.Publishable, f.Principal.Prepaid = false, false
	if f.isExempt("risk") {
		t.Error("a key without a balance is exempt")
	}
}

// TestWhatAPublishableKeyMayDo: it generates, and reads models and its balance; a bound key reaches nothing that is stored.
func TestWhatAPublishableKeyMayDo(t *testing.T) {
	l := newLab(t, 1000)
	for _, row := range []struct {
		about string
		who   policy.Principal
		e     endpoint.Endpoint
		head  header.List
		ok    bool
	}{
		{"generation", policy.Principal{Publishable: true}, endpoint.Endpoint{}, nil, true},
		{"a deferred one", policy.Principal{Publishable: true}, endpoint.Endpoint{}, header.List{{Name: "x-bardo-defer", Value: "true"}}, false},
		{"stored", policy.Principal{Publishable: true}, endpoint.Endpoint{Stored: true}, nil, false},
		{"MCP", policy.Principal{Publishable: true}, endpoint.Endpoint{MCP: true}, nil, false},
		{"stored, of a key bound to a model", policy.Principal{Scope: policy.Scope{Models: []string{"m"}}}, endpoint.Endpoint{Stored: true}, nil, false},
		{"stored, of a key bound to a subsystem", policy.Principal{Scope: policy.Scope{Subsystems: []string{"dream"}}}, endpoint.Endpoint{Stored: true}, nil, false},
		{"stored, of another key", policy.Principal{}, endpoint.Endpoint{Stored: true}, nil, true},
		{"generation by the key of a session", policy.Principal{Session: "s"}, endpoint.Endpoint{}, nil, true},
		{"stored, by the key of a session", policy.Principal{Session: "s"}, endpoint.Endpoint{Stored: true}, nil, false},
		{"MCP by the key of a session", policy.Principal{Session: "s"}, endpoint.Endpoint{MCP: true}, nil, false},
	} {
		f := l.request(row.about, first)
		f.Principal, f.Head.Header = row.who, row.head
		if err := f.CheckSessionKey(&row.e); (err == nil) != row.ok || err != nil && fault.From(err).Kind != fault.KeyRestricted {
			t.Errorf("%s: %v", row.about, err)
		}
	}
}
