package event

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// Sink writes named events, one JSON object per line:
//
// // {"time":"2026-08-05T12:00:00Z","event":"catalog:model_vanished","account":"key_1","data":{"provider":"openrouter"}}
//
// Emitting never blocks: events that cannot be written fast enough are dropped and counted. Follow reads them live, wherever they are written. The
// zero value and nil discard events. Safe for concurrent use.
type Sink struct {
	Redact func(line []byte) []byte // removes secrets from a line; may be nil. Set before Redirect

	out     atomic.Pointer[outlet]
	spool   atomic.Pointer[outlet]
	changes sync.Mutex
	dropped atomic.Uint64

	journal  journal // for readers of streams
	recorder atomic.Pointer[Recorder]

	watched atomic.Pointer[map[string]func(*line)] // by the name of the kind

	to   *Sink      // not nil: the target of released events
	held sync.Mutex // guards kept
	kept []line
}

// maxHeld limits the events that a sink holds; further ones count as dropped.
const maxHeld = 256

// Hold returns a sink that keeps its events until they are released to s; otherwise they are discarded with it.
func (s *Sink) Hold() *Sink { return &Sink{to: s} }

// Release forwards the held events, with their original times.
func (s *Sink) Release() {
	if s == nil || s.to == nil {
		return
	}
	s.held.Lock()
	defer s.held.Unlock()
	for _, l := range s.kept {
		s.to.write(l)
	}
	s.kept = nil
}

// hold keeps an event.
func (s *Sink) hold(l line) {
	s.held.Lock()
	defer s.held.Unlock()
	if len(s.kept) < maxHeld {
		s.kept = append(s.kept, l)
	} else {
		s.to.dropped.Add(1)
	}
}

// backlog is the limit of events that are not written yet.
const backlog = 1024

// emit writes an event with its name, the account of its request ("" for none) and its data, which is marshalled later by another goroutine and must
// not be modified.
func (s *Sink) emit(name string, account policy.Account, fields any) {
	if name == "" || !s.On() && s.watcher(name) == nil {
		return
	}
	l := line{Time: time.Now().UTC(), Event: name, Account: account, Data: fields}
	if s.to != nil {
		s.hold(l)
		return
	}
	s.write(l)
}

// write sends an event to the writing goroutine.
func (s *Sink) write(l line) {
	if w := s.watcher(l.Event); w != nil {
		w(&l)
	}
	s.journal.add(&l, s.Redact)
	for _, o := range [...]*outlet{s.out.Load(), s.spool.Load()} {
		if o == nil {
			continue
		}
		select {
		case o.lines <- l:
		default:
			s.dropped.Add(1)
		}
	}
}

// Recorder stores events permanently. Record must not block, and must not modify data.
type Recorder interface {
	Record(at time.Time, name string, account policy.Account, data any)
}

// RecordIn also stores the events of audited kinds in r; nil: nowhere.
func (s *Sink) RecordIn(r Recorder) {
	if r == nil {
		s.recorder.Store(nil)
		return
	}
	s.recorder.Store(&r)
}

// record stores an event permanently. Events of a holding sink are recorded immediately, because they have happened.
func (s *Sink) record(name string, account policy.Account, data any) {
	if s != nil && s.to != nil {
		s = s.to
	}
	if s == nil {
		return
	}
	if r := s.recorder.Load(); r != nil {
		(*r).Record(time.Now(), name, account, data)
	}
}

// On reports whether events are written, recorded or read, so that callers can avoid creating their data.
func (s *Sink) On() bool {
	if s != nil && s.to != nil {
		return s.to.On()
	}
	return s != nil && (s.out.Load() != nil || s.spool.Load() != nil || s.journal.on.Load() || s.recorder.Load() != nil)
}

// Dropped returns the number of events that were dropped since the start.
func (s *Sink) Dropped() uint64 {
	if s == nil {
		return 0
	}
	return s.dropped.Load()
}

// Redirect changes where events are written: "stdout" is standard, "file:/path" is appended to, "" discards them. Pending events are written to
// the previous target first. An error changes nothing.
func (s *Sink) Redirect(to string, standard io.Writer) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	old := s.out.Load()
	if old != nil && old.to == to {
		return nil
	}
	next, err := open(to, standard, s.Redact)
	if err != nil {
		return err
	}
	s.out.Store(next)
	if old == nil {
		return nil
	}
	return s.end(old)
}

// Close writes pending events and stops.
func (s *Sink) Close() error { return errors.Join(s.Redirect("", nil), s.SpoolTo("", "")) }

// end closes an outlet after its pending events are written, or after closeTime if it blocks (a pipe without a reader); the rest counts as dropped.
func (s *Sink) end(o *outlet) error {
	close(o.stop)
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-o.stopped:
	case <-late.C:
		s.dropped.Add(uint64(len(o.lines)) + 1) // including the one being written
		return fmt.Errorf("events: %s did not take what waited for it in %s", o.to, closeTime)
	}
	if o.file != nil {
		return errors.Join(o.err, o.file.Close())
	}
	return o.err
}

// closeTime is the timeout of writing pending events at the end.
const closeTime = 2 * time.Second

// line is one event as JSON.
type line struct {
	Time    time.Time      `json:"time"`
	Event   string         `json:"event"`
	Account policy.Account `json:"account,omitempty"`
	Data    any            `json:"data,omitempty"`
}

// outlet is a target of events with its own goroutine.
type outlet struct {
	to      string
	lines   chan line
	stop    chan struct{}
	stopped chan struct{}
	w       io.Writer
	file    io.Closer // nil if it must stay open
	redact  func([]byte) []byte
	err     error // the last error, once stopped
}

// open opens an outlet; nil for "".
func open(to string, standard io.Writer, redact func([]byte) []byte) (*outlet, error) {
	var file io.Closer
	switch path, isFile := strings.CutPrefix(to, "file:"); {
	case to == "":
		return nil, nil //nolint:nilnil // nowhere is a place
	case isFile:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		standard, file = f, f
	case to != "stdout":
		return nil, fmt.Errorf("events: %q is neither stdout nor file:/path", to)
	}
	return newOutlet(to, standard, file, redact), nil
}

// newOutlet starts an outlet that writes to w, which file closes at the end.
func newOutlet(to string, w io.Writer, file io.Closer, redact func([]byte) []byte) *outlet {
	o := &outlet{to: to, w: w, file: file, redact: redact, lines: make(chan line, backlog), stop: make(chan struct{}), stopped: make(chan struct{})}
	guard.Go(o.run)
	return o
}

// run writes lines until it is stopped, then the pending ones. It flushes when no more are pending.
func (o *outlet) run() {
	defer close(o.stopped)
	w := bufio.NewWriter(o.w)
	for {
		select {
		case l := <-o.lines:
			o.write(w, l)
		case <-o.stop:
			for len(o.lines) > 0 {
				o.write(w, <-o.lines)
			}
			return
		}
	}
}

func (o *outlet) write(w *bufio.Writer, l line) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // for human readers
	if err := enc.Encode(l); err != nil {
		o.err = fmt.Errorf("event %s: %w", l.Event, err)
	}
	text := b.Bytes()
	if o.redact != nil {
		text = o.redact(text)
	}
	_, _ = w.Write(text) // Flush returns the error
	if len(o.lines) > 0 {
		return
	}
	if err := w.Flush(); err != nil {
		o.err = err
		w.Reset(o.w) // a writer refuses everything after an error
	}
}
