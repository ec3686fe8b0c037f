package deferred

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/batch"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
)

// world is everything that survives a gateway: the provider, the ledger, the clock, and the store's file.
type world struct {
	t    *testing.T
	path string
	now  time.Time

	mu      sync.Mutex
	points  int // effects so far
	crashAt int // the effect before which the gateway is killed; 0: none
	die     context.CancelFunc

	batches  []*madeBatch
	handed   map[string]int // number of submissions per request
	calls    map[string]int // ordinary calls
	charged  map[string]int
	standing map[string]policy.Micro
	fails    bool // batches fail
	held     bool // batches do not end

	at        map[int]func() // actions before an effect, with the lock held
	cancelled bool           // req_a was
	before    int            // calls for it before that
	free      bool           // nothing was reserved for it any more
	files     map[string]bool
}

type madeBatch struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Created  int64             `json:"created_at"`
	Input    string            `json:"input_file_id"`
	Output   string            `json:"output_file_id,omitempty"`
	Metadata map[string]string `json:"metadata"`

	ids []string
}

var errDead = errors.New("the gateway is dead")

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t: t, path: filepath.Join(t.TempDir(), "deferred.db"), now: time.Unix(1_800_000_000, 0),
		handed: map[string]int{}, calls: map[string]int{}, charged: map[string]int{}, standing: map[string]policy.Micro{}, files: map[string]bool{},
	}
}

// point precedes each external effect: a gateway may be killed there.
func (w *world) point() {
	w.points++
	if do := w.at[w.points]; do != nil {
		do()
	}
	if w.crashAt > 0 && w.points >= w.crashAt {
		w.die()
		panic(errDead)
	}
}

// start returns a gateway that runs until it is killed or stopped.
func (w *world) start(o *Options) (*Service, context.Context) {
	w.t.Helper()
	ctx, die := context.WithCancel(w.t.Context())
	w.die = die
	s := NewService(&Service{Path: w.path, Keys: seal.Keys{Set: "s"}, Runner: w, Books: w, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now }}, *o)
	w.t.Cleanup(func() { die(); _ = s.Close() })
	return s, ctx
}

var usual = Options{
	Batches: true, Gather: time.Minute, Poll: time.Minute, Fallback: time.Hour, Keep: 24 * time.Hour, KeepDelivered: time.Hour, PerAccount: Limits{Requests: 5, Bytes: 1 << 20},
}

// rounds runs a gateway for n rounds, a minute apart.
func (w *world) rounds(ctx context.Context, s *Service, n int) {
	w.t.Helper()
	k := &worker{Service: s, life: &life{}}
	for range n {
		if ctx.Err() != nil {
			return
		}
		if st := s.store.Load(); st != nil {
			k.st, k.o = st, s.options.Load()
			k.round(ctx)
			k.calls.Wait()
		}
		w.now = w.now.Add(time.Minute)
	}
}

// Plan implements Runner.
func (w *world) Plan(_ context.Context, r *Request) (*Planned, error) {
	return &Planned{Provider: "p", Key: "k", Path: "/chat/completions", Model: "p/m", Digest: []byte("digest of " + r.ID), Body: []byte(`{"model":"m"}`)}, nil
}

// Answer implements Runner: it makes a call whose answer is not stored, and charges.
func (w *world) Answer(ctx context.Context, r *Request, run *Run) Served {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return Served{Again: true}
	}
	w.point()
	if stopped := errors.Is(context.Cause(ctx), ErrCancelled); stopped && len(run.Calls) == 0 || run.Cancelled && len(run.Calls) == 0 {
		return Served{Reply: stream.Reply{Status: 499}} // no call was made, and none is owed
	}
	if len(run.Calls) == 0 {
		w.calls[r.ID]++
		c := Call{Digest: []byte("call"), Status: 200, Body: []byte("answered")}
		w.point()
		if err := run.Keep(&c); err != nil {
			return Served{Again: true}
		}
		run.Calls = append(run.Calls, c)
	}
	w.point()
	w.charged[r.ID] = 1 // the ledger takes one charge of an id
	delete(w.standing, r.ID)
	w.point()
	return Served{Reply: stream.Reply{Status: 200, Body: run.Calls[0].Body}, Booked: true}
}

// Expired implements Runner.
func (*world) Expired(*Request) stream.Reply { return stream.Reply{Status: 504} }

// Target implements Runner.
func (w *world) Target(policy.ProviderID, string) (batch.Target, bool) {
	return batch.Target{Form: batch.OpenAI, BasePath: "/v1", Header: header.List{}, Client: &http.Client{Transport: w}}, true
}

// Idle implements Runner.
func (*world) Idle() bool { return false }

// Draining implements Runner.
func (*world) Draining() bool { return false }

// ReleaseStandingHold implements Books.
func (w *world) ReleaseStandingHold(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.point()
	delete(w.standing, id)
	return nil
}

// RequestsWithStandingHold implements Books.
func (w *world) RequestsWithStandingHold(context.Context, string) (ids []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.standing {
		ids = append(ids, id)
	}
	return ids, nil
}

// Charged implements Books.
func (w *world) Charged(_ context.Context, _ policy.Account, id string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.charged[id] > 0, nil
}

// ReserveStandingHold implements Books.
func (w *world) ReserveStandingHold(_ context.Context, _ policy.Account, id string, amount policy.Micro, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.standing[id] = amount
	return nil
}

// RoundTrip returns the provider: OpenAI's batch API.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.point()
	body, _ := io.ReadAll(r.Body)
	status, answer := w.answer(r.Method+" "+r.URL.Path, body)
	w.point()
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

func (w *world) answer(call string, body []byte) (status int, answer string) {
	switch {
	case call == "POST /v1/files":
		var ids []string
		for _, part := range strings.Split(string(body), `"custom_id":"`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			ids = append(ids, id)
		}
		id := "file-" + strings.Join(ids, "+")
		w.files[id] = true
		return 200, fmt.Sprintf(`{"id":%q}`, id)
	case call == "POST /v1/batches":
		b := &madeBatch{Status: "in_progress", Created: w.now.Unix()}
		_ = json.Unmarshal(body, b)
		b.ID, b.ids = fmt.Sprintf("batch_%d", len(w.batches)), strings.Split(strings.TrimPrefix(b.Input, "file-"), "+")
		for _, id := range b.ids {
			w.handed[id]++
		}
		w.batches = append(w.batches, b)
		return 200, marshal(b)
	case call == "GET /v1/batches":
		all := slices.Clone(w.batches)
		slices.Reverse(all)
		return 200, `{"data":` + marshal(all) + `}`
	case strings.HasPrefix(call, "DELETE /v1/files/"):
		delete(w.files, strings.TrimPrefix(call, "DELETE /v1/files/"))
		return 200, `{}`
	case strings.HasSuffix(call, "/cancel"):
		return 200, `{}`
	}
	for _, b := range w.batches {
		switch call {
		case "GET /v1/batches/" + b.ID:
			if !w.held {
				b.Status, b.Output = "completed", "out-"+b.ID
			}
			if w.fails {
				b.Status, b.Output = "failed", ""
			}
			return 200, marshal(b)
		case "GET /v1/files/out-" + b.ID + "/content":
			var lines strings.Builder
			for _, id := range b.ids {
				fmt.Fprintf(&lines, `{"custom_id":%q,"response":{"status_code":200,"body":"dreamt"}}`+"\n", id)
			}
			return 200, lines.String()
		}
	}
	return 404, `{}`
}

func marshal(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// add accepts a request as an exchange does: the reservation comes first.
func (w *world) add(s *Service, id string, after time.Duration) error {
	w.t.Helper()
	w.standing[id] = 7
	return s.Add(w.t.Context(), &Request{
		ID: id, Account: "ada", Dialect: chat.OpenAI, Prepaid: true, Held: 7, Deadline: w.now.Add(after), Head: stream.Head{Method: "POST", Path: "/v1/chat/completions"}, Body: []byte(`{"secret":"words"}`),
	})
}

func (w *world) mustAdd(s *Service, id string, after time.Duration) {
	w.t.Helper()
	if err := w.add(s, id, after); err != nil {
		w.t.Fatal(err)
	}
}

// mustHave checks how a request ended.
func (w *world) mustHave(s *Service, id string, status int, body string) {
	w.t.Helper()
	got, err := s.Answer(w.t.Context(), "ada", id, true)
	if err != nil || got.Answer == nil || got.Answer.Status != status || body != "" && !strings.Contains(string(got.Answer.Body), body) {
		w.t.Errorf("%s: %+v, %v; want %d %q", id, got.Answer, err, status, body)
	}
	if len(w.standing) > 0 {
		w.t.Errorf("%v is still held", w.standing)
	}
}

// TestAGatewayMayDieBeforeAndAfterEveryEffect: whenever it is killed, the next one answers both requests, each with one charge; batched requests are
// submitted once, and no call is repeated once its answer is stored.
func TestAGatewayMayDieBeforeAndAfterEveryEffect(t *testing.T) {
	for _, batches := range []bool{true, false} {
		for at := 1; ; at++ {
			w := newWorld(t)
			o := usual
			o.Batches = batches
			s, ctx := w.start(&o)
			w.mustAdd(s, "req_a", 3*time.Hour)
			w.mustAdd(s, "req_b", 3*time.Hour)
			w.crashAt = at
			w.rounds(ctx, s, 160)
			died := w.points >= at
			_ = s.Close()
			w.crashAt = 0
			s, ctx = w.start(&o)
			if err := s.Open(ctx); err != nil {
				t.Fatal(err)
			}
			w.rounds(ctx, s, 170)
			for _, id := range []string{"req_a", "req_b"} {
				w.mustHave(s, id, 200, "")
				if w.charged[id] != 1 || w.handed[id] > 1 || batches && w.handed[id]+w.calls[id] != 1 || !batches && (w.calls[id] < 1 || w.calls[id] > 2) {
					t.Errorf("batches %v, died at %d: %s has %d charges, was handed in %d times and called %d times", batches, at, id, w.charged[id], w.handed[id], w.calls[id])
				}
			}
			if t.Failed() {
				t.Fatalf("batches %v, died before effect %d", batches, at)
			}
			_ = s.Close()
			if !died {
				t.Logf("batches %v: %d effects", batches, at-1)
				break
			}
		}
	}
}

func TestABatchThatFailsOrTakesTooLongIsReplacedByCalls(t *testing.T) {
	for _, row := range []struct {
		about        string
		fails, holds bool
	}{{"fails", true, false}, {"takes too long", false, true}} {
		w := newWorld(t)
		w.fails, w.held = row.fails, row.holds
		s, ctx := w.start(&usual)
		w.mustAdd(s, "req_a", 5*time.Hour)
		w.rounds(ctx, s, 300)
		w.mustHave(s, "req_a", 200, "answered")
		if w.handed["req_a"] != 1 || w.calls["req_a"] != 1 {
			t.Errorf("%s: handed in %d times, called %d times", row.about, w.handed["req_a"], w.calls["req_a"])
		}
	}
}

func TestARequestWithLittleTimeIsNoPartOfABatch(t *testing.T) {
	w := newWorld(t)
	s, ctx := w.start(&usual)
	w.mustAdd(s, "req_a", 2*time.Minute)
	w.rounds(ctx, s, 3)
	w.mustHave(s, "req_a", 200, "answered")
	if len(w.batches) != 0 {
		t.Error("a batch was made")
	}
}

func TestWhatNobodyAnsweredExpires(t *testing.T) {
	w := newWorld(t)
	s, _ := w.start(&usual)
	w.mustAdd(s, "req_a", time.Minute)
	w.now = w.now.Add(2 * time.Minute)
	w.rounds(t.Context(), s, 1)
	w.mustHave(s, "req_a", 504, "")
	if len(w.charged) != 0 {
		t.Errorf("charged %v", w.charged)
	}
}

func TestLimitsAreThoseOfAnAccount(t *testing.T) {
	w := newWorld(t)
	s, _ := w.start(&usual)
	for i := range 5 {
		w.mustAdd(s, fmt.Sprintf("req_%d", i), time.Hour)
	}
	if err := w.add(s, "req_5", time.Hour); !errors.Is(err, ErrFull) {
		t.Errorf("a sixth: %v", err)
	}
	if err := s.Cancel(t.Context(), "ada", "req_0"); err != nil {
		t.Fatal(err)
	}
	w.mustAdd(s, "req_6", time.Hour)
	o := usual
	o.PerAccount.Bytes = 100
	s.Use(o)
	if err := s.Cancel(t.Context(), "ada", "req_1"); err != nil {
		t.Fatal(err)
	}
	if err := w.add(s, "req_7", time.Hour); !errors.Is(err, ErrFull) {
		t.Errorf("too many bytes: %v", err)
	}
}

func TestAnAnswerIsKeptForItsTimeAndIsItsAccounts(t *testing.T) {
	w := newWorld(t)
	s, ctx := w.start(&usual)
	w.mustAdd(s, "req_a", 2*time.Hour)
	w.mustAdd(s, "req_b", 2*time.Hour)
	w.rounds(ctx, s, 10)
	if _, err := s.Answer(ctx, "bob", "req_a", true); !errors.Is(err, ErrUnknown) {
		t.Errorf("another account: %v", err)
	}
	w.mustHave(s, "req_a", 200, "dreamt")
	w.now = w.now.Add(61 * time.Minute)
	w.rounds(ctx, s, 1)
	if _, err := s.Answer(ctx, "ada", "req_a", true); !errors.Is(err, ErrGone) {
		t.Errorf("after its time: %v", err)
	}
	w.mustHave(s, "req_b", 200, "dreamt") // nobody has read it yet
	w.now = w.now.Add(8 * 24 * time.Hour)
	w.rounds(ctx, s, 1)
	if _, err := s.Answer(ctx, "ada", "req_a", true); !errors.Is(err, ErrUnknown) {
		t.Errorf("a week later: %v", err)
	}
}

func TestMoneyThatStandsForNothingIsGivenBackAtTheStart(t *testing.T) {
	w := newWorld(t)
	first, _ := w.start(&usual)
	w.mustAdd(first, "req_a", time.Hour)
	w.standing["req_lost"] = 3  // a gateway died between the two steps of accepting it
	delete(w.standing, "req_a") // and another one while it charged
	_ = first.Close()
	s, ctx := w.start(&usual)
	if err := s.Open(ctx); err != nil {
		t.Fatal(err)
	}
	if _, there := w.standing["req_lost"]; there || w.standing["req_a"] != 7 {
		t.Errorf("standing are %v", w.standing)
	}
}

func TestContentIsEncrypted(t *testing.T) {
	w := newWorld(t)
	s, ctx := w.start(&usual)
	w.mustAdd(s, "req_a", 2*time.Hour)
	w.rounds(ctx, s, 1)
	for _, name := range []string{w.path, w.path + "-wal"} {
		b, err := os.ReadFile(name)
		if err != nil || strings.Contains(string(b), "words") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARequestWhoseKeyIsGoneFails(t *testing.T) {
	w := newWorld(t)
	first, _ := w.start(&usual)
	w.mustAdd(first, "req_a", 2*time.Hour)
	_ = first.Close()
	s, ctx := w.start(&usual)
	s.Keys.Set = "another"
	if err := s.Open(ctx); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(90 * time.Minute)
	w.rounds(ctx, s, 3)
	w.mustHave(s, "req_a", 504, "")
}
