package event

import (
	"sync/atomic"

	"bardo.money/gateway/policy"
)

// Emit is emit for tests, whose events have no kind.
func (s *Sink) Emit(name string, account policy.Account, fields any) { s.emit(name, account, fields) }

// Spool is the writer of a spool of small files.
type Spool struct{ spool }

// NewSpool is one whose files have so many bytes.
func NewSpool(dir string, most int64) *Spool {
	return &Spool{spool{dir: dir, writer: "data", most: most, dropped: new(atomic.Uint64)}}
}

// Lost is how many events were dropped.
func (s *Spool) Lost() uint64 { return s.dropped.Load() }
