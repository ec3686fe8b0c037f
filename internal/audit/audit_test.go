package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func options(t *testing.T) Options {
	t.Helper()
	return Options{Path: filepath.Join(t.TempDir(), "audit.jsonl"), Sync: SyncAlways, MaxBytes: 1 << 20, Failed: func(err error) { t.Error(err) }}
}

// write opens a log, appends n lines to it, and closes it.
func write(t *testing.T, o Options, n int) {
	t.Helper()
	l, err := Open(o, map[string]string{"version": "test"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		l.Record(time.Now(), "request:decided", "key_1", map[string]int{"n": i})
	}
	if _, err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func verify(t *testing.T, o Options, witnesses ...Head) *Report {
	t.Helper()
	r, err := Verify(o.Path, witnesses...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestF04ARestartGoesOnWithTheChain: each start adds a line.
func TestF04ARestartGoesOnWithTheChain(t *testing.T) {
	o := options(t)
	for range 3 {
		write(t, o, 5)
	}
	r := verify(t, o)
	if !r.OK || r.Lines != 18 || r.First != 1 || r.Head.Seq != 18 || r.Files != 1 {
		t.Errorf("%+v", r)
	}
	text := string(content(t, o.Path))
	if !strings.HasPrefix(text, `{"seq":1,"time":"`) || strings.Count(text, `"event":"audit:opened","data":{"version":"test"}`) != 3 || !strings.Contains(text, `"event":"request:decided","account":"key_1","data":{"n":4}`) {
		t.Errorf("%s", text)
	}
	info, err := os.Stat(o.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	var out bytes.Buffer
	if err := Export(o.Path, &out); err != nil || out.String() != text {
		t.Errorf("exported %d bytes of %d: %v", out.Len(), len(text), err)
	}
}

// TestF04TamperingIsFound: any change to the files is found, unless a new chain is made.
func TestF04TamperingIsFound(t *testing.T) {
	lines := func(b []byte) [][]byte { return bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) }
	join := func(l [][]byte) []byte { return append(bytes.TrimSuffix(bytes.Join(l, nil), []byte("\n")), '\n') }
	for _, row := range []struct {
		about, want string
		change      func(b []byte) []byte
	}{
		{"a number is changed", "was changed", func(b []byte) []byte { return bytes.Replace(b, []byte(`{"n":3}`), []byte(`{"n":4}`), 1) }},
		{"the account is changed", "was changed", func(b []byte) []byte { return bytes.Replace(b, []byte(`key_1`), []byte(`key_2`), 1) }},
		{"a line is removed", "lines were removed", func(b []byte) []byte { return join(slices.Delete(lines(b), 2, 3)) }},
		{"the first line is removed", "", func(b []byte) []byte { return join(slices.Delete(lines(b), 0, 1)) }},
		{"a line is doubled", "lines were removed", func(b []byte) []byte { l := lines(b); return join(slices.Insert(l, 2, l[2])) }},
		{"lines change places", "lines were removed", func(b []byte) []byte { l := lines(b); l[2], l[3] = l[3], l[2]; return join(l) }},
		{"the end is cut off", "has been cut off", func(b []byte) []byte { l := lines(b); return join(l[:len(l)-2]) }},
		{"the last line is cut in half", "has been cut off", func(b []byte) []byte { return b[:len(b)-10] }},
		{"everything is cut off", "has been cut off", func([]byte) []byte { return nil }},
		{"a line that is none", "does not have the form", func(b []byte) []byte { return append(b, "{}\n"...) }},
		{"an empty line", "does not have the form", func(b []byte) []byte { return append(b, '\n') }},
		{"a member behind the hash", "does not have the form", func(b []byte) []byte { return bytes.Replace(b, []byte("\"}\n"), []byte("\",\"x\":1}\n"), 1) }},
		{"a line of another log", "does not refer", func(b []byte) []byte {
			other := options(t)
			write(t, other, 5)
			l := lines(b)
			l[3] = lines(content(t, other.Path))[3]
			return join(l)
		}},
		{"too long a line", "is too long", func(b []byte) []byte { return append(b, bytes.Repeat([]byte("x"), maxLine+1)...) }},
	} {
		t.Run(row.about, func(t *testing.T) {
			o := options(t)
			write(t, o, 5)
			put(t, o.Path, row.change(content(t, o.Path)))
			r := verify(t, o)
			if row.want == "" {
				if r.First != 2 {
					t.Errorf("%+v", r)
				}
				return
			}
			if r.OK || !strings.Contains(strings.Join(r.Faults, "\n"), row.want) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestF04AChainMadeAnewIsFound by a head that was recorded elsewhere; a missing head is reported.
func TestF04AChainMadeAnewIsFound(t *testing.T) {
	o := options(t)
	write(t, o, 5)
	noted := verify(t, o).Head
	write(t, o, 2)
	if r := verify(t, o, noted); !r.OK {
		t.Errorf("%+v", r)
	}
	again := o
	again.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	write(t, again, 9)
	if r := verify(t, again, noted); r.OK || !strings.Contains(r.Faults[0], "made anew") {
		t.Errorf("%+v", r)
	}
	if r := verify(t, o, Head{99, strings.Repeat("a", 64)}); r.OK || !strings.Contains(r.Faults[0], "line 99 is missing") {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(o.headPath()); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, o); r.OK || !strings.Contains(r.Faults[0], "is missing") {
		t.Errorf("%+v", r)
	}
	for text, ok := range map[string]bool{"3:" + strings.Repeat("a", 64): true, "3 " + strings.Repeat("a", 64): true, "0 x": true, "": false, "3": false, "x:y": false, "-1:" + strings.Repeat("a", 64): false, "3:abc": false} {
		if _, err := ParseHead(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Verify(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a log that there is not is verified")
	}
}

// TestF04WhatACrashLeavesIsSaid: half a line is removed; a file that was cut while there was no writer is still reported as cut.
func TestF04WhatACrashLeavesIsSaid(t *testing.T) {
	o := options(t)
	write(t, o, 3)
	put(t, o.Path, append(content(t, o.Path), `{"seq":5,"ti`...))
	if r := verify(t, o); !r.OK || r.Lines != 4 {
		t.Errorf("while it is written: %+v", r)
	}
	write(t, o, 1)
	if r := verify(t, o); !r.OK || r.Lines != 7 || !bytes.Contains(content(t, o.Path), []byte(`"event":"audit:torn","data":{"bytes":12}`)) {
		t.Errorf("%+v\n%s", r, content(t, o.Path))
	}
	b := content(t, o.Path)
	put(t, o.Path, b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1])
	write(t, o, 1)
	if r := verify(t, o); r.OK || !strings.Contains(strings.Join(r.Faults, "\n"), "line 8 follows line 6") || !bytes.Contains(content(t, o.Path), []byte(`"event":"audit:cut"`)) {
		t.Errorf("%+v", r)
	}
	put(t, o.Path, []byte("nonsense\n"))
	write(t, o, 1)
	if r := verify(t, o); r.OK {
		t.Errorf("%+v", r)
	}
}

// TestF04ASecondWriterIsRefused: two would break the chain. After the first has ended, or was killed, the next one may write.
func TestF04ASecondWriterIsRefused(t *testing.T) {
	o := options(t)
	l, err := Open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := Open(o, nil); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("a second writer: %v", err)
		}
	})
	if _, err := l.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, o, 1)
	if r := verify(t, o); !r.OK || r.Lines != 3 {
		t.Errorf("%+v", r)
	}
}

// TestF04FilesRotate: the chain continues in the next file, and old files beyond the limit are removed.
func TestF04FilesRotate(t *testing.T) {
	o := options(t)
	o.MaxBytes = 1000
	for range 3 {
		write(t, o, 20)
	}
	r := verify(t, o)
	if !r.OK || r.Lines != 63 || r.Files < 5 {
		t.Errorf("%+v", r)
	}
	files, err := o.files()
	if err != nil {
		t.Fatal(err)
	}
	middle := content(t, files[2])
	put(t, files[2], bytes.Replace(middle, []byte(`{"n":`), []byte(`{"m":`), 1))
	if r := verify(t, o); r.OK {
		t.Error("a change in an older file is not found")
	}
	put(t, files[2], middle)
	if err := os.Remove(files[2]); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, o); r.OK {
		t.Error("a missing file in the middle is not found")
	}
	put(t, files[2], middle)
	o.Keep = 2
	write(t, o, 20)
	if r := verify(t, o); !r.OK || r.Files != 3 || r.First < 60 {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := Export(o.Path, &out); err != nil || int64(bytes.Count(out.Bytes(), []byte("\n"))) != verify(t, o).Lines {
		t.Errorf("%v %d lines", err, bytes.Count(out.Bytes(), []byte("\n")))
	}
}

// TestF04LostLinesAreSaid: data that cannot be marshalled counts as lost, too; secrets are removed before the hash is computed.
func TestF04LostLinesAreSaid(t *testing.T) {
	o := options(t)
	var failed []string
	o.Failed = func(err error) { failed = append(failed, err.Error()) }
	o.Redact = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("sk-secret"), []byte("***")) }
	l, err := Open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Record(time.Now(), "bad", "", make(chan int))
	l.Record(time.Now(), "good", "", "sk-secret")
	if _, err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text := string(content(t, o.Path))
	if r := verify(t, o); !r.OK || len(failed) != 1 || !strings.Contains(text, `"event":"audit:lost","data":{"lines":1}`) || !strings.Contains(text, `"data":"***"`) {
		t.Errorf("%+v %v %s", r, failed, text)
	}
}

// TestF04WhoRecordsWaitsForNobody: lines beyond the disk's speed are counted as lost.
func TestF04WhoRecordsWaitsForNobody(t *testing.T) {
	l := &Log{lines: make(chan entry, 2)}
	for range 5 {
		l.Record(time.Now(), "x", "", nil)
	}
	if n := l.lost.Load(); n != 3 {
		t.Errorf("%d of 3 are counted", n)
	}
}

// TestF04TheHeadIsKeptOnceASecond if not every line is synced.
func TestF04TheHeadIsKeptOnceASecond(t *testing.T) {
	o := options(t)
	o.Sync = SyncInterval
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Record(time.Now(), "x", "", nil)
		synctest.Wait()
		before, err := readHead(o.headPath())
		time.Sleep(2 * syncEvery) //nolint:forbidigo // of the bubble
		synctest.Wait()
		after, err2 := readHead(o.headPath())
		_, err3 := l.Close()
		if err := errors.Join(err, err2, err3); err != nil || before.Seq != 1 || after.Seq != 2 {
			t.Errorf("%+v, then %+v: %v", before, after, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	w, err := Head{}.line(&entry{event: "x"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.TrimSpace(w.text))
	f.Add([]byte(`{"seq":1,"prev":"","hash":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parse(b)
		if err == nil && p.Hash == p.sum && len(p.Hash) != 64 {
			t.Error(fmt.Sprint(p))
		}
	})
}
