package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/seedtest"
)

// apartLab is a gateway with everything that may look at requests, keep or share something of them, or call somebody beside them; with providers inside and outside of
// each tier, which record every byte and say back what they got; and with accounts of two plans.
type apartLab struct {
	*gateway.Gateway

	fakes    map[string]*fake.Server
	hooks    map[string]*hook
	receiver *byteSink
	accounts []*apart
	streams  sync.WaitGroup
	files    string // folder of the log, the events and the audit log

	mu         sync.Mutex
	recipients map[string]map[string]bool // who got an answer: plan, account and kind, by the answer's own word
}

// apart is an account, and all that its streams of events have told.
type apart struct {
	gateway.NewKey

	plan    string
	session sessionReply

	mu   sync.Mutex
	told bytes.Buffer
	ids  []string // of its requests
}

// byteSink is a receiver of telemetry that keeps all it gets.
type byteSink struct {
	*httptest.Server

	mu  sync.Mutex
	got bytes.Buffer
}

func newByteSink(t *testing.T) *byteSink {
	t.Helper()
	s := &byteSink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what came is kept
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(z) // the same
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got.Write(body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *byteSink) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.got.Bytes())
}

var (
	ofAccount = regexp.MustCompile(`MK([a-z]+)-([a-z0-9]+)-[0-9]+-KM`) // what was planted: account, kind, number
	ofAnswer  = regexp.MustCompile(`ANSWER-[a-z]+-[0-9]+-END`)
	anyMail   = regexp.MustCompile(`jane\.[a-z]+\.[0-9]+@example\.com`)
)

// apartKinds are the kinds of requests, and who may have a byte of them: providers, and hooks.
var apartKinds = []sealedKind{
	{"standard", nil, false, nil},
	{"confidential", []string{"X-Bardo-Security-Class: confidential"}, false, nil},
	{"private", []string{"X-Bardo-Security-Class: private"}, false, []string{"venice", "quiet", "vault", "own-guard", "own-search"}},
	{"dream", []string{"X-Bardo-Security-Class: private", "X-Bardo-Subsystem: dream"}, false, []string{"venice", "quiet", "vault", "own-guard", "own-search"}},
	{"verified", []string{"X-Bardo-Security-Class: private", "X-Bardo-Verify: true"}, false, []string{"venice", "quiet", "vault", "own-guard", "own-search"}},
	{"trade", []string{"X-Bardo-Task-Class: trade"}, true, []string{"venice", "vault", "own-guard", "own-search"}},
	{"tee", []string{"X-Bardo-Privacy-Tier: tee"}, true, []string{"venice", "vault", "own-guard", "own-search"}},
	{"bid", []string{"X-Bardo-Task-Class: sealed_auction"}, true, []string{"vault", "own-guard"}},
	{"memory", nil, false, nil}, // what accounts have stored
}

func runApartLab(t *testing.T, shape string) *apartLab {
	t.Helper()
	l := &apartLab{
		fakes: map[string]*fake.Server{}, receiver: newByteSink(t), files: t.TempDir(), recipients: map[string]map[string]bool{},
		hooks: map[string]*hook{"guard": newHook(t), "own-guard": newHook(t), "search": searchHook(t, rex), "own-search": searchHook(t, rex)},
	}
	for _, name := range []string{"open", "rival", "venice", "quiet", "vault"} {
		cfg := fake.Config{Dialect: fake.OpenAI, Name: name}
		switch name {
		case "rival":
			cfg.Dialect = fake.Anthropic
		case "venice":
			cfg.Vendor = fake.Venice
		case "vault":
			cfg.Vault = enclave.NewVault("a")
		}
		l.fakes[name] = fake.Start(t, cfg)
		l.fakes[name].Behave(fake.Behaviour{Echo: ofAccount})
	}
	log, err := os.Create(filepath.Join(l.files, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	l.Gateway = gateway.Run(t, gateway.Options{
		DataPath: shape, Home: proctest.Dir(t), Stdout: log, Stderr: log, Env: []string{"LATER=a long secret of the operator's"}, Config: l.config(t),
	})
	eventually(t, "the embedding model", func() bool {
		l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache"})
		by := ""
		for _, say := range questions[:2] {
			by = l.Do(t, ask{dialect: fake.OpenAI, model: "shared", say: say, more: `"max_tokens":100`}.call()).Header.Get("X-Bardo-Cache")
		}
		return by == "semantic"
	})
	for _, name := range []string{"alice", "bob", "carol", "dora"} {
		a := &apart{plan: "pro"}
		if name > "c" {
			a.plan = "free"
		}
		a.NewKey = l.CreateKey(t, "--name", name, "--tier", a.plan)
		l.accounts = append(l.accounts, a)
		l.Do(t, gateway.Call{Path: "/v1/sessions", Key: a.Key, Body: `{}`}).JSON(t, &a.session)
		doc := gateway.Call{Method: http.MethodPut, Path: "/v1/sessions/" + a.session.ID + "/memory/doc", Key: a.Key, Body: fmt.Sprintf(`{"text":"The capital of France is known as MK%s-memory-0-KM."}`, name)}
		if got := l.Do(t, doc); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	return l
}

func (l *apartLab) config(t *testing.T) string {
	t.Helper()
	model := func(price int, family, more string) string {
		return fmt.Sprintf("{id: shared, quality: high, family: %s, price: {input: %d, output: %d}, reasoning: none, capabilities: [tools, structured_outputs, cross_verify%s]}", family, price, 2*price, more)
	}
	mini := "{id: mini, quality: low, family: mini, price: {input: 0.1, output: 0.1}, reasoning: none, capabilities: [tools, structured_outputs, cross_verify]}"
	custom := func(name, more, models string) string {
		return fmt.Sprintf("    - {id: %s, endpoints: [%q], api_key: %s%s, models: [%s, %s]}\n", name, l.fakes[name].URL, l.fakes[name].Key, more, models, mini)
	}
	return quick + fmt.Sprintf(`
telemetry: {events: "file:%s", log_level: debug, otlp: %q, otlp_protocol: http, otlp_interval: 1s, prompts: {keys: [nobody], file: prompts.db, encryption_key: a-key-of-at-least-thirty-two-characters}}
audit: {file: %q}
deferred: {key: env:LATER, gather: 100ms, poll: 100ms, fallback: 1h}
models: {dir: %q, injection: "off"}
store: {cache: "sqlite://$BARDO_HOME/cache.db"}
billing: {tiers: {free: {}, pro: {}}}
inference: {on_privacy_exhausted: fail}
pipeline:
  default: standard
  pool: free
  hash: all
  semantic: on
  semantic_timeout: 10s
  pii: {policy: detect}
  compression: {summary: on, summary_trigger_tokens: 1500, summary_timeout: 5s}
  guardrails:
    - {name: guard, url: %q, when: [request, response], on_error: allow, timeout: 10s}
    - {name: own-guard, url: %q, when: [request, response], private: true, timeout: 10s}
  retrieval: {profiles: [full], memory: on, memory_timeout: 10s, hooks: [{name: search, url: %q, timeout: 10s}, {name: own-search, url: %q, private: true, timeout: 10s}]}
providers:
  order: [open, rival, venice, quiet, vault]
  venice: {base_url: %q, api_key: %s, models: [%s]}
  custom:
%s%s%s%s`, filepath.Join(l.files, "events.jsonl"), l.receiver.URL, filepath.Join(l.files, "audit.jsonl"), modeltest.Dir(t), l.hooks["guard"].URL, l.hooks["own-guard"].URL, l.hooks["search"].URL, l.hooks["own-search"].URL,
		l.fakes["venice"].URL, l.fakes["venice"].Key, model(3, "three", ", tee_attested"), custom("open", "", model(1, "one", "")), custom("rival", ", format: anthropic", model(2, "two", "")),
		custom("quiet", ", private: true", model(4, "four", "")), custom("vault", ", private: true, e2ee_keys: ["+enclave.VaultKey("a")+"]", model(5, "five", ", tee_attested, e2ee")))
}

// follow reads all streams of an account until the context ends.
func (l *apartLab) follow(ctx context.Context, t *testing.T, a *apart) {
	t.Helper()
	for _, path := range []string{"/v1/events", "/venice/stream"} {
		resp, err := l.Open(ctx, gateway.Call{Path: path, Key: a.Key})
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %v", path, resp, err)
		}
		l.streams.Go(func() {
			defer func() { _ = resp.Body.Close() }()
			b := make([]byte, 32<<10)
			for {
				n, err := resp.Body.Read(b)
				a.mu.Lock()
				a.told.Write(b[:n])
				a.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
}

// TestP04RequestsOfManyAccountsAndTiersKeepApart: of random requests of several accounts, in every tier, with failures, caches, layers, hooks, second opinions, summaries, memory and
// streams: no byte reaches a provider or a hook outside of its tier; none of one account is in a call, an answer, an event or a record of another; and none is in anything
// that the gateway writes or tells.
func TestP04RequestsOfManyAccountsAndTiersKeepApart(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(20) {
		for _, shape := range []string{"extproc", "module"} {
			t.Run(fmt.Sprintf("%s/seed=%d", shape, seed), func(t *testing.T) {
				t.Parallel()
				l := runApartLab(t, shape)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				for _, a := range l.accounts {
					l.follow(ctx, t, a)
				}
				var wg sync.WaitGroup
				served := make([]map[string]int, 5)
				for w := range served {
					wg.Go(func() { served[w] = l.work(t, rand.New(rand.NewPCG(seed, uint64(w))), w) })
				}
				wg.Wait()
				for _, kind := range apartKinds[:len(apartKinds)-1] {
					if !slices.ContainsFunc(served, func(m map[string]int) bool { return m[kind.name] > 0 }) {
						t.Errorf("no %s request was served: nothing was shown", kind.name)
					}
				}
				l.recall(t)
				l.assertCalls(t)
				l.assertHeard(t)
				l.assertTold(t)
				stop()
				l.streams.Wait()
				l.AssertSound(t)
			})
		}
	}
}
