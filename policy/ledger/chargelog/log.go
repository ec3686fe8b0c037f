// Package chargelog is the write-ahead log of one gateway's charges: two files beside the store, to which each charge is appended by one write before the
// last byte of its answer is sent. Written entries outlive the process; a goroutine syncs them to the disk within milliseconds, many
// together. The space of entries that were applied to the store (Applied) is reused.
//
// The package knows neither the store nor how entries are applied: writer and reader may be different processes. A log belongs to the process
// that has the lock on its first file; others read it with Read, and take it over with Adopt once the lock is free. Every record's checksum
// includes its position, so that remains of earlier records in the files are not read as records.
package chargelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// Options of a log. The zero value has the defaults.
type Options struct {
	Segment   int64               // bytes of disk space that each of the two files has from the start; zero means 4 MiB
	Margin    int64               // bytes allocated beyond a file's records, as long as the disk has space; zero means 1 MiB
	Delay     time.Duration       // how long an append waits for others before it is synced; zero means 4 ms
	Idle      time.Duration       // the delay of entries without an account, unless another one is appended; zero means 250 ms
	OnFailure func(error)         // called by a goroutine of the log when a sync fails or the margin cannot be allocated; may be nil
	Wrap      func(*os.File) File // set in tests, to replace the files; nil means the files themselves
}

const (
	defaultSegment = 4 << 20
	defaultMargin  = 1 << 20
	defaultDelay   = 4 * time.Millisecond
	defaultIdle    = 250 * time.Millisecond
)

func (o Options) withDefaults() Options {
	if o.Segment == 0 {
		o.Segment = defaultSegment
	}
	if o.Margin == 0 {
		o.Margin = min(defaultMargin, o.Segment/4)
	}
	if o.Delay == 0 {
		o.Delay = defaultDelay
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	if o.OnFailure == nil {
		o.OnFailure = func(error) {}
	}
	if o.Wrap == nil {
		o.Wrap = func(f *os.File) File { return osFile{f} }
	}
	return o
}

// Errors of a log.
var (
	// ErrTaken says that another process has the log.
	ErrTaken = errors.New("another process has it")
	// ErrTooLong says that an entry is longer than MaxEntry.
	ErrTooLong = errors.New("the entry is too long for the log")
	// ErrClosed says that the log is closed.
	ErrClosed = errors.New("the charge log is closed")
	// errRemoved says that the files were removed.
	errRemoved = fmt.Errorf("the charge log was removed: %w", fs.ErrNotExist)
)

// MaxEntry is the maximum size of an encoded entry in bytes.
const MaxEntry = 64 << 20

const (
	recordMagic  = 0x43d7b1e9
	recordHeader = 4 + 4 + 4 // magic, length, checksum
)

// Log is a log that this process writes to. Safe for concurrent use.
type Log struct {
	o       Options
	buffers sync.Pool

	mu       sync.Mutex // for appends; never held during a sync
	segments [2]*segment
	current  *segment
	other    *segment
	end      Position
	applied  Position
	synced   Position
	failures int       // of syncs
	failed   error     // the error of the last one
	progress sync.Cond // signals that synced or failures has changed
	closed   bool

	syncing sync.Mutex    // one sync at a time
	idle    chan struct{} // an entry without an account was appended
	dirty   chan struct{} // another entry was appended
	urgent  chan struct{} // a caller waits for a sync
	ended   chan struct{}
	running sync.WaitGroup
}

// Create makes an empty log. Its files are named by the prefix; they must not contain another log's entries.
func Create(prefix string, o Options) (*Log, error) {
	l := &Log{o: o.withDefaults(), idle: make(chan struct{}, 1), dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1), ended: make(chan struct{})}
	l.progress.L = &l.mu
	l.buffers.New = func() any { return new([]byte) }
	if err := l.create(prefix); err != nil {
		return nil, fmt.Errorf("charge log %s: %w", prefix, err)
	}
	l.running.Go(l.syncLoop)
	return l, nil
}

func (l *Log) create(prefix string) error {
	lock, err := takeLock(prefix)
	if err != nil {
		return err
	}
	found, err := Read(prefix)
	if err == nil && len(found.Entries) > 0 {
		err = errors.New("it holds what another gateway has charged")
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	for i := range l.segments {
		if l.segments[i], err = l.createSegment(prefix, i, lock); err != nil {
			return errors.Join(err, l.closeFiles())
		}
	}
	l.current, l.other = l.segments[0], l.segments[1]
	return nil
}

// createSegment creates a file with space for records. The first one is open already, because it has the lock.
func (l *Log) createSegment(prefix string, i int, lock *os.File) (*segment, error) {
	f := lock
	if i > 0 {
		var err error
		if f, err = open(segmentOf(prefix, i), os.O_CREATE); err != nil {
			return nil, err
		}
	}
	s := &segment{path: segmentOf(prefix, i), raw: f, file: l.o.Wrap(f)}
	err := s.file.Truncate(0) // it may be left by a gateway that was killed during its start
	if err == nil {
		_ = s.allocate(l.o.Segment) // a full disk is detected by writes
		err = s.begin(0)
	}
	return s, err
}

func open(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|flags, 0o600)
}

// takeLock opens a log's first file and takes its lock. The error is ErrTaken if another process has it, and fs.ErrNotExist if the file was removed
// meanwhile.
func takeLock(prefix string) (*os.File, error) {
	f, err := open(segmentOf(prefix, 0), os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrTaken
	}
	if err == nil && !(&segment{path: segmentOf(prefix, 0), raw: f}).exists() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Span is the position of an entry in the log.
type Span struct{ Start, End Position }

// Append appends an entry by one write. When it returns, the entry outlives the process; it is on disk after Options.Delay (Options.Idle
// if no account pays for it), or see WaitSynced. After an error the entry is not in the log.
func (l *Log) Append(e *Entry) (Span, error) {
	buffer := l.buffers.Get().(*[]byte)
	defer l.buffers.Put(buffer)
	b := e.encode(append((*buffer)[:0], make([]byte, recordHeader)...))
	*buffer = b
	if len(b) > MaxEntry {
		return Span{}, ErrTooLong
	}
	due := l.dirty
	if e.Charge != nil && e.Charge.Account == "" && e.Paid == 0 {
		due = l.idle
	}
	return l.write(b, due)
}

// write fills in a record's header, writes the record, and signals on due that it has to be synced.
func (l *Log) write(b []byte, due chan struct{}) (Span, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Span{}, ErrClosed
	}
	if err := l.switchSegment(); err != nil {
		return Span{}, err
	}
	s := l.current
	binary.LittleEndian.PutUint32(b, recordMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-recordHeader)) //nolint:gosec // not above MaxEntry
	binary.LittleEndian.PutUint32(b[8:], checksum(s.end, b[recordHeader:]))
	if _, err := s.file.WriteAt(b, s.offset(s.end)); err != nil {
		return Span{}, err
	}
	span := Span{s.end, s.end + Position(len(b))}
	s.end, l.end = span.End, span.End
	s.dirty = true
	signal(due)
	return span, nil
}

// switchSegment switches to the other file once this one is long enough and all of the other one's entries were applied. l.mu is locked.
func (l *Log) switchSegment() error {
	if l.current.size() < l.o.Segment || !l.isApplied(l.other) {
		return nil
	}
	if err := l.other.begin(l.end); err != nil {
		return err
	}
	l.current, l.other = l.other, l.current
	return nil
}

// isApplied reports whether all entries of a segment were applied.
func (l *Log) isApplied(s *segment) bool { return s.end <= l.applied }

// checksum is the checksum of a record at a position.
func checksum(at Position, payload []byte) uint32 {
	var seed [12]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(at))
	binary.LittleEndian.PutUint32(seed[8:], uint32(len(payload))) //nolint:gosec // not above MaxEntry
	return crc32.Update(crc32.Checksum(seed[:], castagnoli), castagnoli, payload)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// End is the position after the last entry.
func (l *Log) End() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Synced is the position up to which entries are on disk.
func (l *Log) Synced() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// Applied records that all entries before a position are in the store, durably.
func (l *Log) Applied(p Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p <= l.applied || l.closed {
		return
	}
	l.applied = p
	_ = l.current.mark(p) // after an error entries are read again
	if l.isApplied(l.other) {
		l.other.shrink(l.o.Segment)
	}
}

// Rename renames the files to another prefix, which must not be in use.
func (l *Log) Rename(prefix string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.segments {
		if err := os.Rename(s.path, segmentOf(prefix, i)); err != nil {
			return err
		}
		s.path = segmentOf(prefix, i)
	}
	return nil
}

// Close syncs the log and releases it. Its files stay, to be adopted.
func (l *Log) Close() error { return l.finish(l.closeFiles) }

// Remove closes the log and removes its files. All entries must be in the store.
func (l *Log) Remove() error { return l.finish(l.removeFiles) }

func (l *Log) finish(files func() error) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.ended)
	l.running.Wait()
	err := l.Sync()
	l.progress.Broadcast()
	return errors.Join(err, files())
}

func (l *Log) closeFiles() error {
	var errs []error
	for _, s := range l.segments {
		if s != nil {
			errs = append(errs, s.file.Close())
		}
	}
	return errors.Join(errs...)
}

// removeFiles removes the first file last, because it has the lock.
func (l *Log) removeFiles() error {
	return errors.Join(l.segments[1].remove(), l.segments[0].remove())
}
