package till

import (
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestANodeThatIsBehindIsNotTakenForTheEndOfAPayment: the transfer is mined in the last seconds of the authorization. The newest block is later than the
// expiry, and receipts and states lag some blocks: the payment is no loss. One that was never moved is a loss once every node has all blocks before the expiry,
// and not earlier.
func TestANodeThatIsBehindIsNotTakenForTheEndOfAPayment(t *testing.T) {
	for _, row := range []struct {
		name string
		at   func(s *shop, f *fakeSettler, p *Taken) // changes the payment's state a few seconds before the expiry
	}{
		{"sent", func(s *shop, _ *fakeSettler, _ *Taken) { s.Settler, s.chain.sends = nil, false }},
		{"sent, and mined without effect", func(s *shop, _ *fakeSettler, _ *Taken) { s.Settler, s.chain.fails = nil, true }},
		{"refused by the token", func(s *shop, _ *fakeSettler, _ *Taken) { s.Settler, s.chain.revert = nil, "paused" }},
		{"ordered", func(_ *shop, f *fakeSettler, _ *Taken) { f.settles, f.noHash = false, true }},
		{"ordered, and refused", func(_ *shop, f *fakeSettler, _ *Taken) {
			f.settles, f.settleErr = false, &pay.Refusal{Reason: "not_today"}
		}},
	} {
		for _, moved := range []bool{true, false} {
			t.Run(row.name, func(t *testing.T) {
				inBoth(t, func(t *testing.T, s *shop) {
					t.Helper()
					s.lag = maxLag
					f := &fakeSettler{chain: s.chain}
					s.Settler = f
					p := s.take(t, 1)
					s.serve(t, &p, 4000)
					row.at(s, f, &p)
					s.passAfter(t, 597*time.Second)
					s.chain.fails = false
					if moved {
						s.chain.mine(pay.Word{99}, pay.Word{1})
						s.chain.behind = 1
					}
					for range 4 { // up to 19 s after the expiry
						s.passAfter(t, 5*time.Second+500*time.Millisecond)
						got, err := s.Book.ByID(t.Context(), p.ID)
						if err != nil || got.Settlement != book.None && got.Settlement != book.Settling {
							t.Fatalf("%s after its start it is %s: %s, %v", s.at.Sub(time.Unix(1_800_000_000, 0)), got.Settlement, got.Reason, err)
						}
					}
					prepared, orders := s.chain.prepared, f.orders
					s.chain.behind = 0
					s.passAfter(t, 4*time.Second)
					s.passAfter(t, time.Second)
					s.wantSettlement(t, &p, map[bool]book.Settlement{true: book.Confirmed, false: book.Failed}[moved])
					s.passAfter(t, 4*time.Second)
					if lost := len(s.lost); (lost == 0) != moved || s.chain.prepared != prepared || f.orders != orders {
						t.Errorf("%d losses, %d transactions after %d, %d orders after %d", lost, s.chain.prepared, prepared, f.orders, orders)
					}
				})
			})
		}
	}
}
