package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
)

// lab is a book on a file, with a clock.
type lab struct {
	*Book

	t      *testing.T
	path   string
	secret string
	now    time.Time
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, path: filepath.Join(t.TempDir(), "sessions.db"), now: time.Unix(1_800_000_000, 0)}
	l.open()
	return l
}

// open reopens the file, as a restart does.
func (l *lab) open() {
	l.t.Helper()
	clock := func() time.Time { return l.now }
	s, err := OpenSQLite(l.t.Context(), l.path, seal.Keys{Set: l.secret}, clock)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = s.Shut() })
	l.Book = New(s, clock)
}

// make makes a session of ada's; budget below 0 means none.
func (l *lab) make(parent *Session, budget policy.Micro, models ...string) (*Session, string, error) {
	l.t.Helper()
	s := &Session{Account: "ada", Models: models, Expires: l.now.Add(time.Hour)}
	if budget >= 0 {
		s.Budget = &budget
	}
	key, err := l.Create(l.t.Context(), s, parent)
	return s, key, err
}

func (l *lab) must(parent *Session, budget policy.Micro, models ...string) *Session {
	l.t.Helper()
	s, _, err := l.make(parent, budget, models...)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

func (l *lab) left(s *Session) policy.Micro {
	l.t.Helper()
	st, err := l.BudgetState(l.t.Context(), s)
	if err != nil {
		l.t.Fatal(err)
	}
	return st.Left
}

func TestK70FiveAtOnceWithASessionsBudgetForOne(t *testing.T) {
	l := newLab(t)
	s := l.must(nil, 100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	held := 0
	for range 5 {
		wg.Go(func() {
			if _, err := l.Reserve(t.Context(), s, 60); err == nil {
				mu.Lock()
				held++
				mu.Unlock()
			} else if e := (*SpentError)(nil); !errors.As(err, &e) || e.Left != 40 {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if held != 1 {
		t.Errorf("%d hold the budget", held)
	}
}

func TestWhatWasSpentOutlivesARestartAndCountsOnce(t *testing.T) {
	l := newLab(t)
	s := l.must(nil, 100)
	h, err := l.Reserve(t.Context(), s, 50)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Spend(t.Context(), s.ID, "req_1", 30); err != nil {
			t.Fatal(err)
		}
	}
	h.Release()
	h.Release()
	if left := l.left(s); left != 70 {
		t.Errorf("%d are left", left)
	}
	l.open()
	if left := l.left(s); left != 70 {
		t.Errorf("after a restart %d are left", left)
	}
}

func TestASubSessionHasAShareOfItsParentsBudget(t *testing.T) {
	l := newLab(t)
	top := l.must(nil, 100, "a", "b")
	for _, row := range []struct {
		budget policy.Micro
		models []string
	}{{-1, nil}, {101, nil}, {10, []string{"c"}}} {
		if _, _, err := l.make(top, row.budget, row.models...); !errors.Is(err, ErrShare) {
			t.Errorf("%+v: %v", row, err)
		}
	}
	sub := l.must(top, 60, "b")
	if !sub.Allows("b") || sub.Allows("a") || sub.Expires.After(top.Expires) || l.left(top) != 40 {
		t.Errorf("%+v, %d are left above", sub, l.left(top))
	}
	if _, err := l.Reserve(t.Context(), top, 50); err == nil {
		t.Error("the share is spent twice")
	}
	if err := l.Spend(t.Context(), sub.ID, "req_1", 25); err != nil {
		t.Fatal(err)
	}
	inner := l.must(sub, 20)
	if !inner.Allows("b") || inner.Allows("a") || l.left(sub) != 15 || l.left(top) != 40 {
		t.Errorf("%d and %d are left", l.left(sub), l.left(top))
	}
	if err := l.Close(t.Context(), sub.ID); err != nil {
		t.Fatal(err)
	}
	if now, err := l.Find(t.Context(), inner.ID); err != nil || !now.Closed || l.left(top) != 75 {
		t.Errorf("%+v, %v, %d are left above", now, err, l.left(top))
	}
	for s, n := top, 0; ; n++ {
		next, _, err := l.make(s, 1)
		if errors.Is(err, ErrFull) && n == maxDepth {
			break
		}
		if err != nil || n > maxDepth {
			t.Fatalf("%d levels: %v", n, err)
		}
		s = next
	}
}

func TestASessionEnds(t *testing.T) {
	l := newLab(t)
	s, key, err := l.make(nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	valid := true
	l.Owner = func(context.Context, policy.Account) (policy.Principal, bool, error) {
		return policy.Principal{Account: "ada"}, valid, nil
	}
	if p, ok, err := l.Principal(t.Context(), key); !ok || err != nil || p.Account != "ada" || p.Session != s.ID {
		t.Errorf("%+v, %v, %v", p, ok, err)
	}
	if _, ok, err := l.Principal(t.Context(), "bardo_sk_x"); ok || err != nil {
		t.Errorf("another kind of key: %v, %v", ok, err)
	}
	for _, bad := range []string{key + "x", key[:len(key)-1], "bardo_ss_", "bardo_ss_" + strings.Repeat("0", 30) + "_x"} {
		if _, ok, err := l.Principal(t.Context(), bad); !ok || !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v, %v", bad, ok, err)
		}
	}
	valid = false
	if _, _, err := l.Principal(t.Context(), key); !errors.Is(err, ErrEnded) {
		t.Errorf("of a revoked key: %v", err)
	}
	valid = true
	l.now = l.now.Add(time.Hour)
	if _, _, err := l.Principal(t.Context(), key); !errors.Is(err, ErrEnded) {
		t.Errorf("after its time: %v", err)
	}
	if now, err := l.Find(t.Context(), s.ID); err != nil || !now.Ended(l.now) {
		t.Errorf("%+v, %v", now, err)
	}
	if _, err := l.Reserve(t.Context(), s, 1); !errors.Is(err, ErrEnded) {
		t.Errorf("a request after its time: %v", err)
	}
	if _, err := l.Use(t.Context(), "bob", "", s.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("another account: %v", err)
	}
}

func TestASessionsKeyReachesWhatIsBelow(t *testing.T) {
	l := newLab(t)
	top, other := l.must(nil, 100), l.must(nil, -1)
	sub := l.must(l.must(top, 50), 20)
	if _, err := l.Use(t.Context(), "ada", top.ID, sub.ID); err != nil {
		t.Errorf("two levels below: %v", err)
	}
	for _, pair := range [][2]*Session{{sub, top}, {top, other}} {
		if _, err := l.Use(t.Context(), "ada", pair[0].ID, pair[1].ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("above or beside: %v", err)
		}
	}
}

func TestAScratchpadComparesAndSets(t *testing.T) {
	l := newLab(t)
	s := l.must(nil, -1)
	put := func(expected int64, want int64, wantErr error) {
		t.Helper()
		v, err := l.Put(t.Context(), s.ID, "k", expected, fmt.Append(nil, want))
		if v != want || !errors.Is(err, wantErr) {
			t.Errorf("version %d, %v; want %d, %v", v, err, want, wantErr)
		}
	}
	put(1, 0, ErrConflict) // it is not there
	put(0, 1, nil)
	put(0, 0, ErrConflict)
	put(1, 2, nil)
	put(1, 0, ErrConflict)
	put(-1, 3, nil)
	if e, err := l.Entry(t.Context(), s.ID, "k"); err != nil || e.Version != 3 || string(e.Value) != "3" {
		t.Errorf("%+v, %v", e, err)
	}
	if err := l.Remove(t.Context(), s.ID, "k", 2); !errors.Is(err, ErrConflict) {
		t.Errorf("another version: %v", err)
	}
	if err := l.Remove(t.Context(), s.ID, "k", 3); err != nil {
		t.Error(err)
	}
	if err := l.Remove(t.Context(), s.ID, "k", -1); !errors.Is(err, ErrUnknown) {
		t.Errorf("twice: %v", err)
	}
	for i := range maxEntries {
		if _, err := l.Put(t.Context(), s.ID, fmt.Sprint(i), -1, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Put(t.Context(), s.ID, "more", -1, []byte("1")); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := l.Put(t.Context(), s.ID, "0", -1, []byte("2")); err != nil {
		t.Errorf("an entry that is there: %v", err)
	}
	if all, err := l.Entries(t.Context(), s.ID); err != nil || len(all) != maxEntries || all[0].Key != "0" || all[0].Version != 2 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}

func TestCheckpointsAreRestoredByTheirIDs(t *testing.T) {
	l := newLab(t)
	s, other := l.must(nil, -1), l.must(nil, -1)
	var first Checkpoint
	for i := range maxCheckpoints {
		c := l.NewCheckpoint(fmt.Appendf(nil, `{"n":%d}`, i))
		if i == 0 {
			first = c
		}
		if err := l.AddCheckpoint(t.Context(), s.ID, &c); err != nil {
			t.Fatal(err)
		}
		l.now = l.now.Add(time.Second)
	}
	c := l.NewCheckpoint([]byte("{}"))
	if err := l.AddCheckpoint(t.Context(), s.ID, &c); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the limit: %v", err)
	}
	if got, err := l.Checkpoint(t.Context(), s.ID, first.ID); err != nil || string(got.State) != `{"n":0}` {
		t.Errorf("%s, %v", got.State, err)
	}
	if _, err := l.Checkpoint(t.Context(), other.ID, first.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("of another session: %v", err)
	}
	if all, err := l.Checkpoints(t.Context(), s.ID); err != nil || len(all) != maxCheckpoints || all[len(all)-1].ID != first.ID || all[0].State != nil {
		t.Errorf("%d, %v", len(all), err)
	}
}

// TestEverySessionIsForgottenInTheEnd, a week after its end, with all its data.
func TestEverySessionIsForgottenInTheEnd(t *testing.T) {
	l := newLab(t)
	s := l.must(nil, -1)
	if _, err := l.Put(t.Context(), s.ID, "k", -1, []byte("1")); err != nil {
		t.Fatal(err)
	}
	l.now = l.now.Add(retention + 2*time.Hour)
	l.must(nil, -1)
	if _, err := l.Find(t.Context(), s.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	if all, err := l.Entries(t.Context(), s.ID); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func FuzzIs(f *testing.F) {
	f.Add("ses_" + strings.Repeat("0f", idBytes))
	f.Add("ses_")
	f.Add("anything")
	f.Fuzz(func(t *testing.T, id string) {
		if IsID(id) && (len(id) != len(idPrefix)+2*idBytes || !strings.HasPrefix(id, idPrefix)) {
			t.Errorf("%q is an id", id)
		}
	})
}
