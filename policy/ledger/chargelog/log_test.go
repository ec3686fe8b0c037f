package chargelog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
)

var monday = time.UnixMicro(1_700_000_000_123_456)

func sample(id string) *Entry {
	return &Entry{
		Prepaid: true, Paid: 7,
		Charge: &Charge{
			RequestID: id, Account: "k", Amount: 9, ProviderCost: math.MaxInt64, Tokens: Tokens{1, 2, 3, 4, 1 << 50}, Provider: "p", Model: "m",
			Subsystem: "risk", Status: "ok", Record: []byte(`{"a":1}`), At: monday, Agent: "g", Part: "dream", Staked: 3,
			Savings: []policy.Saving{{Layer: "l4", Tokens: 11_800, Amount: 4720}, {Layer: "l1", Amount: -35}},
		},
	}
}

func TestEntriesAreReadAsTheyWereWritten(t *testing.T) {
	for name, e := range map[string]*Entry{
		"a charge":         sample("r"),
		"nothing known":    {Charge: &Charge{At: time.UnixMicro(0)}},
		"standing":         {Charge: &Charge{RequestID: "r", At: monday}, Prepaid: true, Paid: 5, Standing: 70_000},
		"from the balance": {Charge: &Charge{RequestID: "r", At: monday}, Prepaid: true, Open: true},
		"resources":        {Resources: []StoredResource{{"file-1", "k", "p"}, {"batch", "", ""}}, ResourcesAt: 12},
		"an early time":    {Charge: &Charge{At: time.UnixMicro(-5)}},
	} {
		t.Run(name, func(t *testing.T) {
			b := e.encode(nil)
			have, err := decode(b)
			if err != nil || !reflect.DeepEqual(have, e) {
				t.Errorf("%+v, %v, want %+v", have, err, e)
			}
			for n := range b {
				if _, err := decode(b[:n]); err == nil {
					t.Errorf("%d of %d bytes are an entry", n, len(b))
				}
			}
		})
	}
}

// TestAnEntryOfAnEarlierVersionIsRead: the encoding of an entry without savings is unchanged.
func TestAnEntryOfAnEarlierVersionIsRead(t *testing.T) {
	with, without := sample("r"), sample("r")
	without.Charge.Savings = nil
	old := without.encode(nil)
	if b := with.encode(nil); b[0] == old[0] || !bytes.Equal(b[1:len(old)], old[1:]) {
		t.Error("savings changed what stands before them")
	}
	if e, err := decode(old); err != nil || !reflect.DeepEqual(e, without) {
		t.Errorf("%+v %v", e, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample("r").encode(nil))
	f.Add((&Entry{Resources: []StoredResource{{"file-1", "k", "p"}}}).encode(nil))
	f.Add([]byte("(0\x00")) // resources are announced, and there are none
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(e.encode(nil))
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Errorf("%+v, %v, want %+v", again, err, e)
		}
	})
}

func create(t testing.TB, prefix string, o Options) *Log {
	t.Helper()
	l, err := Create(prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func prefixIn(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "bardo.db.1")
}

func appended(t testing.TB, l *Log, ids ...string) (last Span) {
	t.Helper()
	for _, id := range ids {
		s, err := l.Append(sample(id))
		if err != nil {
			t.Fatal(err)
		}
		last = s
	}
	return last
}

func idsOf(entries []*Entry) string {
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Charge.RequestID)
	}
	return strings.Join(ids, " ")
}

func wantUnapplied(t testing.TB, prefix, ids string) {
	t.Helper()
	f, err := Read(prefix)
	if have := idsOf(f.Unapplied()); err != nil || have != ids {
		t.Errorf("the log has %q, %v, want %q", have, err, ids)
	}
}

func TestOthersReadWhatWasAppendedAndNotApplied(t *testing.T) {
	prefix := prefixIn(t)
	l := create(t, prefix, Options{})
	wantUnapplied(t, prefix, "")
	a := appended(t, l, "a")
	b := appended(t, l, "b", "c")
	wantUnapplied(t, prefix, "a b c")
	l.Applied(a.End)
	wantUnapplied(t, prefix, "b c")
	l.Applied(b.End)
	wantUnapplied(t, prefix, "")
	if err := l.Sync(); err != nil || l.Synced() != l.End() {
		t.Errorf("synced %d of %d, %v", l.Synced(), l.End(), err)
	}
}

func TestALogIsOneProcesss(t *testing.T) {
	prefix := prefixIn(t)
	l := create(t, prefix, Options{})
	appended(t, l, "a")
	if _, err := Adopt(prefix); !errors.Is(err, ErrTaken) {
		t.Errorf("%v, want ErrTaken", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(sample("late")); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if _, err := Create(prefix, Options{}); err == nil {
		t.Error("a log with entries was emptied")
	}
	a, err := Adopt(prefix)
	if err != nil || idsOf(a.Unapplied()) != "a" {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := errors.Join(a.Remove(), a.Close()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(prefix)); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestTheFilesAreUsedAgain: the log does not grow beyond the entries that are not applied.
func TestTheFilesAreUsedAgain(t *testing.T) {
	prefix := prefixIn(t)
	l := create(t, prefix, Options{Segment: 16 << 10})
	var waiting []Span
	for i := range 2000 {
		waiting = append(waiting, appended(t, l, fmt.Sprint(i)))
		if i%7 == 0 && len(waiting) > 5 {
			l.Applied(waiting[len(waiting)-4].End)
			waiting = waiting[len(waiting)-3:]
		}
		if i%97 == 0 {
			f, err := Read(prefix)
			if have := idsOf(f.Unapplied()); err != nil || len(strings.Fields(have)) != len(waiting) || f.Damaged != 0 {
				t.Fatalf("entry %d: the log has %s, %v, %d bytes are damaged, want %d entries", i, have, err, f.Damaged, len(waiting))
			}
		}
	}
	for _, s := range l.segments {
		if info, err := os.Stat(s.path); err != nil || info.Size() > 32<<10 {
			t.Errorf("%s has %d bytes, %v", s.path, info.Size(), err)
		}
	}
}

// TestAnOutageMakesTheLogLongerForAWhile: nothing is applied, so the current file grows, and shrinks again afterwards.
func TestAnOutageMakesTheLogLongerForAWhile(t *testing.T) {
	prefix := prefixIn(t)
	l := create(t, prefix, Options{Segment: 16 << 10, Delay: time.Millisecond})
	for i := range 2000 {
		appended(t, l, fmt.Sprint(i))
	}
	if f, err := Read(prefix); err != nil || len(f.Unapplied()) != 2000 {
		t.Errorf("%d entries, %v", len(f.Unapplied()), err)
	}
	polltest.Until(t, "the file has space beyond its entries", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.current.allocated >= l.current.size()
	})
	l.Applied(l.End())
	for i := range 500 { // switch to the other file, and back
		l.Applied(appended(t, l, fmt.Sprint("x", i)).End)
	}
	for _, s := range l.segments {
		if info, err := os.Stat(s.path); err != nil || info.Size() > 64<<10 {
			t.Errorf("%s has %d bytes, %v", s.path, info.Size(), err)
		}
	}
}

// TestTornRecordsCostThemselvesAlone: each record is damaged in turn, and the others are read.
func TestTornRecordsCostThemselvesAlone(t *testing.T) {
	prefix := prefixIn(t)
	l := create(t, prefix, Options{Segment: 64 << 10})
	var spans []Span
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		spans = append(spans, appended(t, l, id))
	}
	path := l.current.path
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range spans {
		for at := s.Start; at < s.End; at++ {
			b := slices.Clone(whole)
			b[header+int(at)] ^= 0x55
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			wantUnapplied(t, prefix, strings.Join(slices.Delete(slices.Clone(ids), i, i+1), " "))
		}
	}
	for cut := range spans[3].End { // as after an incomplete write
		if err := os.WriteFile(path, whole[:header+int(cut)], 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		for n < len(spans) && spans[n].End <= cut {
			n++
		}
		wantUnapplied(t, prefix, strings.Join(ids[:n], " "))
	}
}

// failing are files whose writes and syncs fail while an error is set.
type failing struct {
	File

	mu          *sync.Mutex
	write, sync *error
}

func (f failing) WriteAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *f.write != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], at)
		return n, *f.write
	}
	return f.File.WriteAt(b, at)
}

func (f failing) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *f.sync != nil {
		return *f.sync
	}
	return f.File.Sync()
}

var errMine = errors.New("mine")

func TestAFailedWriteIsNotInTheLog(t *testing.T) {
	prefix := prefixIn(t)
	var mu sync.Mutex
	var write, synced error
	l := create(t, prefix, Options{Delay: time.Hour, Wrap: func(f *os.File) File { return failing{osFile{f}, &mu, &write, &synced} }})
	appended(t, l, "a")
	write = errMine
	if _, err := l.Append(sample("b")); !errors.Is(err, errMine) {
		t.Errorf("%v, want errMine", err)
	}
	wantUnapplied(t, prefix, "a")
	write = nil
	appended(t, l, "c")
	wantUnapplied(t, prefix, "a c")
}

func TestWhoWaitsForASyncHearsThatItFailed(t *testing.T) {
	var mu sync.Mutex
	var write error
	synced := errMine
	trouble := make(chan error, 1)
	l := create(t, prefixIn(t), Options{
		Delay: time.Hour, OnFailure: func(err error) { trouble <- err },
		Wrap: func(f *os.File) File { return failing{osFile{f}, &mu, &write, &synced} },
	})
	s := appended(t, l, "a")
	if err := l.WaitSynced(s.End); !errors.Is(err, errMine) {
		t.Errorf("%v, want errMine", err)
	}
	if err := <-trouble; !errors.Is(err, errMine) {
		t.Errorf("%v, want errMine", err)
	}
	if err := l.Check(); !errors.Is(err, errMine) {
		t.Errorf("%v, want errMine", err)
	}
	mu.Lock()
	synced = nil
	mu.Unlock()
	if err := l.WaitSynced(s.End); err != nil {
		t.Error(err)
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(l.segments[1].path); err != nil {
		t.Fatal(err)
	}
	if err := l.Check(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want ErrNotExist", err)
	}
}

// TestD83AnEntryOfNoAccountWaitsLongerForTheDisk: alone it is synced after Options.Idle; an account's entry has both synced after Options.Delay.
func TestD83AnEntryOfNoAccountWaitsLongerForTheDisk(t *testing.T) {
	ofNobody := func() *Entry {
		e := sample("nobody's")
		e.Charge.Account, e.Prepaid, e.Paid = "", false, 0
		return e
	}
	add := func(t *testing.T, l *Log, e *Entry) Span {
		t.Helper()
		s, err := l.Append(e)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	isSynced := func(t *testing.T, l *Log, s Span) {
		t.Helper()
		polltest.Until(t, "the entry to be on disk", func() bool { return l.Synced() >= s.End })
	}
	t.Run("alone", func(t *testing.T) {
		l := create(t, prefixIn(t), Options{Delay: time.Hour, Idle: time.Millisecond})
		isSynced(t, l, add(t, l, ofNobody()))
	})
	t.Run("before an account's", func(t *testing.T) {
		var syncs counting
		l := create(t, prefixIn(t), Options{Delay: time.Millisecond, Idle: time.Hour, Wrap: syncs.wrap})
		if err := l.Sync(); err != nil { // the files' headers
			t.Fatal(err)
		}
		syncs.n.Store(0)
		before := add(t, l, ofNobody())
		if l.Synced() >= before.End {
			t.Error("it did not wait")
		}
		isSynced(t, l, add(t, l, sample("a")))
		if n := syncs.n.Load(); n != 1 {
			t.Errorf("%d syncs, want one for both", n)
		}
	})
	t.Run("paid for", func(t *testing.T) {
		l := create(t, prefixIn(t), Options{Delay: time.Millisecond, Idle: time.Hour})
		e := ofNobody()
		e.Paid = 7
		isSynced(t, l, add(t, l, e))
	})
	t.Run("waited for", func(t *testing.T) {
		l := create(t, prefixIn(t), Options{Delay: time.Hour, Idle: time.Hour})
		if err := l.WaitSynced(add(t, l, ofNobody()).End); err != nil {
			t.Error(err)
		}
	})
}

// counting counts the syncs of a log's files.
type counting struct{ n atomic.Int64 }

func (c *counting) wrap(f *os.File) File { return countedFile{osFile{f}, &c.n} }

type countedFile struct {
	osFile

	n *atomic.Int64
}

func (f countedFile) Sync() error {
	f.n.Add(1)
	return f.osFile.Sync()
}

func TestManyAppendAndWait(t *testing.T) {
	prefix := prefixIn(t)
	l := create(t, prefix, Options{})
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := range 20 {
				s := appended(t, l, fmt.Sprintf("%d-%d", w, i))
				if err := l.WaitSynced(s.End); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if f, err := Read(prefix); err != nil || len(f.Entries) != 320 {
		t.Errorf("%d entries, %v", len(f.Entries), err)
	}
}

func TestALogIsRenamed(t *testing.T) {
	prefix := prefixIn(t)
	l := create(t, prefix, Options{})
	appended(t, l, "a")
	if err := l.Rename(prefix + "0"); err != nil {
		t.Fatal(err)
	}
	appended(t, l, "b")
	wantUnapplied(t, prefix, "")
	wantUnapplied(t, prefix+"0", "a b")
	if !l.Exists() {
		t.Error("it is not there")
	}
}

// BenchmarkAppend appends a charge.
func BenchmarkAppend(b *testing.B) {
	l := create(b, prefixIn(b), Options{})
	e := sample("01996a3e-7a6b-7c12-8a55-2f1f6f1d2c3e")
	e.Charge.Record = make([]byte, 700)
	b.ReportAllocs()
	for b.Loop() {
		s, err := l.Append(e)
		if err != nil {
			b.Fatal(err)
		}
		l.applied = s.Start // without the mark, which is written once for many entries
	}
}
