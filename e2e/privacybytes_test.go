package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
)

// How many requests are mixed: in every run of the tests, and in a soak (make soak).
const (
	mixedRequests     = 400
	soakMixedRequests = 10_000
)

// sealedKinds are the kinds of requests in the mix: what asks for privacy, and the providers that may see a byte of them.
var sealedKinds = []sealedKind{
	{"standard", nil, false, nil},
	{"confidential", []string{"X-Bardo-Security-Class: confidential"}, false, nil},
	{"private", []string{"X-Bardo-Security-Class: private"}, false, []string{"venice", "second", "vault"}},
	{"dream", []string{"X-Bardo-Security-Class: private", "X-Bardo-Subsystem: dream"}, false, []string{"venice", "second", "vault"}},
	{"tee", []string{"X-Bardo-Privacy-Tier: tee"}, true, []string{"venice", "vault"}},
	{"trade", []string{"X-Bardo-Task-Class: trade", "X-Bardo-Subsystem: heartbeat_t2"}, true, []string{"venice", "vault"}},
	{"bid", []string{"X-Bardo-Task-Class: sealed_auction"}, true, []string{"vault"}},
	{"e2e", []string{"X-Bardo-Privacy-Tier: e2e"}, true, []string{"vault"}},
}

type sealedKind struct {
	name   string
	header []string
	schema bool
	may    []string // nil: all
}

// injected are the ways in which a provider behaves in the mix.
func injected(r *rand.Rand) fake.Behaviour {
	b := fake.Behaviour{}
	switch r.IntN(8) {
	case 0:
		b.Status = []int{401, 404, 429, 500, 503, 529}[r.IntN(6)]
	case 1:
		b.Break = fake.Break{Kind: fake.Reset, At: fake.Stage(r.IntN(3)), Tokens: 1}
	case 2:
		b.Break = fake.Break{Kind: fake.ErrorEvent, At: fake.AfterHeaders}
	case 3:
		b.Header = []string{"-X-Venice-Retention-Policy"}
	case 4:
		b.Header = []string{"X-Venice-Privacy-Level: public"}
	}
	return b
}

var plantedMark = regexp.MustCompile(`PLANTED-([a-z0-9]+)-[0-9]+-MARK`)

// TestP04NoPrivateByteLeavesItsTier: of many mixed requests under injected failures, nothing of one that is private, of an enclave or sealed, reaches a provider
// outside its tier; and nothing of any prompt or answer is in what the gateway wrote: logs, metrics, events, records, its state on disk.
func TestP04NoPrivateByteLeavesItsTier(t *testing.T) {
	t.Parallel()
	l := runMixedLab(t)
	n := mixedRequests
	if os.Getenv("BARDO_SOAK") != "" {
		n = soakMixedRequests
	}
	var wg sync.WaitGroup
	const workers = 8
	served := make([]map[string]int, workers)
	for w := range workers {
		wg.Go(func() { served[w] = l.work(t, rand.New(rand.NewPCG(uint64(w), 17)), w*n, n/workers) })
	}
	wg.Wait()
	for _, kind := range sealedKinds {
		total := 0
		for w := range served {
			total += served[w][kind.name]
		}
		if total == 0 {
			t.Errorf("no %s request was served: nothing was shown", kind.name)
		}
	}
	l.checkProviders(t)
	l.checkWritten(t)
}

type mixedLab struct {
	*gateway.Gateway

	fakes  map[string]*fake.Server
	events string
	log    *os.File
}

func runMixedLab(t *testing.T) *mixedLab {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	l := &mixedLab{fakes: map[string]*fake.Server{}, events: filepath.Join(dir, "events.jsonl"), log: log}
	for _, name := range []string{"open", "venice", "second", "vault"} {
		cfg := fake.Config{Dialect: fake.OpenAI, Name: name}
		if name == "venice" {
			cfg.Vendor = fake.Venice
		}
		if name == "vault" {
			cfg.Vault = enclave.NewVault("a")
		}
		l.fakes[name] = fake.Start(t, cfg)
	}
	model := func(price int, more string) string {
		return fmt.Sprintf("{id: shared, quality: high, price: {input: %d, output: %d}, capabilities: [tools, visible_thinking, structured_outputs%s]}", price, 2*price, more)
	}
	p := func(name string) (url, key string) { return l.fakes[name].URL, l.fakes[name].Key }
	section := func(name, more, models string) string {
		url, key := p(name)
		return fmt.Sprintf("    - {id: %s, endpoints: [%q], api_key: %s%s, models: [%s]}\n", name, url, key, more, models)
	}
	veniceURL, veniceKey := p("venice")
	l.Gateway = gateway.Run(t, gateway.Options{Stderr: log, Stdout: log, Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
inference: {on_privacy_exhausted: fail}
providers:
  order: [open, venice, second, vault]
  venice: {base_url: %q, api_key: %s, models: [%s]}
  custom:
%s%s%s`, l.events, veniceURL, veniceKey, model(2, ", tee_attested"), section("open", "", model(1, "")), section("second", ", private: true", model(3, "")),
		section("vault", ", private: true, e2ee_keys: ["+enclave.VaultKey("a")+"]", model(4, ", tee_attested, e2ee")))})
	return l
}

// work sends n requests one after the other, and returns how many of each kind were served.
func (l *mixedLab) work(t *testing.T, r *rand.Rand, from, n int) map[string]int {
	t.Helper()
	served := map[string]int{}
	names := []string{"open", "venice", "second", "vault"}
	for i := range n {
		l.fakes[names[r.IntN(len(names))]].Behave(injected(r))
		kind := &sealedKinds[r.IntN(len(sealedKinds))]
		a := ask{dialect: fake.OpenAI, model: []string{"auto", "shared"}[r.IntN(2)], stream: r.IntN(2) == 0, say: fmt.Sprintf("PLANTED-%s-%d-MARK", kind.name, from+i)}
		if kind.schema {
			a.more = asSchema
		}
		if got := l.Do(t, a.call(kind.header...)); got.Status == http.StatusOK {
			served[kind.name]++
		}
	}
	return served
}

// checkProviders looks through every request that reached a provider.
func (l *mixedLab) checkProviders(t *testing.T) {
	t.Helper()
	for name, p := range l.fakes {
		for _, r := range p.Requests() {
			for _, m := range plantedMark.FindAllStringSubmatch(r.Path+"\n"+r.RawQuery+"\n"+fmt.Sprint(r.Header)+"\n"+string(r.Body), -1) {
				kind := sealedKinds[slices.IndexFunc(sealedKinds, func(k sealedKind) bool { return k.name == m[1] })]
				if kind.may != nil && !slices.Contains(kind.may, name) {
					t.Errorf("%s saw %s", name, m[0])
				}
				if name == "venice" && slices.Contains([]string{"tee", "trade"}, m[1]) && !strings.HasSuffix(r.Model, "-tee") {
					t.Errorf("%s went to %s outside of an enclave", m[0], r.Model)
				}
			}
		}
	}
}

// checkWritten looks for the marks in everything that the gateway wrote or tells.
func (l *mixedLab) checkWritten(t *testing.T) {
	t.Helper()
	const metrics = "/metrics"
	told := map[string]string{metrics: fmt.Sprint(l.Metrics(t))}
	for _, path := range []string{"/v1/usage", "/v1/requests?limit=100", "/venice/status", "/venice/telemetry?limit=500", "/venice/attestations?limit=500"} {
		told[path] = l.Do(t, gateway.Call{Path: path}).Body
	}
	for what, text := range told {
		if strings.Contains(text, "PLANTED") {
			t.Errorf("%s has content", what)
		}
	}
	if records := told["/venice/telemetry?limit=500"]; !strings.Contains(records, `"privacy_tier":"private"`) {
		t.Errorf("there is no telemetry of private requests: %.300s", records)
	}
	files := 0
	look := func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if i := bytes.Index(b, []byte("PLANTED")); i >= 0 {
			t.Errorf("%s has content: %.60q", path, b[i:])
		}
		return nil
	}
	for _, dir := range []string{l.Home, filepath.Dir(l.events)} {
		if err := filepath.WalkDir(dir, look); err != nil {
			t.Error(err)
		}
	}
	if files < 4 { // the ledger, the configuration, the log, the events
		t.Errorf("only %d files were looked at", files)
	}
}
