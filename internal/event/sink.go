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

	"bardo.money/gateway/policy"
)

// Sink writes named events, a line of JSON each:
//
//	{"time":"2026-08-05T12:00:00Z","event":"catalog:model_vanished","account":"key_1","data":{"provider":"openrouter"}}
//
// Who emits waits for nobody: events that the place cannot take fast enough are dropped and counted. The zero value and a nil sink
// write nowhere. Safe for concurrent use.
type Sink struct {
	Redact func(line []byte) []byte // removes what must not be written; nil for nothing. Set before Redirect

	out     atomic.Pointer[outlet]
	changes sync.Mutex
	dropped atomic.Uint64
}

// backlog is how many events may wait for the place that they are written to.
const backlog = 1024

// Emit writes an event: its name, whose request it is about ("" for nobody's), and what it says, which must not change any more and
// becomes JSON later, in another goroutine.
func (s *Sink) Emit(name string, account policy.Account, fields any) {
	if s == nil {
		return
	}
	o := s.out.Load()
	if o == nil {
		return
	}
	select {
	case o.lines <- line{Time: time.Now().UTC(), Event: name, Account: account, Data: fields}:
	default:
		s.dropped.Add(1)
	}
}

// On tells whether events are written anywhere. Who asks first need not make the fields of one that nobody reads.
func (s *Sink) On() bool { return s != nil && s.out.Load() != nil }

// Dropped is how many events were lost since the start.
func (s *Sink) Dropped() uint64 {
	if s == nil {
		return 0
	}
	return s.dropped.Load()
}

// Redirect has events written elsewhere from now on: "stdout" is standard, "file:/path" is appended to, "" is nowhere. What waits for
// the place before is written there first. An error changes nothing.
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

// Close writes what waits, and ends the writing.
func (s *Sink) Close() error { return s.Redirect("", nil) }

// end lets a place that is not written to any more take what waits for it. One that takes nothing, as a pipe that nobody reads, is left
// after closeTime, and what it did not take is counted as dropped.
func (s *Sink) end(o *outlet) error {
	close(o.stop)
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-o.stopped:
	case <-late.C:
		s.dropped.Add(uint64(len(o.lines)) + 1) // and the one that it is being given
		return fmt.Errorf("events: %s did not take what waited for it in %s", o.to, closeTime)
	}
	if o.file != nil {
		return errors.Join(o.err, o.file.Close())
	}
	return o.err
}

// closeTime is how long a place may take to write what waits for it, when it is not written to any more.
const closeTime = 2 * time.Second

// line is one event as it is written.
type line struct {
	Time    time.Time      `json:"time"`
	Event   string         `json:"event"`
	Account policy.Account `json:"account,omitempty"`
	Data    any            `json:"data,omitempty"`
}

// outlet is one place that events are written to, by a goroutine of its own.
type outlet struct {
	to      string
	lines   chan line
	stop    chan struct{}
	stopped chan struct{}
	w       io.Writer
	file    io.Closer // nil for standard output
	redact  func([]byte) []byte
	err     error // the last one, once stopped
}

// open makes an outlet; nil for nowhere.
func open(to string, standard io.Writer, redact func([]byte) []byte) (*outlet, error) {
	o := &outlet{to: to, redact: redact, lines: make(chan line, backlog), stop: make(chan struct{}), stopped: make(chan struct{}), w: standard}
	switch path, isFile := strings.CutPrefix(to, "file:"); {
	case to == "":
		return nil, nil //nolint:nilnil // nowhere is a place
	case isFile:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		o.w, o.file = f, f
	case to != "stdout":
		return nil, fmt.Errorf("events: %q is neither stdout nor file:/path", to)
	}
	go o.run()
	return o, nil
}

// run writes until it is stopped, and then what still waits. Lines go out together while more of them wait.
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
	enc.SetEscapeHTML(false) // people read it
	if err := enc.Encode(l); err != nil {
		o.err = fmt.Errorf("event %s: %w", l.Event, err)
	}
	text := b.Bytes()
	if o.redact != nil {
		text = o.redact(text)
	}
	_, _ = w.Write(text) // Flush says what went wrong
	if len(o.lines) > 0 {
		return
	}
	if err := w.Flush(); err != nil {
		o.err = err
		w.Reset(o.w) // a writer that failed once refuses everything
	}
}
