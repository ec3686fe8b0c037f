// Package audit is the audit log of a gateway: important decisions, one JSON object per line, in append-only files. Each line has the previous line's
// hash, and its own; Verify finds lines that were changed, removed, added or cut off. It does not know the meaning of the lines, which have no
// content of requests.
package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

const (
	backlog   = 4096            // limit of pending lines; further ones are lost, which the next line reports
	syncEvery = time.Second     // with Options.Sync interval
	closeTime = 2 * time.Second // timeout of writing pending lines at the end
	lockTime  = 5 * time.Second // timeout of waiting for another process's lock
	lockPoll  = 50 * time.Millisecond
)

// When lines are synced to the disk.
const (
	SyncAlways   = "always"   // after each batch, before the next is written
	SyncInterval = "interval" // once a second
	SyncOff      = "off"      // left to the system
)

// The events of the log itself.
const (
	opened    = "audit:opened" // the program has started, or the configuration changed the file
	torn      = "audit:torn"   // the file did not end with a whole line; the rest was removed
	cut       = "audit:cut"    // the file ends before the last written line
	linesLost = "audit:lost"   // lines were not written: the disk was too slow or full
)

// Options configure a log.
type Options struct {
	Path     string // of the newest file; older ones are beside it
	Sync     string
	MaxBytes int64 // of a file, before a new one is started
	Keep     int   // old files to keep; 0: all
	Redact   func([]byte) []byte
	Failed   func(error) // called for a line that could not be written; may be nil
}

// Log appends lines. Safe for concurrent use.
type Log struct {
	o       Options
	lines   chan entry
	stop    chan struct{}
	stopped chan struct{}
	lost    atomic.Int64 // since the last line that reported it
	ending  sync.Once

	held *os.File // locked while the log is open: two writers would break the chain

	// Of the goroutine that writes.
	file    *os.File
	size    int64
	last    Head
	unsaved bool
}

// entry is a line that is not written yet.
type entry struct {
	at      time.Time
	event   string
	account policy.Account
	data    any
}

// Open opens the log, and continues the chain of the existing files. about is the data of its first line.
func Open(o Options, about any) (*Log, error) {
	l := &Log{o: o, lines: make(chan entry, backlog), stop: make(chan struct{}), stopped: make(chan struct{})}
	if err := l.lock(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	notes, err := l.resume()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), l.held.Close())
	}
	for _, n := range append(notes, entry{event: opened, data: about}) {
		n.at = time.Now()
		if err := l.write(&n); err != nil {
			return nil, errors.Join(fmt.Errorf("audit log: %w", err), l.file.Close(), l.held.Close())
		}
	}
	l.save()
	guard.Go(l.run)
	return l, nil
}

// lock locks the log for this process. It waits a while for a process that is ending: an Envoy whose gateway was killed, or that is being replaced.
func (l *Log) lock() (err error) {
	if l.held, err = os.OpenFile(l.o.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	again := time.NewTicker(lockPoll)
	defer again.Stop()
	for end := time.Now().Add(lockTime); ; <-again.C {
		if err = syscall.Flock(int(l.held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			return errors.Join(fmt.Errorf("%s is in use by another process: %w", l.o.Path, err), l.held.Close())
		}
	}
}

// Record appends a line. It never blocks: lines that cannot be written fast enough are lost, and the log records their number. data is marshalled by
// another goroutine and must not be modified.
func (l *Log) Record(at time.Time, event string, account policy.Account, data any) {
	select {
	case l.lines <- entry{at, event, account, data}:
	default:
		l.lost.Add(1)
	}
}

// Close writes pending lines, stops, and returns the head. Nothing may be recorded afterwards.
func (l *Log) Close() (Head, error) {
	l.ending.Do(func() { close(l.stop) })
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-l.stopped:
		return l.last, errors.Join(l.file.Close(), l.held.Close())
	case <-late.C:
		return Head{}, fmt.Errorf("audit log: %s did not take what waited for it in %s", l.o.Path, closeTime)
	}
}

// run writes lines until the log is closed, then the pending ones.
func (l *Log) run() {
	defer close(l.stopped)
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case e := <-l.lines:
			l.batch(&e)
		case <-tick.C:
			if l.unsaved && l.o.Sync != SyncOff {
				l.save()
			}
		case <-l.stop:
			l.drain()
			l.save()
			return
		}
	}
}

// batch writes a line and those pending after it.
func (l *Log) batch(e *entry) {
	l.put(e)
	l.drain()
	if l.o.Sync == SyncAlways {
		l.save()
	}
}

func (l *Log) drain() {
	for {
		select {
		case e := <-l.lines:
			l.put(&e)
		default:
			return
		}
	}
}

// put writes a line. One that cannot be written counts as lost, which the next written line reports.
func (l *Log) put(e *entry) {
	if n := l.lost.Swap(0); n > 0 {
		if err := l.write(&entry{at: time.Now(), event: linesLost, data: counted{n}}); err != nil {
			l.lost.Add(n)
		}
	}
	if err := l.write(e); err != nil {
		l.lost.Add(1)
		if l.o.Failed != nil {
			l.o.Failed(err)
		}
	}
}

type counted struct {
	Lines int64 `json:"lines"`
}

// write appends a line to the file. A partially written one is removed.
func (l *Log) write(e *entry) error {
	if l.size >= l.o.MaxBytes {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	next, err := l.last.line(e, l.o.Redact)
	if err != nil {
		return err
	}
	n, err := l.file.Write(next.text)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, l.file.Truncate(l.size))
		}
		return err
	}
	l.size, l.last, l.unsaved = l.size+int64(n), next.Head, true
	return nil
}

// save syncs the written lines to the disk, and then the head: a head without its line shows that a file was cut.
func (l *Log) save() {
	var err error
	if l.o.Sync != SyncOff {
		err = l.file.Sync()
	}
	if err == nil {
		err = l.last.keep(l.o.headPath(), l.o.Sync != SyncOff)
	}
	if l.unsaved = err != nil; err != nil && l.o.Failed != nil {
		l.o.Failed(err)
	}
}

// resume opens the newest file, after its last whole line. notes are lines to be written first.
func (l *Log) resume() (notes []entry, err error) {
	files, err := l.o.files()
	if err != nil {
		return nil, err
	}
	for i := len(files) - 1; i >= 0 && l.last.Seq == 0; i-- { // the newest one may be empty
		if l.last, err = lastOf(files[i]); err != nil {
			return nil, err
		}
	}
	if l.file, err = os.OpenFile(l.o.Path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	whole, all, err := wholeLines(l.file)
	if err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	if l.size = whole; all > whole {
		notes = append(notes, entry{event: torn, data: bytesOf{all - whole}})
		if err := l.file.Truncate(whole); err != nil {
			return nil, errors.Join(err, l.file.Close())
		}
	}
	kept, err := readHead(l.o.headPath())
	if err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	if kept.Seq > l.last.Seq || kept.Seq == l.last.Seq && kept.Hash != l.last.Hash {
		notes = append(notes, entry{event: cut, data: kept})
		l.last = kept // the chain continues after the missing line, so that the cut is not mistaken for the end
	}
	return notes, nil
}

type bytesOf struct {
	Bytes int64 `json:"bytes"`
}

// wholeLines returns how many bytes of a file are whole lines, and its length.
func wholeLines(f io.ReaderAt) (whole, all int64, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), 1<<16)
	for {
		b, err := r.ReadSlice('\n')
		all += int64(len(b))
		if bytes.HasSuffix(b, []byte{'\n'}) {
			whole = all
		}
		switch {
		case errors.Is(err, io.EOF):
			return whole, all, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return 0, 0, err
		}
	}
}
