package wallet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/credit"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/xds/state"
)

// callTime bounds one call.
const callTimeout = 30 * time.Second

// check reads the credit, and acts on it by the rules.
func (m *Monitor) check(ctx context.Context, b *config.Bankr) error {
	doc, err := m.read(ctx, "/credits")
	if err != nil {
		return err
	}
	balance, err := credit.ParseBalance(doc)
	if err != nil {
		return err
	}
	spent, err := m.ledgerCost(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	c := &Check{At: now.UTC(), Credit: balance, Action: rules(b).Decide(now, balance, m.state.Bought), LedgerCost: spent}
	eventCheck.Emit(m.o.Events, "", creditCheck{balance, b.TopupThreshold, c.Action})
	m.apply(c)
	if err := m.save(); err != nil {
		return err
	}
	switch c.Action {
	case credit.TopUp:
		return m.buy(ctx, b, c)
	case credit.Warn, credit.Limited:
		m.o.Log.Warn("little credit is left at Bankr", "credit_usd", balance.String(), "threshold_usd", b.TopupThreshold.String(), "action", string(c.Action),
			"bought_today_usd", m.state.Bought.On(now).Amount.String())
	case credit.None, credit.Wait:
	}
	return nil
}

// The events of the account.
var (
	eventCheck   = event.Declare[creditCheck]("bankr:credit_check", "The credit at Bankr was read.")
	eventTopup   = event.Declare[topup]("bankr:topup", "Credit was bought.")
	eventDiffers = event.Declare[credit.Comparison]("bankr:usage_differs", "Bankr's report of usage differs from the ledger.")
)

// EventTopupFailed is the event of a purchase of credit that failed.
var EventTopupFailed = event.Declare[TopupFailed]("bankr:topup_failed", "A purchase of credit was refused, or its outcome is not known.")

// creditCheck is the event of a read of the credit.
type creditCheck struct {
	Balance   policy.Micro  `json:"balance"`
	Threshold policy.Micro  `json:"threshold"`
	Action    credit.Action `json:"action"`
}

func rules(b *config.Bankr) credit.Rules {
	return credit.Rules{Auto: b.Buys(), Threshold: b.TopupThreshold, Amount: b.TopupAmount, PerDay: b.TopupDaily}
}

// apply puts a check in force.
func (m *Monitor) apply(c *Check) {
	before := m.live.Swap(c)
	m.state.Check = c
	if before == nil || before.Credit != c.Credit || before.LedgerCost != c.LedgerCost {
		select {
		case m.o.Changed <- struct{}{}:
		default: // a signal is already pending
		}
	}
}

func (m *Monitor) save() error {
	if err := m.o.Home.WriteFile(File, m.state); err != nil {
		return fmt.Errorf("nothing is bought while %s cannot be written: %w", File, err)
	}
	return nil
}

// read reads a document of the account.
func (m *Monitor) read(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.o.Prober().Document(ctx, config.KindBankr, path, credit.MaxDocument)
}

// ledgerCost is the total cost at Bankr in the ledger.
func (m *Monitor) ledgerCost(ctx context.Context) (policy.Micro, error) {
	rows, err := m.o.Ledger.Usage(ctx, ledger.Filter{}, ledger.ByProvider)
	if err != nil {
		return 0, err
	}
	for i := range rows {
		if rows[i].Name == config.KindBankr {
			return rows[i].ProviderCost.Charge(0), nil
		}
	}
	return 0, nil
}

// buy buys credit. The purchase is saved before it is sent, so that it counts for the day whatever happens, unless it is known to be refused.
func (m *Monitor) buy(ctx context.Context, b *config.Bankr, c *Check) error {
	now := time.Now()
	m.state.Bought = m.state.Bought.With(now, b.TopupAmount)
	if err := m.save(); err != nil {
		return err
	}
	refused, err := m.sendOrder(ctx, b)
	if refused {
		m.state.Bought = m.state.Bought.Without(now, b.TopupAmount)
	}
	if err != nil {
		outcome := "unknown"
		if refused {
			outcome = "refused"
		}
		m.count(outcome)
		EventTopupFailed.Emit(m.o.Events, "", TopupFailed{b.TopupAmount, b.TopupToken, outcome})
		return errors.Join(fmt.Errorf("a purchase of credit for %s USD (%s): %w", b.TopupAmount, outcome, err), m.save())
	}
	m.count("bought")
	m.o.Log.Info("bought credit at Bankr", "amount_usd", b.TopupAmount.String(), "token", b.TopupToken)
	eventTopup.Emit(m.o.Events, "", topup{b.TopupAmount, b.TopupToken, c.Credit.Plus(b.TopupAmount)})
	return nil
}

// topup is the event of a purchase.
type topup struct {
	Amount     policy.Micro `json:"amount"`
	Token      string       `json:"token"`
	NewBalance policy.Micro `json:"new_balance"`
}

// TopupFailed is the event of a purchase that was refused, or whose outcome is unknown.
type TopupFailed struct {
	Amount  policy.Micro `json:"amount"`
	Token   string       `json:"token"`
	Outcome string       `json:"outcome"` // refused or unknown
}

func (m *Monitor) count(outcome string) {
	n, _ := m.purchases.LoadOrStore(outcome, new(atomic.Int64))
	n.(*atomic.Int64).Add(1) //nolint:forcetypeassert // it holds nothing else
}

// sendOrder sends a purchase. refused reports that it was certainly not made.
func (m *Monitor) sendOrder(ctx context.Context, b *config.Bankr) (refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://egress"+b.AccountEndpoint.Path+"/llm/credits/buy", bytes.NewReader(credit.Order(b.TopupAmount, b.TopupToken)))
	if err != nil {
		return true, err
	}
	req.Host = b.AccountEndpoint.Host
	req.GetBody = nil // never sent twice
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", b.Key().Reveal())
	req.Header.Set(state.HeaderCluster, state.Cluster(settings.BankrCluster(b).ID))
	req.Header.Set(state.HeaderExchange, m.o.Secret()+".bankr")
	resp, err := m.o.Egress.Do(req) //nolint:bodyclose // CloseBody does it
	if err != nil {
		return false, errors.New("no answer")
	}
	defer upstream.CloseBody(resp)
	switch {
	case resp.Header.Get(state.HeaderFailure) != "":
		return false, fmt.Errorf("no answer: %s", resp.Header.Get(state.HeaderFailure))
	case resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices:
		return false, nil
	case resp.StatusCode >= http.StatusBadRequest && resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusRequestTimeout:
		return true, fmt.Errorf("it was answered with status %d", resp.StatusCode)
	}
	return false, fmt.Errorf("it was answered with status %d", resp.StatusCode)
}

// compare compares Bankr's usage report with the ledger.
func (m *Monitor) compare(ctx context.Context, b *config.Bankr) error {
	doc, err := m.read(ctx, fmt.Sprintf("/usage?days=%d", b.UsageDays))
	if err != nil {
		return err
	}
	reported, err := credit.ParseUsage(doc)
	if err != nil {
		return err
	}
	rows, err := m.o.Ledger.AtProvider(ctx, config.KindBankr, reported.From, reported.To)
	if err != nil {
		return err
	}
	recorded := make([]credit.Line, 0, len(rows))
	for i := range rows {
		recorded = append(recorded, credit.Line{Model: rows[i].Name, Requests: rows[i].Requests, Cost: rows[i].ProviderCost})
	}
	before, c := m.state.Usage, credit.Compare(recorded, reported)
	m.state.Usage = &c
	if c.Differs() && (before == nil || !before.Differs()) {
		m.o.Log.Warn("Bankr's report of usage differs from the ledger", "cost_usd", c.Cost.String(), "their_cost_usd", c.Their.String())
		eventDiffers.Emit(m.o.Events, "", c)
	}
	return m.save()
}
