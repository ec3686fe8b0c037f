package event

import (
	"sync/atomic"

	"bardo.money/gateway/policy"
)

// Emit exports emit for tests, whose events have no kind.
func (s *Sink) Emit(name string, account policy.Account, fields any) { s.emit(name, account, fields) }

// Spool is a spool of small files.
type Spool struct{ spool }

// NewSpool returns a spool with a maximum file size.
func NewSpool(dir string, most int64) *Spool {
	return &Spool{spool{dir: dir, writer: "data", maxBytes: most, dropped: new(atomic.Uint64)}}
}

// Lost returns the number of dropped events.
func (s *Spool) Lost() uint64 { return s.dropped.Load() }
