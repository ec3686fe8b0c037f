package chargelog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strconv"
)

// File is a log's file. Tests replace it by files that fail and lose unsynced writes.
type File interface {
	io.WriterAt
	Sync() error
	Truncate(size int64) error
	Close() error
}

// A log consists of two segments, which are written alternately. A segment begins with a page for its header and one for the mark; records follow
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

// Position is a position in a log: the number of bytes that were appended before it. It never decreases.
type Position uint64

// segment is one of the two files.
type segment struct {
	path      string
	raw       *os.File
	file      File
	base, end Position // range of its records
	allocated int64    // bytes of allocated disk space
	dirty     bool     // written since the last sync began
}

// Suffix is the suffix of the name of a log's first (0) or second (1) file.
func Suffix(i int) string { return "." + strconv.Itoa(i) + ".log" }

func segmentOf(prefix string, i int) string { return prefix + Suffix(i) }

// offset is a position's offset in the file.
func (s *segment) offset(p Position) int64 { return header + int64(p-s.base) } //nolint:gosec // a file's length

// size is the length of the file's used part.
func (s *segment) size() int64 { return s.offset(s.end) }

// begin empties the segment, whose records begin at a position now. Remains of earlier records have the checksums of other positions.
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

// mark stores in the segment that everything before a position is in the store. It is a hint: applying an entry again changes nothing.
func (s *segment) mark(applied Position) error {
	m := binary.LittleEndian.AppendUint64(make([]byte, 0, markSize), uint64(applied))
	m = binary.LittleEndian.AppendUint32(m, crc32.Checksum(m, castagnoli))
	_, err := s.file.WriteAt(m, markAt)
	return err
}

// allocate allocates disk space for the first bytes of the file. If the file system cannot, allocated is set to a value that is always enough.
func (s *segment) allocate(size int64) error {
	if size <= s.allocated {
		return nil
	}
	err := preallocate(s.raw, size)
	if errors.Is(err, errors.ErrUnsupported) {
		s.allocated = 1 << 62
		return nil
	}
	if err == nil {
		s.allocated = size
	}
	return err
}

// shrink frees allocated disk space beyond a size.
func (s *segment) shrink(size int64) {
	if s.allocated > size && s.allocated < 1<<62 && s.file.Truncate(size) == nil {
		s.allocated = size
	}
}

// exists reports whether the file still exists at its path.
func (s *segment) exists() bool {
	own, err := s.raw.Stat()
	if err != nil {
		return false
	}
	seen, err := os.Stat(s.path)
	return err == nil && os.SameFile(own, seen)
}

// remove closes the file and removes it, unless it is not at its path any more.
func (s *segment) remove() error {
	if !s.exists() {
		return s.file.Close()
	}
	return errors.Join(os.Remove(s.path), s.file.Close())
}
