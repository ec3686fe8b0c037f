package vectors_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/models/vectors"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.StopShared()
	os.Exit(code)
}

// looked counts the results of lookups.
type looked struct {
	mu sync.Mutex
	n  map[vectors.Outcome]int
}

func (l *looked) add(result vectors.Outcome, texts int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n[result] += texts
}

func (l *looked) of(result vectors.Outcome) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[result]
}

// gateway is the store of one gateway.
type gateway struct {
	*vectors.Store
	looked *looked
}

func connect(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := postgres.Connect(t.Context(), url, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// open opens the store of a gateway, and waits until it answers if it should.
func open(t *testing.T, url string, o vectors.Options) gateway {
	t.Helper()
	g := gateway{looked: &looked{n: make(map[vectors.Outcome]int)}}
	o.DB, o.Looked, o.Log = connect(t, url), g.looked.add, slog.New(slog.DiscardHandler)
	if o.Secret == nil {
		o.Secret = []byte("secret")
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	var err error
	if g.Store, err = vectors.Open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.close(t) })
	return g
}

func (g gateway) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (g gateway) ready(t *testing.T) gateway {
	t.Helper()
	polltest.Until(t, "the store", func() bool { return g.Problem() == nil })
	return g
}

// knows waits until a gateway finds a text's vector.
func (g gateway) knows(t *testing.T, tag, text string, want []float32) {
	t.Helper()
	polltest.Until(t, "the vector of "+text, func() bool { return slices.Equal(g.Lookup(t.Context(), tag, []string{text})[0], want) })
}

// TestC18GatewaysShareVectorsInPostgres: another gateway finds the vectors of one, also after both have ended; vectors of another model or secret are
// not found.
func TestC18GatewaysShareVectorsInPostgres(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	one, two := open(t, url, vectors.Options{}), open(t, url, vectors.Options{}) // both make the table
	one.ready(t)
	two.ready(t)
	if got := two.Lookup(t.Context(), "m1", []string{"a", "b"}); got[0] != nil || got[1] != nil || two.looked.of(vectors.Absent) != 2 {
		t.Errorf("an empty store has %v", got)
	}
	for range 3 { // rows of one batch may be the same
		one.Put("m1", "a", []float32{0.5, -0.25})
	}
	two.Put("m1", "c", []float32{1, 0})
	two.knows(t, "m1", "a", []float32{0.5, -0.25})
	one.knows(t, "m1", "c", []float32{1, 0})
	if got := two.Lookup(t.Context(), "m1", []string{"b", "a"}); got[0] != nil || !slices.Equal(got[1], []float32{0.5, -0.25}) {
		t.Errorf("of two texts it has %v", got)
	}
	if got := two.Lookup(t.Context(), "m2", []string{"a"}); got[0] != nil {
		t.Errorf("another model's vector is %v", got)
	}
	if got := two.Lookup(t.Context(), "m", []string{"1a"}); got[0] != nil {
		t.Errorf("the name of the model and the text run together: %v", got)
	}
	if got := open(t, url, vectors.Options{Secret: []byte("other")}).ready(t).Lookup(t.Context(), "m1", []string{"a"}); got[0] != nil {
		t.Errorf("with another secret there is %v", got)
	}
	one.Put("m1", "last", []float32{1})
	one.close(t)
	two.close(t)
	if got := open(t, url, vectors.Options{}).ready(t).Lookup(t.Context(), "m1", []string{"a", "last"}); got[0] == nil || got[1] == nil {
		t.Errorf("after a restart there is %v", got)
	}
}

// TestC18PostgresHoldsNoVectorInClear: texts and vectors cannot be read there, and a vector that was moved to another text is not used.
func TestC18PostgresHoldsNoVectorInClear(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	g := open(t, url, vectors.Options{}).ready(t)
	v := []float32{1, 1, 1, 1, 1, 1, 1, 1}
	g.Put("TAGMARKER", "TEXTMARKER", v)
	g.Put("TAGMARKER", "other", []float32{0, 1})
	g.knows(t, "TAGMARKER", "TEXTMARKER", v)
	g.knows(t, "TAGMARKER", "other", []float32{0, 1})
	db := connect(t, url)
	var all []byte
	if err := db.QueryRowContext(t.Context(), `SELECT string_agg(id || vector, '') FROM vectors`).Scan(&all); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"MARKER", "other", "\x00\x00\x80\x3f\x00\x00\x80\x3f"} {
		if bytes.Contains(all, []byte(secret)) {
			t.Errorf("the database holds %q", secret)
		}
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE vectors SET vector = (SELECT max(vector) FROM vectors)`); err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, got := range g.Lookup(t.Context(), "TAGMARKER", []string{"TEXTMARKER", "other"}) {
		if got != nil {
			left++
		}
	}
	if left != 1 {
		t.Errorf("of two texts with one vector %d are found", left)
	}
}

// TestC18TheRowsInPostgresAreBounded: the least recently used are deleted, and a lookup is a use.
func TestC18TheRowsInPostgresAreBounded(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	g := open(t, url, vectors.Options{}).ready(t)
	for i := range 6 {
		g.Put("m", fmt.Sprint(i), []float32{float32(i)})
	}
	db := connect(t, url)
	rows := func() (n int) {
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM vectors`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	polltest.Until(t, "six rows", func() bool { return rows() == 6 })
	if _, err := db.ExecContext(t.Context(), `UPDATE vectors SET used = current_date - 3`); err != nil {
		t.Fatal(err)
	}
	g.Lookup(t.Context(), "m", []string{"2", "5"})
	polltest.Until(t, "the uses", func() bool {
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM vectors WHERE used >= current_date - 1`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 2
	})
	small := open(t, url, vectors.Options{Rows: 2}).ready(t)
	got := small.Lookup(t.Context(), "m", []string{"0", "2", "4", "5"})
	if n := rows(); n != 2 || got[0] != nil || got[1] == nil || got[2] != nil || got[3] == nil {
		t.Errorf("%d rows are left, and found is %v", n, got)
	}
}

// TestC18PostgresThatIsAwayIsAMiss: without the database lookups are misses, nothing fails, and the database is used again once it is back.
func TestC18PostgresThatIsAwayIsAMiss(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	url := server.Database(t)
	g := open(t, url, vectors.Options{}).ready(t)
	g.Put("m", "a", []float32{1})
	g.knows(t, "m", "a", []float32{1})
	server.Kill(t)
	polltest.Until(t, "the failure", func() bool {
		if got := g.Lookup(t.Context(), "m", []string{"a"}); got[0] != nil {
			t.Errorf("found is %v", got)
		}
		return g.Problem() != nil
	})
	failed := g.looked.of(vectors.Failed)
	g.Lookup(t.Context(), "m", []string{"a"})
	g.Put("m", "b", []float32{1})
	if g.looked.of(vectors.Bypassed) == 0 || failed == 0 || g.looked.of(vectors.Failed) != failed {
		t.Errorf("looked up while it is away: %+v", g.looked.n)
	}
	late := open(t, url, vectors.Options{}) // started meanwhile
	if got := late.Lookup(t.Context(), "m", []string{"a"}); got[0] != nil || late.Problem() == nil || late.looked.of(vectors.Bypassed) != 1 {
		t.Errorf("a gateway that starts meanwhile finds %v, %v", got, late.Problem())
	}
	server.Restart(t)
	g.knows(t, "m", "a", []float32{1})
	late.ready(t).knows(t, "m", "a", []float32{1})
	if got := g.Lookup(t.Context(), "m", []string{"b"}); got[0] != nil {
		t.Errorf("what was made meanwhile was kept: %v", got)
	}
}

// TestC18ALookupInPostgresIsNotWaitedFor: while the database does not answer, a lookup ends at its timeout, or with its request; after three no more
// are sent.
func TestC18ALookupInPostgresIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	g := open(t, url, vectors.Options{Timeout: 200 * time.Millisecond}).ready(t)
	g.Put("m", "a", []float32{1})
	db := connect(t, url)
	polltest.Until(t, "the row", func() (there bool) {
		if err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM vectors)`).Scan(&there); err != nil {
			t.Fatal(err)
		}
		return there
	})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // it ends the lock
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE vectors IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := g.Lookup(gone, "m", []string{"a"}); got[0] != nil || g.Problem() != nil {
		t.Errorf("a request that has ended finds %v, %v", got, g.Problem())
	}
	for g.Problem() == nil {
		if got := g.Lookup(t.Context(), "m", []string{"a"}); got[0] != nil {
			t.Fatalf("a lookup that the database does not answer finds %v", got)
		}
	}
	if n := g.looked.of(vectors.Failed); n > 4 {
		t.Errorf("%d lookups were waited for", n)
	}
}
