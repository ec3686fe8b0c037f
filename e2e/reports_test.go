package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// usageKeys are three keys, two of one project, whose agents have sent a few requests.
type usageKeys struct {
	*gateway.Gateway

	one, two, other string            // keys
	cost            map[string]int64  // of each key's requests
	requests        map[string]string // the key of each request
}

func startUsageKeys(t *testing.T) *usageKeys {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 10}})
	s := &usageKeys{cost: map[string]int64{}, requests: map[string]string{}}
	s.Gateway = gateway.Run(t, gateway.Options{Config: "limits: {rpm: 0}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{
		{ID: "m", Price: "{input: 3, output: 15}"}, {ID: "n", Price: "{input: 30, output: 150}"},
	}}}})
	s.Bardo(t, "owners", "create", "acme")
	s.Bardo(t, "projects", "create", "web", "--owner", "acme")
	s.one = s.CreateKey(t, "--name", "one", "--project", "web", "--balance-usd", "5").Key
	s.two = s.CreateKey(t, "--name", "two", "--project", "web").Key
	s.other = s.CreateKey(t, "--name", "other", "--balance-usd", "5").Key
	for i, key := range []string{s.one, s.one, s.one, s.two, s.other} {
		c := ask{dialect: fake.OpenAI, model: []string{"m", "n"}[i%2], say: fmt.Sprint("question ", i)}.call()
		c.Key = key
		c.Header = append(c.Header, fmt.Sprint("X-Bardo-Golem-Id: golem-", i%2), "X-Bardo-Subsystem: risk")
		got := s.Do(t, c)
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		id := got.Header.Get("X-Request-Id")
		s.cost[key] += micro(t, billOf(t, s.Gateway, key, id).Cost)
		s.requests[id] = key
	}
	return s
}

// usageReportRow is a row of usage by golem and model, or by one of them.
type usageReportRow struct {
	Name, Golem, Model, Key, Project string

	Requests int
	Cost     json.Number `json:"cost_usd"`
	Full     json.Number `json:"full_price_usd"`
}

type usageReport struct {
	By   string
	Data []usageReportRow
	Next *int `json:"next_offset"`
}

func (r *usageReport) cost(t *testing.T) (sum int64) {
	t.Helper()
	for _, row := range r.Data {
		sum += micro(t, row.Cost)
	}
	return sum
}

// TestAKeySeesItsOwnUsage: in each report what its own requests cost and no more, whatever it is summed by, in JSON and CSV, in pages.
func TestAKeySeesItsOwnUsage(t *testing.T) {
	t.Parallel()
	s := startUsageKeys(t)
	for _, by := range []string{"key", "project", "golem", "subsystem", "model", "provider", "day", "golem,model", "key,day", "project,golem,model"} {
		var r usageReport
		get(t, s.Gateway, s.one, "/v1/usage?by="+by, &r)
		if r.By != by || r.cost(t) != s.cost[s.one] || r.cost(t) == 0 || r.Next != nil {
			t.Errorf("by %s: %+v, want %d", by, r, s.cost[s.one])
		}
		for _, row := range r.Data {
			if row.Project != "" && row.Project != "web" || row.Cost != row.Full {
				t.Errorf("by %s: %+v", by, row)
			}
		}
	}
	var r usageReport
	get(t, s.Gateway, s.one, "/v1/usage?by=golem,model", &r)
	if len(r.Data) != 2 || r.Data[0].Golem != "golem-1" || r.Data[0].Model != "n" || r.Data[1].Golem != "golem-0" || r.Data[1].Requests != 2 {
		t.Errorf("%+v", r)
	}
	get(t, s.Gateway, s.one, "/v1/usage?by=model&golem=golem-0", &r)
	if len(r.Data) != 1 || r.Data[0].Name != "m" || r.Data[0].Requests != 2 {
		t.Errorf("%+v", r)
	}
	s.checkPages(t)
	s.checkCSV(t)
	for _, bad := range []string{"by=moon", "by=day,day", "by=day,key,golem,model", "format=xml", "limit=0", "limit=10001", "offset=-1", "since=yesterday"} {
		if got := s.Do(t, gateway.Call{Path: "/v1/usage?" + bad, Key: s.one}); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, got.Status, got.Body)
		}
	}
	s.AssertSound(t)
}

// checkPages reads a report row by row.
func (s *usageKeys) checkPages(t *testing.T) {
	t.Helper()
	var all []string
	for offset := 0; ; {
		var page usageReport
		get(t, s.Gateway, s.one, fmt.Sprintf("/v1/usage?by=model&limit=1&offset=%d", offset), &page)
		for _, row := range page.Data {
			all = append(all, row.Name)
		}
		if page.Next == nil || len(all) > 5 {
			break
		}
		offset = *page.Next
	}
	if strings.Join(all, " ") != "n m" {
		t.Errorf("pages of %v", all)
	}
}

// checkCSV reads a report as CSV, asked for in each of two ways.
func (s *usageKeys) checkCSV(t *testing.T) {
	t.Helper()
	for _, c := range []gateway.Call{
		{Path: "/v1/usage?by=golem,model&limit=1&format=csv"},
		{Path: "/v1/usage?by=golem,model&limit=1", Header: []string{"accept: text/csv"}},
	} {
		c.Key = s.one
		got := s.Do(t, c)
		rows, err := csv.NewReader(strings.NewReader(got.Body)).ReadAll()
		if err != nil || len(rows) != 2 || strings.Join(rows[0][:3], " ") != "golem model requests" || strings.Join(rows[1][:3], " ") != "golem-1 n 1" {
			t.Errorf("%v %v", rows, err)
		}
		if got.Header.Get("Content-Type") != "text/csv; charset=utf-8" || got.Header.Get("X-Bardo-Next-Offset") != "1" {
			t.Errorf("%v", got.Header)
		}
	}
}

// TestTheOperatorSeesAllUsage: by project and agent, and in exports, whose sums are those of the requests.
func TestTheOperatorSeesAllUsage(t *testing.T) {
	t.Parallel()
	s := startUsageKeys(t)
	var rows []usageReportRow
	if err := json.Unmarshal([]byte(s.Bardo(t, "usage", "--by", "project,golem", "--json")), &rows); err != nil {
		t.Fatal(err)
	}
	projects := map[string]int64{}
	for _, row := range rows {
		projects[row.Project] += micro(t, row.Cost)
	}
	web := s.cost[s.one] + s.cost[s.two]
	if projects["web"] != web || projects[""] != s.cost[s.other] || len(projects) != 2 {
		t.Errorf("%v, want %d and %d", projects, web, s.cost[s.other])
	}
	table, err := csv.NewReader(strings.NewReader(s.Bardo(t, "usage", "--by", "key", "--project", "web", "--csv"))).ReadAll()
	if err != nil || len(table) != 3 {
		t.Errorf("%v %v", table, err)
	}
	s.checkExports(t, web+s.cost[s.other])
	s.AssertSound(t)
}

// checkExports compares the exports with what all requests cost.
func (s *usageKeys) checkExports(t *testing.T, total int64) {
	t.Helper()
	table, err := csv.NewReader(strings.NewReader(s.Bardo(t, "export", "requests", "--since", "1"))).ReadAll()
	if err != nil || len(table) != len(s.requests)+1 {
		t.Fatalf("%v %v", table, err)
	}
	var sum, lines int64
	for _, row := range table[1:] {
		if s.requests[row[0]] == "" {
			t.Errorf("%v is none of the requests", row)
		}
		sum += micro(t, json.Number(row[15]))
	}
	for line := range strings.Lines(s.Bardo(t, "export", "requests", "--format", "json", "--records")) {
		var r struct {
			ID      string      `json:"request_id"`
			Charged json.Number `json:"charged_usd"`
			Record  struct {
				ID string `json:"request_id"`
			}
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.ID != r.Record.ID || s.requests[r.ID] == "" {
			t.Errorf("%s: %v", line, err)
		}
		lines += micro(t, r.Charged)
	}
	if table[0][15] != "charged_usd" || sum != total || lines != total {
		t.Errorf("%s: CSV %d, JSON %d, want %d", table[0][15], sum, lines, total)
	}
	// The bookings are there once the charges are applied.
	eventually(t, "the bookings", func() bool {
		revenue, balanced := s.bookings(t)
		return balanced && revenue == s.cost[s.one]+s.cost[s.other]
	})
}

// bookings are what the journal has as revenue, and whether it sums to zero.
func (s *usageKeys) bookings(t *testing.T) (revenue int64, balanced bool) {
	t.Helper()
	var all int64
	for line := range strings.Lines(s.Bardo(t, "export", "journal", "--format", "json")) {
		var p struct {
			Account string
			Amount  json.Number `json:"amount_usd"`
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		amount := savedMicro(t, p.Amount)
		if all += amount; p.Account == "operator:revenue" {
			revenue += amount
		}
	}
	return revenue, all == 0
}
