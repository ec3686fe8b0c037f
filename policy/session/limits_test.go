package session

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
)

// TestWhatADeferredRequestHoldsOutlivesARestart, until its cost is counted, it is freed, or its time has ended.
func TestWhatADeferredRequestHoldsOutlivesARestart(t *testing.T) {
	l := newLab(t)
	parent := l.must(nil, 200)
	s := l.must(parent, 100)
	stand := func(request string) {
		t.Helper()
		h, err := l.Reserve(t.Context(), s, 60)
		if err == nil {
			err = h.Persist(t.Context(), request, l.now.Add(time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
	}
	stand("req_1")
	l.open()
	if left := l.left(s); left != 40 {
		t.Errorf("%d are left", left)
	}
	if _, err := l.Reserve(t.Context(), s, 60); err == nil {
		t.Error("the budget was given twice")
	}
	if err := l.Spend(t.Context(), s.ID, "req_1", 30); err != nil || l.left(s) != 70 {
		t.Errorf("%v, %d are left", err, l.left(s))
	}
	stand("req_2")
	if err := l.Close(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if left := l.left(parent); left != 200-30-60 {
		t.Errorf("the parent has %d left, while a request of an ended sub-session is to come", left)
	}
	if err := l.Free(t.Context(), "req_2"); err != nil || l.left(parent) != 170 {
		t.Errorf("%v, %d are left", err, l.left(parent))
	}
	s = l.must(parent, 100)
	stand("req_3")
	l.now = l.now.Add(2 * time.Hour)
	if left := l.left(s); left != 100 {
		t.Errorf("after the time of the request %d are left", left)
	}
}

// TestWhatADeletedSubSessionUsedStaysUsed: its parent may live for weeks longer.
func TestWhatADeletedSubSessionUsedStaysUsed(t *testing.T) {
	l := newLab(t)
	parent := &Session{Account: "ada", Expires: l.now.Add(MaxLife), Budget: new(policy.Micro(100))}
	if _, err := l.Create(t.Context(), parent, nil); err != nil {
		t.Fatal(err)
	}
	child := l.must(parent, 50)
	grandchild := l.must(child, 40)
	for i, id := range []string{grandchild.ID, child.ID, parent.ID} {
		if err := l.Spend(t.Context(), id, fmt.Sprint("req_", i), 10); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // the lowest first
		l.now = l.now.Add(retention + 2*time.Hour)
		l.must(nil, -1)
		if left := l.left(parent); left != 70 {
			t.Errorf("%d are left", left)
		}
	}
	if _, err := l.Find(t.Context(), child.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// TestOnlySoManySessionsAreKept of those that ended: what an account's requests search is bounded.
func TestOnlySoManySessionsAreKept(t *testing.T) {
	l := newLab(t)
	root := l.must(nil, -1)
	for range maxEnded + 5 {
		if err := l.Close(t.Context(), l.must(root, -1).ID); err != nil {
			t.Fatal(err)
		}
		l.now = l.now.Add(time.Millisecond)
	}
	count := func() int {
		below, err := l.Children(t.Context(), root.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(below)
	}
	if n := count(); n != maxEnded+5 {
		t.Errorf("%d are kept", n)
	}
	l.now = l.now.Add(endedRecently / 2)
	root2 := l.must(nil, -1)
	l.now = l.now.Add(endedRecently)
	_ = root2
	l.must(nil, -1)
	if n := count(); n >= maxEnded+5 || n < maxEnded-5 {
		t.Errorf("an hour later %d are kept", n)
	}
}

// TestTheSessionsOfAnAccountStoreSoMuchTogether, whether they are over or not.
func TestTheSessionsOfAnAccountStoreSoMuchTogether(t *testing.T) {
	l := newLab(t)
	state := make([]byte, MaxState)
	store := l.Store.(*SQLite)
	for n := 0; n < maxBytes; {
		s := l.must(nil, -1)
		if _, err := store.db.ExecContext(t.Context(), `UPDATE session SET bytes = ? WHERE id = ?`, 40<<20, s.ID); err != nil {
			t.Fatal(err)
		}
		n += 40 << 20
	}
	s := l.must(nil, -1)
	c := l.NewCheckpoint(state)
	if err := l.AddCheckpoint(t.Context(), s.ID, &c); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	if _, err := l.Put(t.Context(), s.ID, "k", -1, []byte("1")); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	bob := &Session{Account: "bob", Expires: l.now.Add(time.Hour)}
	if _, err := l.Create(t.Context(), bob, nil); err != nil {
		t.Fatal(err)
	}
	bytes := func() (n int) {
		if err := store.db.QueryRowContext(t.Context(), `SELECT bytes FROM session WHERE id = ?`, bob.ID).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := l.AddCheckpoint(t.Context(), bob.ID, &c); err != nil || bytes() != MaxState {
		t.Errorf("%v, %d", err, bytes())
	}
	for _, value := range []string{"1", "12345", "123"} {
		if _, err := l.Put(t.Context(), bob.ID, "k", -1, []byte(value)); err != nil || bytes() != MaxState+len(value) {
			t.Errorf("%v, %d", err, bytes())
		}
	}
	if err := l.Remove(t.Context(), bob.ID, "k", -1); err != nil || bytes() != MaxState {
		t.Errorf("%v, %d", err, bytes())
	}
}

// TestAFileOfTheFirstVersionIsUpgraded with what is in it.
func TestAFileOfTheFirstVersionIsUpgraded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `CREATE TABLE session (id TEXT PRIMARY KEY, account TEXT NOT NULL, parent TEXT REFERENCES session (id), depth INTEGER NOT NULL, golem TEXT NOT NULL,
	models TEXT NOT NULL, budget INTEGER, at INTEGER NOT NULL, expires INTEGER NOT NULL, closed INTEGER, secret BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE spent (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE, request TEXT NOT NULL, micro INTEGER NOT NULL, PRIMARY KEY (session, request)) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE, id TEXT NOT NULL, at INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (session, id)) STRICT, WITHOUT ROWID;
CREATE TABLE pad (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE, key TEXT NOT NULL, version INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (session, key)) STRICT, WITHOUT ROWID;
INSERT INTO session VALUES ('ses_1', 'ada', NULL, 0, '', '[]', 100, 1, 1e18, NULL, x'00');
INSERT INTO spent VALUES ('ses_1', 'req_1', 30);
INSERT INTO pad VALUES ('ses_1', 'k', 1, x'3131');
PRAGMA user_version = 1`)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSQLite(t.Context(), path, seal.Keys{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shut() })
	b := New(s, nil)
	found, err := b.Find(t.Context(), "ses_1")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Spend(t.Context(), "ses_1", "req_2", 10); err != nil {
		t.Fatal(err)
	}
	if st, err := b.BudgetState(t.Context(), &found); err != nil || st.Used != 40 || st.Left != 60 {
		t.Errorf("%+v, %v", st, err)
	}
}
