package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/internal/rawjson"
)

// The account at Bankr, as its reference has it (docs.bankr.bot/llm-gateway/api-reference): the credit and the usage below the base URL of its models, and the
// purchase of credit at the root of the host that sells it, which is this one too.

// account is what is left, bought and used. The zero value has nothing.
type account struct {
	mu     sync.Mutex
	credit float64
	lost   bool // purchases are paid, and never credited
	bought []Purchase
	used   []Used
}

// Purchase is one purchase of credit.
type Purchase struct {
	Amount float64
	Token  string
}

// Used is the use of one model.
type Used struct {
	Model    string
	Requests int
	Cost     string // in dollars
}

// Credit sets what is left. lost makes purchases take money and bring no credit.
func (s *Server) Credit(usd float64, lost bool) {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.account.credit, s.account.lost = usd, lost
}

// Spend sets what the report of usage says.
func (s *Server) Spend(used ...Used) {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.account.used = used
}

// Bought are the purchases so far.
func (s *Server) Bought() []Purchase {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	return slices.Clone(s.account.bought)
}

// routeAccount answers for the account; ok is false for other paths.
func (s *Server) routeAccount(path string, r *Request) (o outcome, ok bool) {
	if s.cfg.Vendor != Bankr {
		return outcome{}, false
	}
	switch {
	case path == "/credits" && r.Method == http.MethodGet:
		return outcome{fixed: s.account.credits()}, true
	case path == "/usage" && r.Method == http.MethodGet:
		return s.account.usage(r), true
	case r.Path == "/llm/credits/buy" && r.Method == http.MethodPost:
		return s.account.buy(r), true
	}
	return outcome{}, false
}

func (a *account) credits() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Appendf(nil, `{"object":"credit_balance","balanceUsd":%v,"effectiveBalanceUsd":%[1]v,"undeductedCostUsd":0,"exceeded":false}`, a.credit)
}

func (a *account) usage(r *Request) outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	days, err := strconv.Atoi(strings.TrimPrefix(r.RawQuery, "days="))
	if err != nil || days < 1 || days > 90 {
		return outcome{refused: &refusal{Status: http.StatusBadRequest, Kind: "invalid_request_error", Message: "days must be between 1 and 90"}}
	}
	rows, total := make([]string, len(a.used)), 0
	for i, u := range a.used {
		total += u.Requests
		rows[i] = fmt.Sprintf(`{"model":%s,"provider":"vertex-ai","requests":%d,"totalInputTokens":0,"totalOutputTokens":0,"totalTokens":0,"totalCost":%s}`, quote(u.Model), u.Requests, u.Cost)
	}
	now := time.Now().UTC()
	return outcome{fixed: fmt.Appendf(nil, `{"object":"usage_summary","days":%d,"startDate":%q,"endDate":%q,"totals":{"totalRequests":%d},"byModel":[%s]}`,
		days, now.AddDate(0, 0, -days).Format(time.RFC3339Nano), now.Format(time.RFC3339Nano), total, strings.Join(rows, ","))}
}

func (a *account) buy(r *Request) outcome {
	wrong := func(why string) outcome {
		return outcome{refused: &refusal{Status: http.StatusBadRequest, Kind: "invalid_request_error", Message: why}}
	}
	o, err := rawjson.Parse(r.Body)
	if err != nil {
		return wrong(err.Error())
	}
	var p Purchase
	if json.Unmarshal(o["amount"], &p.Amount) != nil || p.Amount < 1 || p.Amount > 1000 {
		return wrong("amount must be between 1 and 1000")
	}
	if json.Unmarshal(o["token"], &p.Token) != nil || p.Token == "" || len(o) != 2 {
		return wrong("token is required")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bought = append(a.bought, p)
	if !a.lost {
		a.credit += p.Amount
	}
	return outcome{fixed: fmt.Appendf(nil, `{"success":true,"creditsAdded":%v}`, p.Amount)}
}
