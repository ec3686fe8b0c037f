package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"bardo.money/gateway/policy"
)

// note is a deferrable change in a form that another process can apply, too. Applying it twice changes nothing.
type note struct {
	Charge  *Charge
	Prepaid bool         // the charge is taken from a balance
	Hold    policy.Micro // amount of the gateway's block that is held for it
	Kept    []Kept
	At      int64 // when things were kept, in microseconds since 1970
}

// spill is the file beside the store to which a gateway writes notes during an outage. Its disk space is reserved at start, so that it works with
// a full disk. The holder of its lock may apply the notes to the store and remove it: while the gateway runs, the gateway itself.
//
// It begins with a header: magic, epoch, checksum. Records follow it without gaps: length, checksum, a gob of notes. Their checksums are over
// the epoch too, which moves when all notes are written to the store: what is left of earlier epochs is no record any more.
type spill struct {
	path  string
	file  *os.File
	epoch uint64
	end   int64 // offset of the next record
}

const (
	spillMagic    = "BARDOSP1"
	spillHeader   = 8 + 8 + 4
	recordHeader  = 4 + 4
	spillReserved = 4 << 20 // bytes; about two thousand charges
	spillMost     = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spillOf names the file of an instance.
func spillOf(store string, instance int64) string {
	return store + "." + strconv.FormatInt(instance, 10) + ".spill"
}

// errSpillTaken says that another process has the lock on a spill file.
var errSpillTaken = errors.New("another process has it")

// createSpill creates an instance's file and takes its lock.
func createSpill(store string, instance int64) (*spill, error) {
	s, err := lockSpill(spillOf(store, instance), os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("spill file: %w", err)
	}
	notes, err := s.notes()
	if err == nil && len(notes) > 0 {
		err = fmt.Errorf("%s holds what another gateway could not write", s.path)
	}
	if err == nil {
		err = errors.Join(s.file.Truncate(0), s.reserve())
	}
	if err != nil {
		return nil, fmt.Errorf("spill file: %w", errors.Join(err, s.close()))
	}
	return s, nil
}

// reserve reserves the disk space, if the file system supports it, and writes the header.
func (s *spill) reserve() error {
	_ = preallocate(s.file, spillReserved) // without it a full disk leaves memory alone
	return s.reset()
}

// lockSpill opens a file and takes its lock. The error is errSpillTaken when another process has it, and fs.ErrNotExist when it was removed
// meanwhile.
func lockSpill(path string, flags int) (*spill, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0o600) //nolint:gosec // the operator names the store
	if err != nil {
		return nil, err
	}
	s := &spill{path: path, file: f}
	ok, err := flock(f, syscall.LOCK_EX)
	if err == nil && !ok {
		err = errSpillTaken
	}
	if err == nil && !s.isThere() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// isThere reports whether the file still exists at its path.
func (s *spill) isThere() bool {
	own, err := s.file.Stat()
	if err != nil {
		return false
	}
	seen, err := os.Stat(s.path)
	return err == nil && os.SameFile(own, seen)
}

// close releases the lock. The file stays.
func (s *spill) close() error { return s.file.Close() }

// remove removes a file whose notes are all in the store.
func (s *spill) remove() error {
	err := os.Remove(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.close())
}

// rename renames the file to a new instance id.
func (s *spill) rename(path string) error {
	err := os.Rename(s.path, path) //nolint:gosec // the operator names the store
	if err == nil {
		s.path = path
	}
	return err
}

// reset empties the file by starting a new epoch.
func (s *spill) reset() error {
	h := make([]byte, 0, spillHeader)
	h = append(h, spillMagic...)
	h = binary.LittleEndian.AppendUint64(h, s.epoch+1)
	h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
	if _, err := s.file.WriteAt(h, 0); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.epoch++
	if s.end > spillReserved {
		_ = s.file.Truncate(spillReserved) // space alone is lost where this fails
	}
	s.end = spillHeader
	return nil
}

// errSpillFull means that the file has reached its maximum size.
var errSpillFull = errors.New("the spill file is full")

// add appends notes and returns once they are durable. After an error none of them is in the file.
func (s *spill) add(notes []*note) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(notes); err != nil {
		return err
	}
	if text.Len() > spillMost {
		return errSpillFull
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(text.Len())) //nolint:gosec // bounded by the line before
	b = binary.LittleEndian.AppendUint32(b, s.checksum(text.Bytes()))
	b = append(b, text.Bytes()...)
	if s.end+int64(len(b)) > spillMost {
		return errSpillFull
	}
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.end += int64(len(b))
	return nil
}

// checksum is a record's.
func (s *spill) checksum(text []byte) uint32 {
	var epoch [8]byte
	binary.LittleEndian.PutUint64(epoch[:], s.epoch)
	return crc32.Update(crc32.Checksum(epoch[:], castagnoli), castagnoli, text)
}

// notes reads all records up to the first incomplete one.
func (s *spill) notes() (notes []*note, err error) {
	b, err := io.ReadAll(io.NewSectionReader(s.file, 0, spillMost))
	if err != nil || len(b) < spillHeader || string(b[:8]) != spillMagic {
		return nil, err
	}
	if crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return nil, nil // it is written anew where there are no records alone
	}
	s.epoch = binary.LittleEndian.Uint64(b[8:])
	for b = b[spillHeader:]; len(b) >= recordHeader; {
		size := int64(binary.LittleEndian.Uint32(b))
		if size == 0 || size > int64(len(b)-recordHeader) {
			break
		}
		text := b[recordHeader : recordHeader+size]
		if s.checksum(text) != binary.LittleEndian.Uint32(b[4:]) {
			break
		}
		var some []*note
		if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&some); err != nil { //nolint:gosec // gateways write it, beside the store and as private
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		notes = append(notes, some...)
		b = b[recordHeader+size:]
	}
	return notes, nil
}

// spillFiles are the files beside a store, by their instances.
func spillFiles(store string) (files map[int64]string, err error) {
	dir, name := filepath.Split(store)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	files = map[int64]string{}
	for _, e := range entries {
		number, isSpill := strings.CutSuffix(strings.TrimPrefix(e.Name(), name+"."), ".spill")
		if id, err := strconv.ParseInt(number, 10, 64); isSpill && err == nil && strings.HasPrefix(e.Name(), name+".") {
			files[id] = filepath.Join(dir, e.Name())
		}
	}
	return files, nil
}

// abandoned are the files of dead gateways, locked, with their notes. taken are those that another process is applying.
func abandoned(store string) (left []leftover, taken []int64, err error) {
	files, err := spillFiles(store)
	if err != nil {
		return nil, nil, err
	}
	for id, path := range files {
		s, err := lockSpill(path, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, errSpillTaken):
			taken = append(taken, id)
			continue
		case err != nil:
			return left, taken, err
		}
		notes, err := s.notes()
		if err != nil {
			return left, append(taken, id), errors.Join(err, s.close())
		}
		left = append(left, leftover{s, id, notes})
	}
	slices.SortFunc(left, func(a, b leftover) int { return int(a.instance - b.instance) })
	return left, taken, nil
}

// leftover is the spill file of a dead gateway.
type leftover struct {
	*spill
	instance int64
	notes    []*note
}
