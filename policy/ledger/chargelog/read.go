package chargelog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
)

// Contents is the contents of a log's files.
type Contents struct {
	Entries []LocatedEntry // in the order in which they were appended
	Damaged int64          // bytes between records that are not records, after a power failure
}

// LocatedEntry is an entry with its position.
type LocatedEntry struct {
	Span
	*Entry
	Applied bool // it is in the store, by the mark; else it may be there, too
}

// Unapplied returns the entries that may not be in the store.
func (f *Contents) Unapplied() (left []*Entry) {
	for _, e := range f.Entries {
		if !e.Applied {
			left = append(left, e.Entry)
		}
	}
	return left
}

// Read reads a log that another process may be writing, or that a dead one has left. Missing files count as empty.
func Read(prefix string) (f Contents, err error) {
	var applied Position
	for i := range 2 {
		b, err := os.ReadFile(segmentOf(prefix, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Contents{}, err
		}
		mark, err := f.add(b)
		if err != nil {
			return Contents{}, err
		}
		applied = max(applied, mark)
	}
	slices.SortFunc(f.Entries, func(a, b LocatedEntry) int { return cmp.Compare(a.Start, b.Start) })
	for i := range f.Entries {
		f.Entries[i].Applied = f.Entries[i].End <= applied
	}
	return f, nil
}

// add reads a segment. If its header is damaged, nothing in it can be read.
func (f *Contents) add(b []byte) (mark Position, err error) {
	if len(b) < header || string(b[:8]) != magic || crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return 0, nil
	}
	at := Position(binary.LittleEndian.Uint64(b[8:]))
	if m := b[markAt : markAt+markSize]; crc32.Checksum(m[:8], castagnoli) == binary.LittleEndian.Uint32(m[8:]) {
		mark = Position(binary.LittleEndian.Uint64(m))
	}
	for b, lost := b[header:], int64(0); len(b) >= recordHeader; {
		size := recordAt(b, at)
		if size == 0 { // the end, or damage before more records
			skipped := nextCandidate(b)
			b, at, lost = b[skipped:], at+Position(skipped), lost+int64(skipped) //nolint:gosec // not negative
			continue
		}
		e, err := decode(b[recordHeader:size])
		if err != nil {
			return 0, err
		}
		f.Damaged += lost
		lost = 0
		end := at + Position(size) //nolint:gosec // not negative
		f.Entries = append(f.Entries, LocatedEntry{Span: Span{at, end}, Entry: e})
		b, at = b[size:], end
	}
	return mark, nil
}

// recordAt is the length of the record at the start of b, which is at a position; 0 if there is none.
func recordAt(b []byte, at Position) int {
	if binary.LittleEndian.Uint32(b) != recordMagic {
		return 0
	}
	size := int64(binary.LittleEndian.Uint32(b[4:]))
	if size == 0 || size > int64(len(b)-recordHeader) {
		return 0
	}
	if checksum(at, b[recordHeader:recordHeader+size]) != binary.LittleEndian.Uint32(b[8:]) {
		return 0
	}
	return recordHeader + int(size)
}

// firstByte is the first byte of a record.
const firstByte = byte(recordMagic & 0xff)

// nextCandidate is the distance to the next place where a record may begin, at least one byte.
func nextCandidate(b []byte) int {
	if next := bytes.IndexByte(b[1:], firstByte); next >= 0 {
		return 1 + next
	}
	return len(b)
}

// Adopted is a dead gateway's log that this process has taken over.
type Adopted struct {
	Contents
	prefix string
	lock   *os.File
}

// Adopt takes over a log and reads it. The error is ErrTaken if another process has it, and fs.ErrNotExist if it was removed meanwhile.
func Adopt(prefix string) (*Adopted, error) {
	lock, err := takeLock(prefix)
	if err != nil {
		return nil, err
	}
	found, err := Read(prefix)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Adopted{Contents: found, prefix: prefix, lock: lock}, nil
}

// Close releases the log.
func (a *Adopted) Close() error { return a.lock.Close() }

// Remove removes the files. All entries must be in the store. The log must still be closed.
func (a *Adopted) Remove() error {
	for _, i := range []int{1, 0} { // the first one has the lock
		if err := os.Remove(segmentOf(a.prefix, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
