package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/sqlite"
)

// put stores a document of a session.
func (l *lab) put(s *Session, key, text string, life time.Duration) (Document, error) {
	l.t.Helper()
	d := l.NewDocument(s, key, life)
	d.Title, d.Source, d.Text = "about "+key, "notes/"+key, text
	for at := 0; at < len(text); at += 10 {
		d.Passages = append(d.Passages, Passage{Start: at, Stop: min(at+10, len(text)), Tag: "model-1", Vector: []float32{float32(at), -0.5}})
	}
	return d, l.Remember(l.t.Context(), s.ID, &d)
}

func (l *lab) mustPut(s *Session, key, text string, life time.Duration) Document {
	l.t.Helper()
	d, err := l.put(s, key, text, life)
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// passages are the passages of ada's session, as key:n.
func (l *lab) passages(s *Session) (out []string) {
	l.t.Helper()
	all, err := l.Passages(l.t.Context(), "ada", s.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s:%d", p.Key, p.N))
	}
	return out
}

// Without sessions nothing is written, and a request that names one is refused.
func TestC16NoFileIsCreatedBeforeTheFirstSession(t *testing.T) {
	l := newLab(t)
	none := Session{ID: newID(idPrefix)}
	if _, err := l.Find(t.Context(), none.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	if _, ok, err := l.Principal(t.Context(), keyPrefix+strings.TrimPrefix(none.ID, idPrefix)+"_x"); !ok || !errors.Is(err, ErrUnknown) {
		t.Errorf("a key: %t, %v", ok, err)
	}
	if err := l.Free(t.Context(), "req_1"); err != nil {
		t.Errorf("a request without a session: %v", err)
	}
	if got := l.passages(&none); got != nil {
		t.Errorf("%v", got)
	}
	l.open() // as a restart does
	if files, err := os.ReadDir(filepath.Dir(l.path)); err != nil || len(files) != 0 {
		t.Fatalf("there are %v, %v", files, err)
	}
	s := l.must(nil, -1)
	if info, err := os.Stat(l.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	l.open()
	if _, err := l.Find(t.Context(), s.ID); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// An agent's data is in the file only encrypted with the operator's key.
func TestC16WhatAnAgentStoresIsEncrypted(t *testing.T) {
	l := newLab(t)
	l.secret = "the operator's key"
	l.open()
	s := l.must(nil, -1)
	if _, err := l.Put(t.Context(), s.ID, "plan", 0, []byte(`"MARZIPAN"`)); err != nil {
		t.Fatal(err)
	}
	c := l.NewCheckpoint([]byte(`{"state":"MARZIPAN"}`))
	if err := l.AddCheckpoint(t.Context(), s.ID, &c); err != nil {
		t.Fatal(err)
	}
	l.mustPut(s, "sweets", "all about MARZIPAN", 0)
	for _, name := range []string{l.path, l.path + "-wal"} {
		if b, err := os.ReadFile(name); err != nil || strings.Contains(string(b), "MARZIPAN") || strings.Contains(string(b), "notes/sweets") {
			t.Errorf("%s has what is stored, %v", name, err)
		}
	}
	read := func() (all string, err error) {
		e, err := l.Entry(t.Context(), s.ID, "plan")
		got, err2 := l.Checkpoint(t.Context(), s.ID, c.ID)
		d, err3 := l.Document(t.Context(), s.ID, "sweets")
		return string(e.Value) + string(got.State) + d.Text + d.Source, errors.Join(err, err2, err3)
	}
	const want = `"MARZIPAN"{"state":"MARZIPAN"}all about MARZIPANnotes/sweets`
	if got, err := read(); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if list, err := l.Entries(t.Context(), s.ID); err != nil || list[0].Bytes != 10 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, other := range []string{"another", ""} {
		l.secret = other
		l.open()
		if got, err := read(); !errors.Is(err, ErrKey) || strings.Contains(got, "MARZIPAN") {
			t.Errorf("with the key %q: %s, %v", other, got, err)
		}
		if _, err := l.Passages(t.Context(), "ada", s.ID); !errors.Is(err, ErrKey) {
			t.Errorf("vectors with the key %q: %v", other, err)
		}
	}
}

// A file of the first version had values as they were.
func TestC16AFileOfTheFirstVersionIsBroughtForward(t *testing.T) {
	l := newLab(t)
	db, err := sqlite.Open(l.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{ID: newID(idPrefix)}
	if err := sqlite.Prepare(t.Context(), db, sqlite.Script(schema)); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		`INSERT INTO session (id, account, depth, golem, models, at, expires, secret) VALUES (?1, 'ada', 0, '', '[]', 1, 1800003600000000, x'')`,
		`INSERT INTO pad (session, key, version, value) VALUES (?1, 'plan', 7, CAST('"old"' AS BLOB))`, `INSERT INTO checkpoint (session, id, at, state) VALUES (?1, 'chk_1', 1, CAST('{}' AS BLOB))`,
	} {
		if _, err := db.ExecContext(t.Context(), query, s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l.secret = "k"
	l.open()
	if e, err := l.Entry(t.Context(), s.ID, "plan"); err != nil || string(e.Value) != `"old"` || e.Version != 7 || e.Bytes != 5 {
		t.Errorf("%+v, %v", e, err)
	}
	if c, err := l.Checkpoint(t.Context(), s.ID, "chk_1"); err != nil || string(c.State) != `{}` || c.Bytes != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	b, err := os.ReadFile(l.path)
	wal, _ := os.ReadFile(l.path + "-wal")
	if err != nil || strings.Contains(string(wal), `"old"`) {
		t.Errorf("the old value is in the log, %d bytes, %v", len(b), err)
	}
}

func TestC17DocumentsAreKeptByKey(t *testing.T) {
	l := newLab(t)
	s, other := l.must(nil, -1), l.must(nil, -1)
	first := l.mustPut(s, "b", strings.Repeat("0123456789", 2)+"x", 0)
	l.mustPut(s, "a", "short", time.Minute)
	l.mustPut(other, "a", "another's", 0)
	if got := l.passages(s); !slices.Equal(got, []string{"a:0", "b:0", "b:1", "b:2"}) {
		t.Errorf("%v", got)
	}
	if all, err := l.Passages(t.Context(), "eve", s.ID); err != nil || len(all) != 0 {
		t.Errorf("another account gets %v, %v", all, err)
	}
	l.open()
	all, err := l.Documents(t.Context(), s.ID)
	if err != nil || len(all) != 2 || all[1].Key != "b" || all[1].Title != "about b" || all[1].Bytes != 21 || all[1].Text != "" || all[1].ID != first.ID || !all[1].Expires.Equal(s.Expires) {
		t.Errorf("%+v, %v", all, err)
	}
	ps, err := l.Passages(t.Context(), "ada", s.ID)
	if err != nil || ps[2].Start != 10 || ps[2].Stop != 20 || ps[2].Tag != "model-1" || !slices.Equal(ps[2].Vector, []float32{10, -0.5}) {
		t.Errorf("%+v, %v", ps, err)
	}
	ps[2].Tag, ps[2].Vector = "model-2", []float32{1}
	if err := l.SetVector(t.Context(), s.ID, &ps[2]); err != nil {
		t.Error(err)
	}
	if ps, err = l.Passages(t.Context(), "ada", s.ID); err != nil || ps[2].Tag != "model-2" || !slices.Equal(ps[2].Vector, []float32{1}) || ps[1].Tag != "model-1" {
		t.Errorf("%+v, %v", ps, err)
	}
	again := l.mustPut(s, "b", "new", 0)
	if d, err := l.Document(t.Context(), s.ID, "b"); err != nil || d.Text != "new" || d.ID != again.ID || d.ID == first.ID {
		t.Errorf("%+v, %v", d, err)
	}
	l.now = l.now.Add(2 * time.Minute)
	if got := l.passages(s); !slices.Equal(got, []string{"b:0"}) {
		t.Errorf("after a document has expired: %v", got)
	}
	if _, err := l.Document(t.Context(), s.ID, "a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	if err := l.Forget(t.Context(), s.ID, "a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	if err := l.Forget(t.Context(), s.ID, "b"); err != nil || l.passages(s) != nil {
		t.Errorf("%v, %v", err, l.passages(s))
	}
	if got := l.passages(other); len(got) != 1 {
		t.Errorf("the other session has %v", got)
	}
}

func TestC17TheMemoryOfASessionIsBounded(t *testing.T) {
	l := newLab(t)
	s := l.must(nil, -1)
	long := strings.Repeat("x", MaxDocument)
	for i := range maxTextBytes / MaxDocument {
		l.mustPut(s, fmt.Sprint("long", i), long, time.Minute)
	}
	if _, err := l.put(s, "more", "x", 0); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the bytes of a session: %v", err)
	}
	l.mustPut(s, "long0", "it takes its own place", 0)
	l.now = l.now.Add(time.Hour / 2) // the long ones expire, which makes room
	for i := range maxDocuments - 1 {
		d := Document{Key: fmt.Sprint(i), ID: newID("mem_"), At: l.now, Expires: s.Expires, Text: "x"}
		if err := l.Remember(t.Context(), s.ID, &d); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := l.put(s, "more", "x", 0); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the documents of a session: %v", err)
	}
	if _, err := l.put(s, "0", "in place of another", 0); err != nil {
		t.Error(err)
	}
	stored := func() (n int) {
		t.Helper()
		if err := l.Store.(*SQLite).db.QueryRowContext(t.Context(), `SELECT bytes FROM session WHERE id = ?`, s.ID).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := stored()
	l.mustPut(s, "0", strings.Repeat("x", 1000), 0)
	if n := stored(); n != before-len("in place of another")+1000 { // it counts in what the account may store
		t.Errorf("the session stores %d bytes, and %d before", n, before)
	}
	if err := l.Forget(t.Context(), s.ID, "0"); err != nil || stored() != before-len("in place of another") {
		t.Errorf("%v, the session stores %d bytes", err, stored())
	}
	if _, err := l.Store.(*SQLite).db.ExecContext(t.Context(), `UPDATE session SET bytes = ? WHERE id = ?`, maxBytes-10, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := l.put(s, "more", strings.Repeat("x", 11), 0); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the bytes of an account: %v", err)
	}
}
