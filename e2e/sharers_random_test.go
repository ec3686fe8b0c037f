package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/redistest"
	"bardo.money/gateway/internal/seedtest"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// TestRandomPartitionsOfGatewaysThatShareStores has gateways with one ledger and one Redis serve several keys, while the ways to both break and heal at random, and
// gateways are stopped for a moment, or killed and started again. Whatever happens, callers get answers or refusals in their format, and soon; no tenant gets another
// one's answer, nor one that was flushed; what was answered is charged once; limits hold; and afterwards all is as before. BARDO_SOAK=1 makes it longer; BARDO_SEED
// is the one seed to repeat.
func TestRandomPartitionsOfGatewaysThatShareStores(t *testing.T) {
	t.Parallel()
	for i, l := range partitioned {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seedtest.Seeds(15) {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { partitionAtRandom(t, l, rand.New(rand.NewPCG(seed, uint64(i)))) })
			}
		})
	}
}

// partitioned are the ways in which the gateways of the test share stores.
var partitioned = []partitionedLane{
	{name: "PostgreSQL, refuse", postgres: true, gateways: 3},
	{name: "a file, share", gateways: 2, away: "share", concurrent: 4},
}

type partitionedLane struct {
	name       string
	postgres   bool // has the ledger, so that all data paths are extproc; else a file has it, and they take turns
	gateways   int
	away       string // limits.when_away
	concurrent int    // limits.max_concurrent
}

// The numbers of the test.
const (
	partOf        = 3 // gateways that each part of a limit is for, as limits.gateways says
	partRate      = 30
	partDaily     = 10_000 // millionths that a key, or the keys of a project, may spend on a day
	partCost      = 252    // of an answer: 10 + 2 × 100 millionths, and the spread
	partSlow      = 250 * time.Millisecond
	partFaults    = 50
	partQuestions = 4
	partWithin    = time.Minute // for any answer, however busy the machine is
)

// sharingGateway is one of the gateways, with its ways to the stores.
type sharingGateway struct {
	options gateway.Options
	ways    map[string]*faultyWay

	mu  sync.Mutex
	now *gateway.Gateway
}

func (s *sharingGateway) gateway() *gateway.Gateway {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// stores are the names of its ways, in an order: a seed has to draw the same each time.
func (s *sharingGateway) stores() []string {
	return []string{"limits", "cache", "ledger"}[:len(s.ways)]
}

// sharedStores is the whole of it.
type sharedStores struct {
	*testing.T
	partitionedLane
	r        *rand.Rand
	database string // as the test reaches it; "" for a file
	file     string
	lease    time.Duration
	gateways []*sharingGateway
	one, two *fake.Server
	keys     map[string]adminKey
	began    time.Time
	killed   int
	refs     int
	over     atomic.Bool

	mu        sync.Mutex
	deeds     []*partDeed
	deposited map[string]int64
	owed      map[string]int64 // deposits by their reference whose answer was not seen
	flushes   []flushing
}

// partDeed is a request and what came of it.
type partDeed struct {
	who, say     string
	began, ended time.Time
	status       int
	request      string
	cache        string
	whole        bool
	said         string // the word of the provider's one answer
}

func partitionAtRandom(t *testing.T, l partitionedLane, r *rand.Rand) {
	t.Helper()
	withinOneDay(t)
	w := startSharedStores(t, l, r)
	before := w.goroutines()
	var clients sync.WaitGroup
	for i := range 6 {
		client := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		clients.Go(func() {
			for !w.over.Load() {
				w.act(client)
			}
		})
	}
	clients.Go(func() {
		for n := 0; !w.over.Load(); n++ {
			w.exceedConcurrency(n)
		}
	})
	for range partFaults {
		w.step()
		<-time.After(time.Duration(r.IntN(220)) * time.Millisecond)
	}
	w.over.Store(true)
	w.restoreAll()
	clients.Wait()
	w.check(before)
}

// startSharedStores starts the stores, and the gateways on them.
func startSharedStores(t *testing.T, l partitionedLane, r *rand.Rand) *sharedStores {
	t.Helper()
	w := &sharedStores{
		T: t, partitionedLane: l, r: r, keys: map[string]adminKey{}, deposited: map[string]int64{}, owed: map[string]int64{}, began: time.Now(),
		lease: pick(r, time.Second, 2*time.Minute),
	}
	w.gateways = make([]*sharingGateway, l.gateways)
	redis := redistest.Start(t)
	if l.postgres {
		w.database = postgrestest.URL(t)
	} else {
		w.file = filepath.Join(proctest.Dir(t), "shared.db")
	}
	echo := regexp.MustCompile(`Q-[a-z0-9-]+`)
	usage := &fake.Usage{Input: 10, Output: 100}
	w.one, w.two = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	for _, p := range []*fake.Server{w.one, w.two} {
		p.Behave(fake.Behaviour{Echo: echo, Usage: usage, HeaderDelay: 10 * time.Millisecond, Gap: 20 * time.Millisecond})
		p.BehaveFor("slow", fake.Behaviour{Echo: echo, Usage: usage, HeaderDelay: partSlow, Gap: 20 * time.Millisecond})
	}
	for i := range w.gateways {
		w.gateways[i] = w.place(i, redis.Socket())
		w.start(w.gateways[i])
		if i == 0 {
			w.createKeys()
		}
	}
	t.Cleanup(w.stopAll)
	return w
}

// place prepares a gateway: its state, its ways and its configuration.
func (w *sharedStores) place(i int, redis string) *sharingGateway {
	w.Helper()
	s := &sharingGateway{ways: map[string]*faultyWay{"limits": layFaultyWay(w.T, redis), "cache": layFaultyWay(w.T, redis)}}
	ledger, shape := "sqlite://"+w.file, []string{"extproc", "module"}[i%2]
	if w.postgres {
		shape = "extproc"
		s.ways["ledger"], ledger = layWayToDatabase(w.T, w.database)
	}
	home := proctest.Dir(w.T)
	if i > 0 && w.postgres {
		copyFile(w.T, filepath.Join(w.gateways[0].options.Home, "pepper"), filepath.Join(home, "pepper"))
	}
	s.options = gateway.Options{
		Home: home, DataPath: shape, NoKey: true,
		Config: strings.Replace(quick, "{rpm: 0}", fmt.Sprintf("{rpm: 0, max_concurrent: %d, when_away: %s, gateways: %d}", w.concurrent, cmp.Or(w.away, "refuse"), partOf), 1) +
			fmt.Sprintf("store: {ledger: %q, cache: \"redis+unix://%s\", cache_key: a-secret-key, cache_timeout: 200ms, limits: \"redis+unix://%s\", limits_timeout: 300ms, limits_lease: %s}\n",
				ledger, s.ways["cache"].socket, s.ways["limits"].socket, w.lease),
	}
	for _, p := range []*fake.Server{w.one, w.two} {
		id := map[*fake.Server]string{w.one: "first", w.two: "second"}[p]
		s.options.Providers = append(s.options.Providers, gateway.Provider{ID: id, Fake: p, Models: append(models("m", ""), models("slow", "")...)})
	}
	return s
}

// start runs a gateway on its state, again if it was killed.
func (w *sharedStores) start(s *sharingGateway) {
	w.Helper()
	g, err := gateway.Start(w.Context(), s.options)
	if err != nil {
		w.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = g
}

// stopAll ends the gateways that still run, and shows what they wrote if the test failed.
func (w *sharedStores) stopAll() {
	for _, s := range w.gateways {
		if s == nil || s.now == nil {
			continue
		}
		select {
		case <-s.now.Exited():
		default:
			s.now.Kill()
		}
		if w.Failed() {
			w.Logf("a gateway wrote:\n%s", s.now.Log())
		}
	}
}

// createKeys makes the keys at the first gateway.
func (w *sharedStores) createKeys() {
	w.Helper()
	o := operatorOf(w.T, w.gateways[0].now)
	o.must(http.StatusCreated, http.MethodPost, "/owners", `{"id":"acme"}`, nil)
	o.must(http.StatusCreated, http.MethodPost, "/projects", `{"id":"daily","owner":"acme","limit_usd_day":`+amountOf(partDaily)+`}`, nil)
	for name, rules := range map[string]string{
		"rich": `"balance_usd":1000`, "poor": `"balance_usd":0.005`, "rate": fmt.Sprintf(`"rpm":%d`, partRate), "daily": `"limit_usd_day":` + amountOf(partDaily),
		"member-a": `"project":"daily"`, "member-b": `"project":"daily","balance_usd":1`, "concurrent": `"rpm":0`, "tenant-a": `"rpm":0`, "tenant-b": `"rpm":0`,
	} {
		var k adminKey
		o.must(http.StatusCreated, http.MethodPost, "/keys", fmt.Sprintf(`{"name":%q,%s}`, name, rules), &k)
		w.keys[name] = k
	}
	w.deposited = map[string]int64{w.keys["rich"].ID: 1000e6, w.keys["poor"].ID: 5000, w.keys["member-b"].ID: 1e6}
}

// step makes something wrong, or right, or does something that an operator does.
func (w *sharedStores) step() {
	w.Helper()
	s := pick(w.r, w.gateways...)
	names := s.stores()
	switch w.r.IntN(14) {
	case 0, 1, 2, 3, 4:
		w.wrong(s, pick(w.r, names...), fault(1+w.r.IntN(int(faults)-1)))
	case 5:
		f := fault(1 + w.r.IntN(int(faults)-1))
		for _, name := range names {
			w.wrong(s, name, f)
		}
	case 6, 7:
		for _, name := range names {
			w.right(s, name)
		}
	case 8:
		w.pause(pick(w.r, process(s.now.PID()), envoyOf(w, s.now)))
	case 9:
		if w.killed < 3 {
			w.kill(s)
		}
	case 10, 11:
		w.flush(s, pick(w.r, "tenant-a", "tenant-b"))
	default:
		w.deposit(s, pick(w.r, "poor", "poor", "rich"))
	}
}

func (w *sharedStores) wrong(s *sharingGateway, way string, f fault) {
	s.ways[way].fail(f, w.r.IntN(3) == 0, time.Duration(100+w.r.IntN(2400))*time.Millisecond, w.r.IntN(2) == 0)
}

func (w *sharedStores) right(s *sharingGateway, way string) {
	s.ways[way].set(sound, w.r.IntN(2) == 0)
}

// pause stops a process for a while, as a busy machine does.
func (w *sharedStores) pause(p process) {
	w.Helper()
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := syscall.Kill(int(p), s); err != nil {
			w.Fatal(err)
		}
		<-time.After(time.Duration(w.r.IntN(600)) * time.Millisecond)
	}
}

// kill ends a gateway at once, and starts it again, for which it needs its ledger. That may take long, for which no other gateway is kept from its own.
func (w *sharedStores) kill(s *sharingGateway) {
	w.Helper()
	w.killed++
	s.now.Kill()
	for _, all := range w.gateways {
		if all.ways["ledger"] != nil {
			w.right(all, "ledger")
		}
	}
	w.start(s)
}

// restoreAll ends every fault.
func (w *sharedStores) restoreAll() {
	for _, s := range w.gateways {
		for _, way := range s.ways {
			way.set(sound, true)
		}
	}
}

// flushing is a key's flush of what is stored for it, and when it was asked for and confirmed.
type flushing struct {
	who          string
	began, ended time.Time
}

func (w *sharedStores) flush(s *sharingGateway, who string) {
	w.Helper()
	f := flushing{who: who, began: time.Now()}
	got := w.control(s.now, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache?epoch=new", Key: w.keys[who].Key})
	if got.Status == http.StatusOK {
		f.ended = time.Now()
		w.flushes = append(w.flushes, f)
	} else {
		w.refused(ask{dialect: fake.OpenAI}, got)
	}
}

// deposit pays something into a key. If the answer says anything but that it is done, it is asked again at the end.
func (w *sharedStores) deposit(s *sharingGateway, who string) {
	w.Helper()
	w.refs++
	ref, amount := fmt.Sprintf("r%d", w.refs), int64(1+w.r.IntN(3000))
	w.owed[who+" "+ref] = amount
	w.pay(s.now, who+" "+ref)
}

// pay makes a deposit, for the first time or again, and reports whether it was confirmed.
func (w *sharedStores) pay(g *gateway.Gateway, what string) bool {
	w.Helper()
	who, ref, _ := strings.Cut(what, " ")
	status, body := operatorOf(w.T, g).call(http.MethodPost, "/keys/"+w.keys[who].ID+"/deposits", fmt.Sprintf(`{"amount_usd":%s,"ref":%q}`, amountOf(w.owed[what]), ref))
	switch status {
	case http.StatusOK, http.StatusCreated:
		w.deposited[w.keys[who].ID] += w.owed[what]
		delete(w.owed, what)
		return true
	case http.StatusServiceUnavailable:
	default:
		w.Errorf("deposit: %d %s", status, body)
	}
	return false
}
