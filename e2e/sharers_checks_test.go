package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// goroutines are those of each gateway.
func (w *sharedStores) goroutines() (n []float64) {
	for _, s := range w.gateways {
		n = append(n, s.now.Metrics(w).Sum("go_goroutines"))
	}
	return n
}

// check looks at everything once all is right again, and nobody asks any more.
func (w *sharedStores) check(before []float64) {
	w.Helper()
	took := time.Since(w.began)
	statuses, longest := map[int]int{}, time.Duration(0)
	for _, d := range w.deeds {
		statuses[d.status]++
		longest = max(longest, d.ended.Sub(d.began))
	}
	w.Logf("%s: lease %s, %d kills, %d deeds, answers %v, the longest took %s, %d flushes, deposits %v", took, w.lease, w.killed, len(w.deeds), statuses, longest, len(w.flushes), w.deposited)
	for _, s := range w.gateways {
		w.checkReady(s)
	}
	for what := range w.owed {
		eventually(w, "the deposit "+what, func() bool { return w.pay(w.gateways[0].now, what) })
	}
	w.checkShared()
	w.checkGrowth(before)
	if statuses[http.StatusOK] == 0 {
		w.Error("nothing was served")
	}
	w.checkAnswers()
	w.checkRate(took)
	w.checkConcurrency()
	if w.lease < time.Minute {
		w.checkSlots()
	}
	w.checkBooks(took)
}

// checkReady: a gateway says which stores are away, and that they are back.
func (w *sharedStores) checkReady(s *sharingGateway) {
	w.Helper()
	says := func(want bool) func() bool {
		return func() bool {
			w.control(s.now, gateway.Call{Path: "/v1/models", Key: w.keys["rate"].Key}) // it may have to notice
			w.control(s.now, forms[0].about("m", "Q-both-0").with(w.keys["tenant-a"].Key, fast))
			_, body := bodyOf(w.T, s.now.Admin+"/readyz?verbose")
			var r struct {
				Checks []struct {
					Name string
					OK   bool
				}
			}
			if err := json.Unmarshal([]byte(body), &r); err != nil {
				w.Fatalf("%v in %s", err, body)
			}
			n := 0
			for _, c := range r.Checks {
				if store := wayOf[c.Name]; s.ways[store] != nil && c.OK == want {
					n++
				}
			}
			return n == len(s.ways)
		}
	}
	eventually(w, "all stores are back", says(true))
	for _, way := range s.ways {
		way.set(severed, true)
	}
	eventually(w, "all stores are away", says(false))
	for _, way := range s.ways {
		way.set(sound, true)
	}
	eventually(w, "all stores are back again", says(true))
}

// wayOf names the way to the store of a check.
var wayOf = map[string]string{"shared limits": "limits", "shared cache": "cache", "ledger store": "ledger"}

// checkShared: gateways share answers and where conversations were served, as before.
func (w *sharedStores) checkShared() {
	w.Helper()
	last := w.gateways[len(w.gateways)-1].now
	first := w.gateways[0].now
	a := forms[0].about("m", "Q-both-afterwards")
	kept := keyed(w.T, first, a, w.keys["tenant-a"].Key)
	if kept != "miss" {
		w.Errorf("a new question is known as %q", kept)
	}
	shared(w.T, last, a, w.keys["tenant-a"].Key, "hash")
	if k := keyed(w.T, last, a, w.keys["tenant-b"].Key); k != "miss" {
		w.Errorf("another tenant's new question is known as %q", k)
	}
	c := talk{"m", lengthy("what is talked about afterwards"), false}
	w.one.QueueFor("m", fake.Behaviour{Status: http.StatusInternalServerError})
	if by := c.by(w.T, first, 1, w.keys["rich"].Key); by != "second" {
		w.Errorf("the conversation begins at %s", by)
	}
	eventually(w, "the provider that the other gateway knows", func() bool { return c.by(w.T, last, 2, w.keys["rich"].Key) == "second" })
}

// checkGrowth: what was opened for requests and for stores that were away is closed again.
func (w *sharedStores) checkGrowth(before []float64) {
	w.Helper()
	for i, s := range w.gateways {
		eventually(w, fmt.Sprintf("about %v goroutines", before[i]), func() bool {
			m := s.now.Metrics(w)
			return m.Sum("go_goroutines") < before[i]+60 && m.Sum("bardo_active_exchanges") == 0
		})
		for name, most := range map[string]int{"limits": 64, "cache": 128, "ledger": 12} { // a connection that was given up may be open a moment longer than its successor
			if way := s.ways[name]; way != nil {
				if now, ever := way.open(); ever > 3*most || now > most {
					w.Errorf("gateway %d has %d connections to %s, and had %d", i, now, name, ever)
				}
			}
		}
	}
}

// checkAnswers: nobody gets another tenant's answer, nor one that was whole before its flush began.
func (w *sharedStores) checkAnswers() {
	w.Helper()
	whose, known := map[string]string{}, map[string]time.Time{}
	slices.SortFunc(w.deeds, func(a, b *partDeed) int { return a.ended.Compare(b.ended) })
	for _, d := range w.deeds {
		if d.said == "" {
			continue
		}
		if who, ok := whose[d.said]; ok && (who != d.who || !strings.HasPrefix(who, "tenant")) {
			w.Errorf("%s got an answer of %s: %+v", d.who, who, d)
		}
		if whose[d.said] = d.who; known[d.said].IsZero() && d.whole {
			known[d.said] = d.ended
		}
		for _, f := range w.flushes {
			if f.who == d.who && d.began.After(f.ended) && !known[d.said].IsZero() && known[d.said].Before(f.began) {
				w.Errorf("what was flushed %s before came back: %+v", d.began.Sub(f.ended), d)
			}
		}
	}
}

// checkRate: as many requests of the key passed as its rate lets pass, and those of the parts of gateways that were alone.
func (w *sharedStores) checkRate(took time.Duration) {
	w.Helper()
	n := 0
	for _, d := range w.deeds {
		if d.who == "rate" && d.status == http.StatusOK {
			n++
		}
	}
	burst := partRate
	if w.away == "share" {
		burst += partRate / partOf * (len(w.gateways) + w.killed)
	}
	if most := int(float64(burst) * (1 + took.Minutes())); n > most {
		w.Errorf("%d requests of a rate of %d a minute passed in %s, want at most %d", n, partRate, took, most)
	}
}

// checkConcurrency: at no time did more of a key's requests wait for their provider than it may have. Those that took longer than the lease may have lost their place.
func (w *sharedStores) checkConcurrency() {
	w.Helper()
	if w.concurrent == 0 {
		return
	}
	short := map[string]bool{}
	for _, d := range w.deeds {
		short[d.say] = d.who == "concurrent" && d.whole && d.ended.Sub(d.began) < w.lease
	}
	var began []time.Time
	for _, p := range []*fake.Server{w.one, w.two} {
		for _, r := range p.Generations() {
			for say, ok := range short {
				if ok && strings.Contains(string(r.Body), say+`"`) {
					began = append(began, r.Time)
				}
			}
		}
	}
	slices.SortFunc(began, time.Time.Compare)
	most := w.concurrent
	if w.away == "share" {
		most += w.concurrent / partOf * len(w.gateways)
	}
	for i := range began {
		n := 0
		for _, other := range began[i:] {
			if other.Sub(began[i]) < partSlow {
				n++
			}
		}
		if n > most {
			w.Errorf("%d requests of a key were under way at a time, want at most %d", n, most)
			return
		}
	}
	w.Logf("%d of the concurrent requests were served", len(began))
}

// checkSlots: all places of a key are free, and it can take them at once.
func (w *sharedStores) checkSlots() {
	w.Helper()
	if w.concurrent == 0 {
		return
	}
	eventually(w, "all places are free", func() bool {
		var served atomic.Int64
		var all sync.WaitGroup
		for i := range w.concurrent {
			all.Go(func() {
				a := ask{dialect: fake.OpenAI, model: "slow", more: `"max_tokens":100`, say: fmt.Sprintf("Q-places-%d", i)}
				if w.gateways[i%len(w.gateways)].now.Do(w, a.with(w.keys["concurrent"].Key, "X-Bardo-No-Cache: true")).Status == http.StatusOK {
					served.Add(1)
				}
			})
		}
		all.Wait()
		return served.Load() == int64(w.concurrent)
	})
}

// checkBooks: the ledger is sound while the gateways run and after they ended, each answer is charged once, and the balances are what was deposited and not charged.
func (w *sharedStores) checkBooks(took time.Duration) {
	w.Helper()
	for _, s := range w.gateways {
		eventually(w, "the charges are written", func() bool { return s.now.Metrics(w)["bardo_ledger_unwritten_charges"] == 0 })
	}
	for _, s := range w.gateways {
		for _, who := range []string{"rich", "poor", "member-b"} {
			eventually(w, "nothing is held of "+who, func() bool { return fundsOf(w, s.now, w.keys[who].Key).Held == "0.000000" })
		}
	}
	w.gateways[0].now.AssertSound(w)
	var all sync.WaitGroup
	for _, s := range w.gateways {
		all.Go(func() {
			if err := s.now.Stop(); err != nil {
				w.Error(err)
			}
		})
	}
	all.Wait()
	w.gateways[0].now.AssertSound(w)
	db := w.open()
	defer func() { _ = db.Close() }()
	complete := map[string]struct{}{}
	for _, d := range w.deeds {
		if _, prepaid := w.deposited[w.keys[d.who].ID]; prepaid && d.whole {
			complete[d.request] = struct{}{}
		}
	}
	paid := checkCharges(w.T, db, complete)
	spent := w.checkRequests(db)
	for who, k := range w.keys {
		put, ok := w.deposited[k.ID]
		if !ok {
			continue
		}
		var has, held int64
		if err := db.QueryRowContext(w.Context(), `SELECT b.micro, b.held FROM balance b JOIN account a ON a.id = b.account WHERE a.name = '`+k.ID+`'`).Scan(&has, &held); err != nil {
			w.Fatal(err)
		}
		if has != put-spent[k.ID] || paid[k.ID] != spent[k.ID] || has < 0 || held != 0 {
			w.Errorf("%s has %d and %d of it held, of %d that were deposited and %d that it spent, of which %d were charged", who, has, held, put, spent[k.ID], paid[k.ID])
		}
	}
	w.checkBudgets(spent, took)
}

// checkRequests: what was answered is in the books, at the price of an answer; from what was stored, for nothing. It returns what each key spent.
func (w *sharedStores) checkRequests(db *sql.DB) (spent map[string]int64) {
	w.Helper()
	rows, err := db.QueryContext(w.Context(), `SELECT id, account, charged FROM request`)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	spent, charged := map[string]int64{}, map[string]int64{}
	for rows.Next() {
		var id, key string
		var amount int64
		if err := rows.Scan(&id, &key, &amount); err != nil {
			w.Fatal(err)
		}
		charged[id], spent[key] = amount, spent[key]+amount
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	for _, d := range w.deeds {
		if !d.whole {
			continue
		}
		want := int64(partCost)
		if d.cache != "" && d.cache != "miss" {
			want = 0
		}
		if got, ok := charged[d.request]; !ok || got != want {
			w.Errorf("%+v was charged %d (%v), want %d", *d, got, ok, want)
		}
	}
	return spent
}

// checkBudgets: no more was spent on the day than may be. What a gateway that is cut off holds is kept free as long as its lease.
func (w *sharedStores) checkBudgets(spent map[string]int64, took time.Duration) {
	w.Helper()
	if took > w.lease {
		return
	}
	most := int64(partDaily)
	if w.away == "share" {
		most += partDaily * int64(len(w.gateways)) / partOf
	}
	for what, n := range map[string]int64{"a key": spent[w.keys["daily"].ID], "a project": spent[w.keys["member-a"].ID] + spent[w.keys["member-b"].ID]} {
		if n > most {
			w.Errorf("%s spent %d on a day, want at most %d", what, n, most)
		}
	}
}

// open reads the ledger behind the gateways' back.
func (w *sharedStores) open() *sql.DB {
	w.Helper()
	if w.database != "" {
		return openPostgres(w.T, w.database)
	}
	db, err := sql.Open("sqlite3", "file:"+w.file+"?_busy_timeout=5000&_query_only=on")
	if err != nil {
		w.Fatal(err)
	}
	return db
}
