// Package audit is the audit log of a gateway: decisions that matter, a line of JSON each, in files that are only appended to. Each line has the hash of the one
// before it, and its own; Verify finds lines that were changed, removed, added or cut off. It does not know what the lines tell, and they have no content.
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
	backlog   = 4096            // lines that wait to be written; further ones are lost, which the next line says
	syncEvery = time.Second     // with Options.Sync interval
	closeTime = 2 * time.Second // of writing what waits at the end
	lockTime  = 5 * time.Second // of waiting for the process that has the log
	lockPoll  = 50 * time.Millisecond
)

// When lines are put on the disk for good.
const (
	SyncAlways   = "always"   // after each batch, before the next is written
	SyncInterval = "interval" // once a second
	SyncOff      = "off"      // when the system does it
)

// The lines that the log writes by itself.
const (
	opened = "audit:opened" // the program has started, or the configuration names the file anew
	torn   = "audit:torn"   // the end of the file was no whole line, and was taken off
	cut    = "audit:cut"    // the file ends before the line that was written last
	lost   = "audit:lost"   // lines were not written: the disk was too slow or full
)

// Options say where a log is, and how it is written.
type Options struct {
	Path     string // of the newest file; older ones are beside it
	Sync     string
	MaxBytes int64 // of a file; then a new one is begun
	Keep     int   // files that are kept besides the newest one; 0: all
	Redact   func([]byte) []byte
	Failed   func(error) // is told of a line that could not be written; may be nil
}

// Log appends lines. Safe for concurrent use.
type Log struct {
	o       Options
	lines   chan entry
	stop    chan struct{}
	stopped chan struct{}
	lost    atomic.Int64 // since the last line that said so
	ending  sync.Once

	held *os.File // locked while the log is open: two writers would break the chain

	// Of the goroutine that writes.
	file    *os.File
	size    int64
	last    Head
	unsaved bool
}

// entry is a line that was not written yet.
type entry struct {
	at      time.Time
	event   string
	account policy.Account
	data    any
}

// Open opens the log, and goes on with the chain of the files that are there. about is told in its first line.
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

// lock takes the log for this process. It waits a while for one that is ending: an Envoy whose gateway was killed, or that is being replaced.
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

// Record appends a line. It never blocks: what the disk is too slow for is lost, and the log says how much. data is marshalled by another goroutine and must not be
// modified.
func (l *Log) Record(at time.Time, event string, account policy.Account, data any) {
	select {
	case l.lines <- entry{at, event, account, data}:
	default:
		l.lost.Add(1)
	}
}

// Close writes what waits, stops, and says where the log ends. Nothing may be recorded afterwards.
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

// run writes lines until the log is closed, then those that wait.
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

// batch writes a line and those that wait behind it.
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

// put writes a line; what cannot be written counts as lost, and the next line that can says so.
func (l *Log) put(e *entry) {
	if n := l.lost.Swap(0); n > 0 {
		if err := l.write(&entry{at: time.Now(), event: lost, data: counted{n}}); err != nil {
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

// write appends a line to the file. One that was written in part is taken off again.
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

// save puts what was written on the disk, and then the head: a head without its line tells of a file that was cut.
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

// resume opens the newest file, behind its last whole line. What is told of it is to be written first.
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
		l.last = kept // the chain goes on behind the line that is missing, so that nobody can take the cut for the end
	}
	return notes, nil
}

type bytesOf struct {
	Bytes int64 `json:"bytes"`
}

// wholeLines is how many bytes of a file are whole lines, and how many it has.
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
