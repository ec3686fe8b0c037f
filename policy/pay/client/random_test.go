package client_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/seedtest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
	"bardo.money/gateway/policy/pay/paytest"
)

// rogue is a server that asks random prices, uses payments at random, and answers at random; and a truthful node of the chain.
type rogue struct {
	*httptest.Server
	t *testing.T
	p *payer

	mu     sync.Mutex
	random *rand.Rand
	signed map[pay.Word]*sentPayment
}

// sentPayment is an authorization that the server got.
type sentPayment struct {
	pay.Authorization

	name   string
	at     time.Time
	used   bool // used on the chain
	unused bool // resolved as unused
}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

const (
	maxEach  = policy.Micro(2000)
	maxDaily = policy.Micro(30_000)
)

// TestPitfall13And14ARogueServer: a server asks random prices, valid ones among them, and answers payments at random, in both versions of the protocol. Nothing is
// signed that the rules do not allow, or sent that is not in the book; each request has at most one open authorization; and the daily cap holds. BARDO_SOAK=1 makes
// the test longer; BARDO_SEED is the only seed to run.
func TestPitfall13And14ARogueServer(t *testing.T) {
	for _, seed := range seedtest.Seeds(50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := startRogue(t, rand.New(rand.NewPCG(seed, 14)))
			for round := range 500 {
				r.round(round)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.signed) < 20 {
				t.Errorf("only %d payments were signed", len(r.signed))
			}
		})
	}
}

func startRogue(t *testing.T, random *rand.Rand) *rogue {
	t.Helper()
	r := &rogue{t: t, p: newPayer(t), random: random, signed: map[pay.Word]*sentPayment{}}
	r.p.Rules.Schemes = []pay.Scheme{pay.SchemeExact, pay.SchemeUpTo}
	r.p.Rules.MaxDaily = maxDaily
	r.p.Quotes = client.NewQuotes()
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// round sends one request or several concurrent ones, sometimes after a restart, some time, or a reconciliation.
func (r *rogue) round(number int) {
	times, reconcile, q := r.plan(number)
	if reconcile {
		if _, err := client.Reconcile(r.t.Context(), r.p.Book, []*client.Node{{URL: r.URL + "/node", Network: known.Network, HTTP: &http.Client{Timeout: 10 * time.Second}}}); err != nil {
			r.t.Error(err)
		}
		r.resolve()
	}
	var all sync.WaitGroup
	for range times {
		all.Go(func() { r.request(&q) })
	}
	all.Wait()
}

// plan draws a round's actions. It locks, since the handler of a closed connection may still run.
func (r *rogue) plan(number int) (times int, reconcile bool, q client.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times, q.Name = 1, fmt.Sprint("request ", r.random.IntN(number/4+2))
	switch r.random.IntN(20) {
	case 0:
		times = 3
	case 1:
		r.p.restart(r.t)
	case 2:
		r.p.now = r.p.now.Add(time.Duration(r.random.IntN(int(10 * time.Hour))))
	case 3:
		reconcile = true
	}
	q.SimilarKey, q.Once = oneOf(r.random, "", "", "model"), r.random.IntN(4) == 0
	q.Size, q.MaxPrice = policy.Micro(90+r.random.IntN(20)), oneOf[policy.Micro](r.random, 0, 0, 1000)
	return times, reconcile, q
}

// request sends one request, and checks the wallet's result.
func (r *rogue) request(q *client.Request) {
	one := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, paid, err := r.p.Do(r.t.Context(), q, func(header, value string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.URL+"/", http.NoBody)
		if err != nil {
			return nil, err
		}
		req.Header.Set("X-Name", q.Name)
		req.Header.Set("X-Most", strconv.FormatInt(int64(q.MaxPrice), 10))
		if header != "" {
			req.Header.Set(header, value)
		}
		return one.Do(req)
	})
	if resp != nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil && (err.Error() == "" || len(err.Error()) > 20_000 || strings.ContainsFunc(err.Error(), func(c rune) bool { return c < ' ' && c != '\n' }) || strings.Contains(err.Error(), walletKey[:20])) {
		r.t.Errorf("an error that nobody can read: %.300q", err)
	}
	if _, ok := errors.AsType[*client.UnknownError](err); ok && paid == nil {
		r.t.Errorf("a payment left, and is not told: %v", err)
	}
}

// resolve marks authorizations that were resolved as unused.
func (r *rogue) resolve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.p.Book.Recent(r.t.Context(), 1000)
	if err != nil {
		r.t.Error(err)
	}
	for i := range all {
		a := &all[i]
		b := r.signed[a.Nonce]
		if b == nil { // every authorization was sent to the server
			r.t.Errorf("an authorization that was not sent: %+v", a)
			continue
		}
		b.unused = b.unused || a.State == outgoing.Unused
		if a.State == outgoing.Unused && b.used || a.State == outgoing.Used && !b.used {
			r.t.Errorf("%+v is taken: %v", a, b.used)
		}
	}
}

// ServeHTTP implements http.Handler.
func (r *rogue) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/node" {
		r.serveNode(w, req)
		return
	}
	text := req.Header.Get("Payment-Signature") + req.Header.Get("X-Payment")
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == "" {
		if r.random.IntN(10) == 0 {
			r.answer(w)
			return
		}
		r.challenge(w)
		return
	}
	r.checkPayment(req, text)
	r.answer(w)
}

// serveNode answers as the node of the chain.
func (r *rogue) serveNode(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err == nil {
		n := paytest.Node{Network: known.Network, Head: r.p.now, Used: r.used}
		body, err = n.Answer(body)
	}
	if err != nil {
		r.t.Error(err)
		return
	}
	_, _ = w.Write(body)
}

// used yields the authorizations that are used on the chain.
func (r *rogue) used(yield func(*pay.Authorization) bool) {
	for _, b := range r.signed {
		if b.used && !yield(&b.Authorization) {
			return
		}
	}
}

// checkPayment parses a payment, compares it with the rules, and uses it at random.
func (r *rogue) checkPayment(req *http.Request, text string) {
	a, err := paytest.Parse(text, known.USDC, known.Network)
	if err != nil {
		r.t.Errorf("a payment that cannot be read: %v %s", err, text)
		return
	}
	name := req.Header.Get("X-Name")
	if b := r.signed[a.Nonce]; b != nil {
		if b.Authorization != a || b.name != name {
			r.t.Errorf("a nonce for two: %+v, %+v of %s", b, a, name)
		}
		return
	}
	limit, now := maxEach, r.p.now
	if m, _ := strconv.Atoi(req.Header.Get("X-Most")); m > 0 {
		limit = policy.Micro(m)
	}
	switch {
	case a.To != payee || a.From != r.p.Key.Address():
		r.t.Errorf("%s is paid by %s", a.To, a.From)
	case a.Value <= 0 || a.Value > limit:
		r.t.Errorf("%s is paid, and at most %s may be", a.Value, limit)
	case a.ValidAfter != 0 || a.ValidBefore > uint64(now.Add(time.Hour).Unix()) || a.ValidBefore <= uint64(now.Unix()):
		r.t.Errorf("valid until %d, and it is %d", a.ValidBefore, now.Unix())
	}
	all, err := r.p.Book.Recent(req.Context(), 1000)
	if err != nil || !slices.ContainsFunc(all, func(o outgoing.Authorization) bool {
		return o.Nonce == a.Nonce && o.Value == a.Value && o.State == outgoing.Open
	}) {
		r.t.Errorf("sent, and not in the book: %+v, %v", a, err)
	}
	spent := a.Value
	for _, b := range r.signed {
		if !b.unused && b.at.After(now.Add(-24*time.Hour)) {
			spent += b.Value
		}
	}
	if spent > maxDaily {
		r.t.Errorf("%s are signed in a day, and at most %s may be", spent, maxDaily)
	}
	open := func(o outgoing.Authorization) bool {
		return o.Request == name && o.State == outgoing.Open && o.Nonce != a.Nonce
	}
	if slices.ContainsFunc(all, open) {
		r.t.Errorf("%s has two payments in doubt", name)
	}
	r.signed[a.Nonce] = &sentPayment{Authorization: a, name: name, at: now, used: r.random.IntN(2) == 0}
}
