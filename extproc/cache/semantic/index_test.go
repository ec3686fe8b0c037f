package semantic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/policy"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func key(n int) (k cache.Key) {
	k[0], k[1] = byte(n>>8), byte(n)
	return k
}

func place(n int) (p semantic.Place) {
	p[0], p[1] = byte(n>>8), byte(n)
	return p
}

func row(n int) *semantic.Row {
	return &semantic.Row{Key: key(n), Text: fmt.Sprint("question ", n), Expires: start.Add(time.Minute)}
}

// keys are those of the rows at a place.
func keys(ix *semantic.Index, tenant policy.Account, p int, at time.Time) (out []int) {
	for _, r := range ix.Find(tenant, place(p), at) {
		out = append(out, int(r.Key[0])<<8|int(r.Key[1]))
	}
	return out
}

// TestAnUnavailableModelIsTriedAgain, in the background.
func TestAnUnavailableModelIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unavailable := errors.New("unavailable")
		e := &embedder{vector: func(text string) []float32 {
			v := make([]float32, 5)
			v[text[0]%5] = 1
			return v
		}}
		m := &semantic.Model{Embedder: e, Log: slog.New(slog.DiscardHandler)}
		for _, row := range []struct {
			err  error
			want bool
			pass time.Duration
		}{{unavailable, false, time.Second}, {nil, false, time.Minute}, {nil, true, time.Hour}, {unavailable, true, time.Hour}} {
			e.err = row.err
			m.Ready()
			synctest.Wait()
			if got := m.Ready(); got != row.want {
				t.Errorf("with %v it is ready: %v", row.err, got)
			}
			<-time.After(row.pass)
		}
	})
}

func TestRowsAreFoundAtTheirPlaces(t *testing.T) {
	ix := semantic.New(0)
	for n := range 6 {
		ix.Add("a", place(1), row(n))
	}
	ix.Add("a", place(2), row(6))
	ix.Add("b", place(1), row(7))
	if got := fmt.Sprint(keys(ix, "a", 1, start)); got != "[5 4 3 2]" || ix.Size() != 6 || ix.Has("a", key(1)) || !ix.Has("a", key(5)) {
		t.Errorf("the newest at a place are %s, of %d", got, ix.Size())
	}
	if got := fmt.Sprint(keys(ix, "b", 1, start), keys(ix, "b", 2, start), keys(ix, "c", 1, start)); got != "[7] [] []" {
		t.Errorf("others have %s", got)
	}
	ix.Remove("a", key(4))
	ix.Remove("a", key(4))
	ix.Remove("b", key(5))
	ix.Remove("c", key(5))
	ix.Add("a", place(2), row(3)) // the same key, at another place
	if got := fmt.Sprint(keys(ix, "a", 1, start), keys(ix, "a", 2, start)); got != "[5 2] [3 6]" || ix.Size() != 5 {
		t.Errorf("after removals %s, of %d", got, ix.Size())
	}
	if got := keys(ix, "a", 1, start.Add(time.Minute)); got != nil || ix.Size() != 3 || ix.Has("a", key(5)) {
		t.Errorf("expired rows are found, or kept: %v, of %d", got, ix.Size())
	}
}

// TestABannedPlaceStaysEmpty: otherwise two questions of one form and different meanings would be confused again.
func TestABannedPlaceStaysEmpty(t *testing.T) {
	ix := semantic.New(0)
	ban(t, ix, key(1))
	ix.Add("a", place(1), row(1))
	ix.Add("a", place(1), row(2))
	ix.Add("a", place(2), row(3))
	ban(t, ix, key(1))
	ban(t, ix, key(9))
	ix.Add("a", place(1), row(1))
	ix.Add("b", place(1), row(1))
	if got := fmt.Sprint(keys(ix, "a", 1, start), keys(ix, "a", 2, start), keys(ix, "b", 1, start)); got != "[] [3] [1]" || ix.Size() != 2 {
		t.Errorf("the places have %s", got)
	}
}

// TestTheLargestTenantMakesRoom: a full index removes the least recently used place of the tenant with the most rows.
func TestTheLargestTenantMakesRoom(t *testing.T) {
	ix := semantic.New(10)
	ix.Add("small", place(0), row(1000))
	for n := range 20 {
		ix.Add("large", place(n), row(n))
		keys(ix, "large", 0, start) // makes place 0 the most recently used
	}
	if ix.Size() != 10 || !ix.Has("small", key(1000)) || !ix.Has("large", key(0)) || ix.Has("large", key(1)) || !ix.Has("large", key(19)) {
		t.Errorf("%d rows are left, or the wrong ones", ix.Size())
	}
}

// embedder is a fake: its vectors are those of a function.
type embedder struct {
	mu     sync.Mutex
	texts  []string
	vector func(text string) []float32
	tag    string
	err    error
}

func (e *embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.texts = append(e.texts, text)
	if e.err != nil {
		return nil, e.err
	}
	return e.vector(text), ctx.Err()
}

func (*embedder) Threshold() float64 { return 0.92 }

func (e *embedder) Tag() string { return e.tag }

// angle is a vector of length 1.
func angle(cosine float64) []float32 {
	return []float32{float32(cosine), float32(math.Sqrt(1 - cosine*cosine)), 0, 0, 0}
}

func TestRowsAreRankedBySimilarity(t *testing.T) {
	ix := semantic.New(0)
	e := &embedder{tag: "m1", vector: func(text string) []float32 {
		return map[string][]float32{"question 1": angle(0.5), "question 2": angle(0.9), "asked": angle(1)}[text]
	}}
	for n := range 4 {
		ix.Add("a", place(0), row(n))
	}
	ix.Add("a", place(0), &semantic.Row{Key: key(3), Text: "asked", Expires: start.Add(time.Hour)})
	q := &semantic.Question{Tenant: "a", Text: "asked"}
	ix.Remove("a", key(0))
	got, err := ix.Rank(t.Context(), e, q, ix.Find("a", place(0), start))
	if err != nil || len(got) != 3 || got[0].Text != "asked" || got[0].Similarity != 1 || got[1].Text != "question 2" || math.Abs(got[1].Similarity-0.9) > 1e-6 || got[2].Text != "question 1" {
		t.Fatalf("%+v, %v", got, err)
	}
	if embedded := strings.Join(e.texts, ","); embedded != "asked,question 2,question 1" {
		t.Errorf("embedded were %s; an equal text needs no vector", embedded)
	}
	if _, err := ix.Rank(t.Context(), e, &semantic.Question{Tenant: "a", Text: "asked"}, ix.Find("a", place(0), start)); err != nil || len(e.texts) != 4 {
		t.Errorf("%v; vectors are made again: %v", err, e.texts)
	}
	e.tag = "m2"
	if _, err := ix.Rank(t.Context(), e, q, ix.Find("a", place(0), start)); err != nil || len(e.texts) != 7 {
		t.Errorf("%v; vectors of another model are compared: %v", err, e.texts)
	}
	e.err = errors.New("busy")
	ix.Add("a", place(0), row(9))
	if _, err := ix.Rank(t.Context(), e, q, ix.Find("a", place(0), start)); !errors.Is(err, e.err) {
		t.Errorf("the error is %v", err)
	}
}

// kept is a store of vectors.
type kept map[string][]float32

func (k kept) Lookup(_ context.Context, tag string, texts []string) [][]float32 {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = k[tag+" "+text]
	}
	return out
}

func (k kept) Put(tag, text string, vector []float32) { k[tag+" "+text] = vector }

// TestC18VectorsOfQuestionsAreKept: after a restart, or at another gateway, stored questions are not embedded again; the vector of the asked one is not stored.
func TestC18VectorsOfQuestionsAreKept(t *testing.T) {
	store := kept{}
	for i, want := range []string{"asked,question 1", "asked"} {
		e := &embedder{tag: "m1", vector: func(text string) []float32 {
			return map[string][]float32{"question 1": angle(0.5), "asked": angle(1)}[text]
		}}
		ix := semantic.New(0)
		ix.SetVectors(store)
		ix.Add("a", place(0), row(1))
		got, err := ix.Rank(t.Context(), e, &semantic.Question{Tenant: "a", Text: "asked"}, ix.Find("a", place(0), start))
		if embedded := strings.Join(e.texts, ","); err != nil || len(got) != 1 || math.Abs(got[0].Similarity-0.5) > 1e-6 || embedded != want || len(store) != 1 {
			t.Errorf("gateway %d: %+v, %v; embedded were %s, and %d vectors are stored", i, got, err, embedded, len(store))
		}
		e.tag = "m2"
		if i == 1 {
			if _, err := ix.Rank(t.Context(), e, &semantic.Question{Tenant: "a", Text: "asked"}, ix.Find("a", place(0), start)); err != nil || len(e.texts) != 3 {
				t.Errorf("%v; vectors of another model are compared: %v", err, e.texts)
			}
		}
	}
}

func TestCosine(t *testing.T) {
	for _, row := range []struct {
		a, b []float32
		want float64
	}{
		{[]float32{1, 2, 3, 4, 5, 6}, []float32{1, 1, 1, 1, 1, 2}, 27},
		{[]float32{1}, []float32{1, 0}, 0},
		{nil, nil, 0},
	} {
		if got := semantic.Cosine(row.a, row.b); got != row.want {
			t.Errorf("%v, %v: %v", row.a, row.b, got)
		}
	}
}

// TestK62AModelThatDoesNotTellTextsApartIsNotUsed, nor one that is not there.
func TestK62AModelThatDoesNotTellTextsApartIsNotUsed(t *testing.T) {
	different := func(text string) []float32 {
		v := make([]float32, 5)
		v[text[0]%5] = 1
		return v
	}
	for about, row := range map[string]struct {
		e    *embedder
		want bool
		log  string
	}{
		"sound":          {&embedder{vector: different}, true, ""},
		"constant":       {&embedder{vector: func(string) []float32 { return angle(1) }}, false, "does not tell texts apart"},
		"not normalized": {&embedder{vector: func(text string) []float32 { return append(different(text), 1) }}, false, "has length"},
		"absent":         {&embedder{err: errors.New("not installed")}, false, "not installed"},
	} {
		var log strings.Builder
		m := &semantic.Model{Embedder: row.e, Log: slog.New(slog.NewTextHandler(&log, nil))}
		err := m.Check()
		if got := m.Ready(); got != row.want || (err == nil) != row.want || !strings.Contains(log.String(), row.log) {
			t.Errorf("%s: ready is %v, %v; the log says %s", about, got, err, log.String())
		}
	}
}

func ban(t *testing.T, ix *semantic.Index, k cache.Key) {
	t.Helper()
	if err := ix.Ban(t.Context(), "a", k); err != nil {
		t.Error(err)
	}
}
