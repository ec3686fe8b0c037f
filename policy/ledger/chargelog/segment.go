package chargelog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strconv"
)

// File is what a log needs of its files. Tests replace it by files that fail and lose what was not synced.
type File interface {
	io.WriterAt
	Sync() error
	Truncate(size int64) error
	Close() error
}

// A log consists of two segments, which are written in turn. A segment begins with a page for its header and one for the mark; records follow
// without gaps.
const (
	header     = 8192
	markAt     = 4096
	headerSize = 8 + 8 + 4
	markSize   = 8 + 4
)

// magic is the first bytes of a segment, with the version of its format.
const magic = "BARDOCL1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Position is a place in a log: the number of bytes that were appended before it. It only grows.
type Position uint64

// segment is one of the two files.
type segment struct {
	path      string
	on        *os.File
	file      File
	base, end Position // of its records
	allocated int64    // bytes of disk space that it has for sure
	dirty     bool     // written since the last sync began
}

// Suffix is the end of the name of a log's file, the first or the second, behind its prefix.
func Suffix(i int) string { return "." + strconv.Itoa(i) + ".log" }

func segmentOf(prefix string, i int) string { return prefix + Suffix(i) }

// offset is where in the file a position is.
func (s *segment) offset(p Position) int64 { return header + int64(p-s.base) } //nolint:gosec // a file's length

// size is the length of the file's part that is in use.
func (s *segment) size() int64 { return s.offset(s.end) }

// begin empties the segment: its records begin at a position. Records before that have other checksums.
func (s *segment) begin(base Position) error {
	h := append(make([]byte, 0, headerSize), magic...)
	h = binary.LittleEndian.AppendUint64(h, uint64(base))
	h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
	if _, err := s.file.WriteAt(h, 0); err != nil {
		return err
	}
	s.base, s.end, s.dirty = base, base, true
	return nil
}

// mark writes into the segment that everything before a position is in the store. It is a hint: who reads an entry again finds it there.
func (s *segment) mark(applied Position) error {
	m := binary.LittleEndian.AppendUint64(make([]byte, 0, markSize), uint64(applied))
	m = binary.LittleEndian.AppendUint32(m, crc32.Checksum(m, castagnoli))
	_, err := s.file.WriteAt(m, markAt)
	return err
}

// allocate takes disk space for the first bytes of the file. Where the file system cannot, all of the disk is said to be the file's.
func (s *segment) allocate(size int64) error {
	if size <= s.allocated {
		return nil
	}
	err := preallocate(s.on, size)
	if errors.Is(err, errors.ErrUnsupported) {
		s.allocated = 1 << 62
		return nil
	}
	if err == nil {
		s.allocated = size
	}
	return err
}

// shrink gives disk space back beyond a size.
func (s *segment) shrink(size int64) {
	if s.allocated > size && s.allocated < 1<<62 && s.file.Truncate(size) == nil {
		s.allocated = size
	}
}

// isThere reports whether the file still exists at its path.
func (s *segment) isThere() bool {
	own, err := s.on.Stat()
	if err != nil {
		return false
	}
	seen, err := os.Stat(s.path)
	return err == nil && os.SameFile(own, seen)
}

// remove removes the file, unless it was removed and another one has its name.
func (s *segment) remove() error {
	if !s.isThere() {
		return s.file.Close()
	}
	return errors.Join(os.Remove(s.path), s.file.Close())
}
