package chargelog

import (
	"errors"
	"time"
)

// syncLoop syncs appended entries, those of each Options.Delay together, until the log closes.
func (l *Log) syncLoop() {
	delay := time.NewTimer(l.o.Delay)
	delay.Stop()
	for l.awaitDue(delay) {
		if err := errors.Join(l.Sync(), l.ensureSpace()); err != nil {
			l.o.OnFailure(err)
		}
	}
}

// awaitDue returns true when a sync is due, and false when the log closes.
func (l *Log) awaitDue(delay *time.Timer) bool {
	defer delay.Stop()
	select {
	case <-l.ended:
		return false
	case <-l.dirty:
	case <-l.idle:
		delay.Reset(l.o.Idle)
		select {
		case <-l.ended:
			return false
		case <-delay.C:
			return true
		case <-l.dirty:
		}
	}
	delay.Reset(l.o.Delay)
	select {
	case <-l.ended:
		return false
	case <-l.urgent:
	case <-delay.C:
	}
	return true
}

// Sync returns once everything that was appended before is on disk. It does not block appends.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	end := l.end
	var dirty []*segment
	for _, s := range l.segments {
		if s.dirty {
			dirty = append(dirty, s)
			s.dirty = false
		}
	}
	l.mu.Unlock()
	var errs []error
	for _, s := range dirty {
		errs = append(errs, s.file.Sync())
	}
	return l.endSync(end, dirty, errors.Join(errs...))
}

func (l *Log) endSync(end Position, dirty []*segment, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.progress.Broadcast()
	if err == nil {
		l.synced = max(l.synced, end)
		return nil
	}
	for _, s := range dirty {
		s.dirty = true
	}
	l.failures++
	l.failed = err
	return err
}

// WaitSynced returns once everything before a position is on disk, or a sync has failed. It starts the next sync immediately; concurrent callers
// share it.
func (l *Log) WaitSynced(p Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	failures := l.failures
	for l.synced < p && l.failures == failures && !l.closed {
		signal(l.urgent)
		signal(l.dirty) // the last sync may have failed
		l.progress.Wait()
	}
	switch {
	case l.synced >= p:
		return nil
	case l.failures > failures:
		return l.failed
	}
	return ErrClosed
}

// ensureSpace allocates more disk space for the current file before it is needed, if the other file cannot be used yet.
func (l *Log) ensureSpace() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.current
	if l.closed || l.isApplied(l.other) || s.size()+l.o.Margin <= s.allocated {
		return nil
	}
	return s.allocate(s.size() + l.o.Margin + l.o.Segment)
}

// Check returns nil if the log is reliable: its files exist, they can be synced, and there is space for more.
func (l *Log) Check() error {
	if err := errors.Join(l.Sync(), l.ensureSpace()); err != nil {
		return err
	}
	if !l.Exists() {
		return errRemoved
	}
	return nil
}

// Exists reports whether the files still exist under their names.
func (l *Log) Exists() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments[0].exists() && l.segments[1].exists()
}
