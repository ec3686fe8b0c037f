package event

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Limits of a spool: bytes of a file, and files of one writer.
const (
	segmentBytes = 8 << 20
	maxSegments  = 32
)

// SpoolTo also writes all events to files in a directory, until a reader of Segments has taken them; "" turns that off. writer names the process, and
// must be unique in a directory. Written events survive the process, but not a power failure. If they are not read, the oldest files are dropped and
// counted.
func (s *Sink) SpoolTo(dir, writer string) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	old := s.spool.Load()
	if old != nil && old.to == dir {
		return nil
	}
	next, err := s.openSpool(dir, writer)
	if err != nil {
		return err
	}
	s.spool.Store(next)
	if old == nil {
		return nil
	}
	return s.end(old)
}

// openSpool opens an outlet to a new segment; nil for "".
func (s *Sink) openSpool(dir, writer string) (*outlet, error) {
	if dir == "" {
		return nil, nil //nolint:nilnil // nowhere is a place
	}
	w := &spool{dir: dir, writer: writer, maxBytes: segmentBytes, dropped: &s.dropped}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	if err := w.next(); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return newOutlet(dir, w, w, s.Redact), nil
}

// spool writes lines to segments. It has one user at a time.
type spool struct {
	dir, writer string
	maxBytes    int64 // bytes of a segment, exceeded by at most one line
	dropped     *atomic.Uint64

	f    *os.File
	size int64
}

// Write implements io.Writer. A new segment starts only after a whole line.
func (s *spool) Write(b []byte) (int, error) {
	if s.f == nil {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.f.Write(b)
	if err != nil { // a partial line may have been written: nothing may follow it
		return n, errors.Join(err, s.Close())
	}
	if s.size += int64(n); s.size < s.maxBytes || !bytes.HasSuffix(b, []byte("\n")) {
		return n, nil
	}
	return n, s.Close()
}

// Close ends the segment.
func (s *spool) Close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f, s.size = nil, 0
	return err
}

// next starts a segment, and drops the oldest if there are too many.
func (s *spool) next() error {
	all, err := Segments(s.dir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(g Segment) bool { return g.Writer != s.writer })
	number := int64(1)
	if n := len(all); n > 0 {
		number = all[n-1].number + 1
	}
	for len(all) >= maxSegments {
		s.drop(all[0].Path)
		all = all[1:]
	}
	name := fmt.Sprintf("%s-%d-%s%s", s.writer, number, rand.Text(), segmentSuffix)
	s.f, err = os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

func (s *spool) drop(path string) {
	b, err := os.ReadFile(path)
	if err != nil || os.Remove(path) != nil {
		return // already taken by its reader
	}
	s.dropped.Add(uint64(bytes.Count(b, []byte("\n")))) //nolint:gosec // a count
}

const segmentSuffix = ".jsonl"

// Segment is a file of a spool, with the lines of a Sink.
type Segment struct {
	Path   string
	Writer string
	ID     string // unique among all gateways
	Closed bool   // nothing is appended any more

	number int64
}

// Segments returns the files of a spool, those of each writer from oldest to newest; none if the directory does not exist.
func Segments(dir string) ([]Segment, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil {
		return nil, err
	}
	var all []Segment
	for _, p := range paths {
		parts := strings.Split(strings.TrimSuffix(filepath.Base(p), segmentSuffix), "-")
		if len(parts) != 3 {
			continue
		}
		if n, err := strconv.ParseInt(parts[1], 10, 64); err == nil {
			all = append(all, Segment{Path: p, Writer: parts[0], ID: parts[2], number: n})
		}
	}
	slices.SortFunc(all, func(a, b Segment) int {
		return cmp.Or(strings.Compare(a.Writer, b.Writer), cmp.Compare(a.number, b.number))
	})
	for i := range all {
		all[i].Closed = i+1 < len(all) && all[i+1].Writer == all[i].Writer
	}
	return all, nil
}

// Lines returns the whole lines of a segment from an offset on, at least one and at most limit bytes otherwise, and the offset after them. A last
// line without an end is incomplete and left out.
func (g *Segment) Lines(from int64, limit int) (lines [][]byte, next int64, err error) {
	f, err := os.Open(g.Path)
	if err != nil {
		return nil, from, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	b, err := io.ReadAll(io.NewSectionReader(f, from, int64(limit)))
	if err == nil && len(b) == limit && bytes.IndexByte(b, '\n') < 0 { // a longer line
		b, err = io.ReadAll(io.NewSectionReader(f, from, math.MaxInt64-from))
	}
	if err != nil {
		return nil, from, err
	}
	for next = from; ; {
		i := bytes.IndexByte(b, '\n')
		if i < 0 || len(lines) > 0 && next-from+int64(i) >= int64(limit) {
			return lines, next, nil
		}
		lines, b, next = append(lines, b[:i]), b[i+1:], next+int64(i)+1
	}
}
