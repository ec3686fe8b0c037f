package disk_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/cachetest"
	"bardo.money/gateway/extproc/cache/disk"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// caches are a gateway's, with their file.
type caches struct {
	file  *disk.File
	store *cache.Store
	index *semantic.Index
	log   strings.Builder
	lost  int
	had   int // entries that the file had
}

func open(t *testing.T, path, secret string, size int64) *caches {
	t.Helper()
	c := &caches{index: semantic.New(0)}
	var err error
	if c.file, err = disk.Open(t.Context(), disk.Options{Path: path, Secret: []byte(secret), Log: slog.New(slog.NewTextHandler(&c.log, nil)), Lost: func(n int) { c.lost += n }}); err != nil {
		t.Fatal(err)
	}
	c.store = cache.New(cache.Options{MaxBytes: size, Added: c.file.Added, Removed: func(a policy.Account, k cache.Key) {
		c.index.Remove(a, k)
		c.file.Removed(a, k)
	}})
	if c.had, err = c.file.Load(t.Context(), c.store, c.index); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close(t) })
	return c
}

func (c *caches) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.file.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (c *caches) put(tenant policy.Account, n byte, text string, change func(*cache.Ticket)) {
	q := c.store.Ticket(tenant, cache.Key{n}, cache.Format{}, cache.Control{MaxAge: cache.Unbounded}, time.Hour)
	if change != nil {
		change(q)
	}
	for _, ev := range []chat.Event{{Kind: chat.Start}, {Kind: chat.Text, Text: []byte(text)}, {Kind: chat.End}} {
		q.Record(&ev)
	}
	q.Finish(cache.Served{By: policy.Resolution{Provider: "p", Model: "m"}, Cost: 7})
}

// TestTheStoreDoesWhatAStoreMust: with a file behind it, too.
func TestTheStoreDoesWhatAStoreMust(t *testing.T) {
	cachetest.Run(t, func(t *testing.T, bytes int64) *cachetest.Gateway {
		t.Helper()
		c := open(t, filepath.Join(t.TempDir(), "cache.db"), "secret", bytes)
		return &cachetest.Gateway{Store: c.store, Index: c.index}
	})
}

// texts are what a tenant's entries say, in no order.
func (c *caches) texts(tenant policy.Account) string {
	out := map[string]bool{}
	l, _ := c.store.List(context.Background(), tenant) // of memory: it does not fail
	for _, e := range l.Entries {
		for ev := range e.Events {
			if ev.Kind == chat.Text {
				out[string(ev.Text)] = true
			}
		}
	}
	return fmt.Sprint(out)
}

// TestC14StoredAnswersOutliveARestart: with their questions, and without those that were removed, or must not be written.
func TestC14StoredAnswersOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	c := open(t, path, "secret", 0)
	c.put("a", 1, "the first answer", func(q *cache.Ticket) { q.Market = cache.Market{Agent: "g", Regime: "calm"} })
	c.index.Add("a", semantic.Place{5}, &semantic.Row{Key: cache.Key{1}, Text: "the question", Expires: time.Now().Add(time.Hour)})
	c.put("a", 2, "a removed answer", nil)
	c.put("b", 1, "another key's answer", nil)
	c.put("b", 3, "a confidential answer", func(q *cache.Ticket) { q.Private = true })
	c.put("b", 1, "its newer answer", nil)
	_, _ = c.store.Remove(t.Context(), "a", func(e *cache.Entry) bool { return e.Key == cache.Key{2} })
	c.close(t)
	for _, ending := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + ending)
		if err != nil && ending == "" {
			t.Fatal(err)
		}
		for _, secret := range []string{"first", "question", "newer", "confidential", "calm"} {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s%s holds %q", path, ending, secret)
			}
		}
	}
	again := open(t, path, "secret", 0)
	if a, b := again.texts("a"), again.texts("b"); again.had != 2 || a != "map[the first answer:true]" || b != "map[its newer answer:true]" || again.log.Len() > 0 {
		t.Errorf("%d entries are read: %s, %s; %s", again.had, a, b, again.log.String())
	}
	if rows := again.index.Find("a", semantic.Place{5}, time.Now()); len(rows) != 1 || rows[0].Text != "the question" || rows[0].Key != (cache.Key{1}) || rows[0].Vector != nil {
		t.Errorf("questions %+v", rows)
	}
	again.store.Enter("a", "g", "wild") // the regime has changed while the gateway was stopped
	_, _, _ = again.store.Flush(t.Context(), "b")
	again.close(t)
	if last := open(t, path, "secret", 0); last.had != 0 {
		t.Errorf("removed entries come back: %d", last.had)
	}
}

// TestAFileThatCannotBeReadIsDiscarded: one of another key is emptied; one that is broken, or another program's, is moved aside as it is.
func TestAFileThatCannotBeReadIsDiscarded(t *testing.T) {
	other := func(t *testing.T, path string) {
		t.Helper()
		db, err := sql.Open("sqlite3", "file:"+path)
		if err == nil {
			_, err = db.ExecContext(t.Context(), "CREATE TABLE money (n); INSERT INTO money VALUES (7)")
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for about, row := range map[string]struct {
		spoil func(t *testing.T, path string)
		key   string
		log   string
		aside bool
	}{
		"another key": {func(*testing.T, string) {}, "other", "discarded", false},
		"not a database": {func(t *testing.T, path string) {
			t.Helper()
			write(t, path, []byte("some text, which is no database at all"))
		}, "secret", "moved aside", true},
		"another program": {func(t *testing.T, path string) { t.Helper(); remove(t, path); other(t, path) }, "secret", "moved aside", true},
		"a broken page": {func(t *testing.T, path string) {
			t.Helper()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, append(b[:100:100], bytes.Repeat([]byte{0xFF}, len(b)-100)...))
		}, "secret", "moved aside", true},
	} {
		t.Run(about, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache.db")
			c := open(t, path, "secret", 0)
			c.put("a", 1, "answer", nil)
			c.close(t)
			row.spoil(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			again := open(t, path, row.key, 0)
			if again.had != 0 || !strings.Contains(again.log.String(), row.log) {
				t.Errorf("%d entries are read; the log says %s", again.had, again.log.String())
			}
			if aside, err := os.ReadFile(path + ".discarded"); row.aside != (err == nil) || row.aside && !bytes.Equal(aside, before) {
				t.Errorf("%v; moved aside are %d bytes of %d", err, len(aside), len(before))
			}
			again.put("a", 2, "new", nil)
			again.close(t)
			if last := open(t, path, row.key, 0); last.had != 1 || last.texts("a") != "map[new:true]" {
				t.Errorf("%d entries are read the next time: %s", last.had, last.log.String())
			}
		})
	}
}

// TestABrokenRowIsDiscardedAlone: one whose content was changed, or put in another's place.
func TestABrokenRowIsDiscardedAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	c := open(t, path, "secret", 0)
	for n := range byte(4) {
		c.put("a", n, fmt.Sprint("answer ", n), nil)
	}
	c.close(t)
	db, err := sql.Open("sqlite3", "file:"+path)
	if err == nil {
		_, err = db.ExecContext(t.Context(), `UPDATE answers SET body = (SELECT body FROM answers WHERE expires > 0 ORDER BY id LIMIT 1) WHERE expires > 0 AND id <> (SELECT id FROM answers WHERE expires > 0 ORDER BY id DESC LIMIT 1)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, "secret", 0)
	if again.had != 2 || !strings.Contains(again.log.String(), "entries=2") {
		t.Errorf("%d entries are read: %s", again.had, again.log.String())
	}
}

// TestAFileIsForOneGateway, and a place that cannot be written is an error.
func TestAFileIsForOneGateway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	open(t, path, "secret", 0)
	for _, p := range []string{path, filepath.Join(t.TempDir(), "no", "cache.db"), t.TempDir()} {
		if f, err := disk.Open(t.Context(), disk.Options{Path: p, Secret: []byte("secret"), Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s is opened: %v", p, f.Close(t.Context()))
		}
	}
	if _, err := os.Stat(path + ".discarded"); err == nil {
		t.Error("the file of another gateway is moved aside")
	}
}

// TestTheQueueIsBounded: what cannot be written in time is dropped, and counted; the newest entries find room in a smaller memory.
func TestTheQueueIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	c := open(t, path, "secret", 256<<20)
	for n := range byte(40) {
		c.put("a", n, strings.Repeat(string('a'+rune(n%26)), 1<<20), nil)
	}
	c.close(t)
	if c.lost == 0 {
		t.Error("40 MiB are pending")
	}
	again := open(t, path, "secret", 8<<20)
	if _, size := again.store.Size(); again.had != 40-c.lost || size > 8<<20 {
		t.Errorf("%d entries are read after %d were lost; %d bytes", again.had, c.lost, size)
	}
	l, err := again.store.List(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	left := len(l.Entries)
	again.close(t)
	if last := open(t, path, "secret", 256<<20); last.had != left {
		t.Errorf("%d entries are read, %d were left", last.had, left)
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
