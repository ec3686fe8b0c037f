package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/seedtest"
)

// operatedKey is a prepaid key that an operator changes while requests use it.
type operatedKey struct {
	id, secret string
	deposited  int64 // millionths
}

// operation is an operator at work on a gateway that serves requests.
type operation struct {
	*operator
	g       *gateway.Gateway
	r       *rand.Rand
	options gateway.Options
	spare   gateway.Provider // is in some configurations
	made    int              // ids so far

	mu      sync.Mutex
	keys    []*operatedKey
	secrets []string    // all that there were
	seen    map[int]int // answers by their status
	over    atomic.Bool
}

// TestRandomOperationsWhileRequestsRun: an operator makes, changes, rotates and revokes keys, sets budgets, switches providers, and reloads other prices and
// providers, in a random order, while requests run. One provider serves all the time, so no request gets a 5xx or is cut; the money adds up, and the log has no
// secret. BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestRandomOperationsWhileRequestsRun(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(20) {
		for _, shape := range []string{"extproc", "module"} {
			t.Run(fmt.Sprintf("seed=%d/%s", seed, shape), func(t *testing.T) { operateAtRandom(t, shape, rand.New(rand.NewPCG(seed, 2))) })
		}
	}
}

func operateAtRandom(t *testing.T, shape string, r *rand.Rand) {
	t.Helper()
	w := &operation{r: r, seen: map[int]int{}}
	w.options = gateway.Options{Config: quick, DataPath: shape}
	for i, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.OpenAI} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: fmt.Sprintf("p%d", i)})
		p.Behave(fake.Behaviour{Tokens: 12, FirstToken: 5 * time.Millisecond, Gap: 4 * time.Millisecond})
		row := gateway.Provider{ID: fmt.Sprintf("p%d", i), Fake: p, Format: string(d), Models: w.prices()}
		if w.spare = row; i < 2 {
			w.options.Providers = append(w.options.Providers, row)
		}
	}
	w.g = gateway.Run(t, w.options)
	w.operator = operatorOf(t, w.g)
	for range 3 {
		w.createKey()
	}
	var clients sync.WaitGroup
	for i := range 6 {
		client := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		clients.Go(func() {
			for !w.over.Load() {
				w.request(client)
			}
		})
	}
	for range 100 {
		w.step()
	}
	w.over.Store(true)
	clients.Wait()
	w.check()
}

// prices are the models of a provider at random prices.
func (w *operation) prices() (ms []gateway.Model) {
	for _, id := range []string{"m", "n"} {
		ms = append(ms, gateway.Model{ID: id, Price: fmt.Sprintf("{input: %d, output: %d}", 1+w.r.IntN(9), 1+w.r.IntN(90))})
	}
	return ms
}

// request sends one with any key, and notes how it was answered.
func (w *operation) request(r *rand.Rand) {
	w.mu.Lock()
	secret := pick(r, w.keys...).secret
	w.mu.Unlock()
	a := ask{dialect: pick(r, fake.OpenAI, fake.Anthropic, fake.Gemini), model: pick(r, "m", "n"), stream: r.IntN(2) == 0, say: fmt.Sprintf("question %d", r.IntN(1e9))}
	got := w.g.Do(w.T, a.with(secret))
	w.mu.Lock()
	w.seen[got.Status]++
	w.mu.Unlock()
	end := map[fake.Dialect]string{fake.OpenAI: "[DONE]", fake.Anthropic: "message_stop", fake.Gemini: `"finishReason"`}[a.dialect]
	served := got.Status == http.StatusOK && got.Err == nil && (!a.stream || strings.Contains(got.Body, end)) && !strings.Contains(got.Body, `"error"`)
	if !served && !slices.Contains([]int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests}, got.Status) {
		w.Errorf("%+v: %d %v %s", a, got.Status, got.Err, got.Body)
	}
}

// step is one random action of the operator.
func (w *operation) step() {
	w.Helper()
	anyOf := func() *operatedKey { return pick(w.r, w.keys...) }
	limit := func() string { return pick(w.r, "null", "0.000001", "0.01", "1000") }
	switch w.r.IntN(13) {
	case 0, 1:
		w.createKey()
	case 2, 3:
		w.deposit(anyOf())
	case 4:
		w.rotate(anyOf())
	case 5:
		if w.r.IntN(2) == 0 {
			w.do(http.MethodPost, "/keys/"+anyOf().id+"/revoke", "", nil)
		}
	case 6:
		w.do(http.MethodPatch, "/keys/"+anyOf().id, pick(w.r, `{"rpm":`+pick(w.r, "0", "1", "600", "null")+`}`, `{"limit_usd_day":`+limit()+`}`, `{"models":`+pick(w.r, `["m"]`, "null", `["other-*"]`)+`}`,
			`{"limit_usd_month":`+limit()+`,"limit_usd_day":`+limit()+`}`, `{"policies":{"pii":`+pick(w.r, `"mask"`, "null")+`}}`), nil)
	case 7:
		w.made++
		w.do(http.MethodPost, "/owners", fmt.Sprintf(`{"id":"o%d","limit_usd_month":%s}`, w.made, limit()), nil)
		w.do(http.MethodPost, "/projects", fmt.Sprintf(`{"id":"g%d","owner":"o%d","limit_usd_day":%s}`, w.made, w.made, limit()), nil)
		w.do(http.MethodPatch, "/keys/"+anyOf().id, fmt.Sprintf(`{"project":"g%d"}`, w.made), nil)
	case 8:
		w.do(http.MethodPatch, "/keys/"+anyOf().id, `{"project":null}`, nil)
	case 9:
		w.do(http.MethodPost, "/providers/p1/"+pick(w.r, "enable", "disable"), "", nil)
	case 10:
		w.pause(pick(w.r, process(w.g.PID()), envoyOf(w.T, w.g)))
	default:
		w.reload()
	}
}

// pause stops a process for a while, as a busy machine does.
func (w *operation) pause(p process) {
	w.Helper()
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := syscall.Kill(int(p), s); err != nil {
			w.Fatal(err)
		}
		<-time.After(time.Duration(w.r.IntN(700)) * time.Millisecond)
	}
}

// do is a request that is right, but may meet a key that was revoked.
func (w *operation) do(method, path, body string, out any) bool {
	w.Helper()
	status, answer := w.call(method, path, body)
	if status != http.StatusOK && status != http.StatusCreated {
		if status != http.StatusConflict {
			w.Errorf("%s %s %s: %d %s", method, path, body, status, answer)
		}
		return false
	}
	if out != nil {
		if err := json.Unmarshal([]byte(answer), out); err != nil {
			w.Errorf("%s %s: %v", method, path, err)
		}
	}
	return true
}

func (w *operation) createKey() {
	w.Helper()
	w.made++
	balance := pick(w.r, int64(200), 50_000, 100_000_000)
	var k adminKey
	if w.do(http.MethodPost, "/keys", fmt.Sprintf(`{"name":"k%d","balance_usd":%s,"rpm":0}`, w.made, amountOf(balance)), &k) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.keys, w.secrets = append(w.keys, &operatedKey{k.ID, k.Key, balance}), append(w.secrets, k.Key)
	}
}

func (w *operation) deposit(k *operatedKey) {
	w.Helper()
	w.made++
	amount := int64(1 + w.r.IntN(1_000_000))
	body := fmt.Sprintf(`{"amount_usd":%s,"ref":"r%d"}`, amountOf(amount), w.made)
	if w.do(http.MethodPost, "/keys/"+k.id+"/deposits", body, nil) {
		k.deposited += amount
		w.do(http.MethodPost, "/keys/"+k.id+"/deposits", body, nil)
	}
}

func (w *operation) rotate(k *operatedKey) {
	w.Helper()
	var fresh adminKey
	if w.do(http.MethodPost, "/keys/"+k.id+"/rotate", pick(w.r, `{"overlap_seconds":0}`, `{"overlap_seconds":1}`, "{}"), &fresh) {
		w.mu.Lock()
		defer w.mu.Unlock()
		k.secret, w.secrets = fresh.Key, append(w.secrets, fresh.Key)
	}
}

// reload puts other prices, another order, and a provider more or less in force.
func (w *operation) reload() {
	w.Helper()
	o := w.options
	o.Providers = slices.Clone(o.Providers)
	if w.r.IntN(2) == 0 {
		o.Providers = append(o.Providers, w.spare)
	}
	w.r.Shuffle(len(o.Providers), func(i, j int) { o.Providers[i], o.Providers[j] = o.Providers[j], o.Providers[i] })
	for i := range o.Providers {
		o.Providers[i].Models = w.prices()
	}
	o.Config = fmt.Sprintf("%sbilling: {spread_pct: %d}\n", quick, w.r.IntN(50))
	reload(w.T, w.g, o)
}

// check compares the money of each key with what the operator deposited and the records say, and looks for secrets in the log.
func (w *operation) check() {
	w.Helper()
	w.Logf("%d keys, answers %v", len(w.keys), w.seen)
	for _, k := range w.keys {
		eventually(w, "balance and charges that are the deposits of "+k.id, func() bool {
			var b struct {
				Balance json.Number `json:"balance_usd"`
				Held    json.Number `json:"held_usd"`
			}
			w.must(http.StatusOK, http.MethodGet, "/keys/"+k.id+"/balance", "", &b)
			sum := micro(w, b.Balance)
			var past struct{ Data []leftRecord }
			w.must(http.StatusOK, http.MethodGet, "/requests?limit=1000&key="+k.id, "", &past)
			for _, r := range past.Data {
				sum += micro(w, r.Charged)
			}
			return b.Held == "0.000000" && sum == k.deposited
		})
	}
	w.g.AssertSound(w)
	log := w.g.Log()
	for _, s := range append(w.secrets, w.token, "question ") {
		if strings.Contains(log, s) {
			w.Errorf("the log has %.20s…", s)
		}
	}
	if lines := errorsIn(log, "the file is empty"); len(lines) > 0 { // it is written in two steps, and may be read between them
		w.Errorf("the log has %s", lines)
	}
	if w.seen[http.StatusOK] == 0 || len(w.seen) < 3 {
		w.Errorf("the operator's changes were not seen: %v", w.seen)
	}
}

// amountOf writes millionths as an amount.
func amountOf(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1e6, micro%1e6) }
