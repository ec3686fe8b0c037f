package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine limits a line, in bytes.
const maxLine = 4 << 20

// Report is the result of a verification.
type Report struct {
	OK     bool     `json:"ok"`
	Files  int      `json:"files"`
	Lines  int64    `json:"lines"`
	First  int64    `json:"first"` // number of the first line: above 1 if older files were removed
	Head   Head     `json:"head"`
	Faults []string `json:"faults,omitempty"` // the first 100
}

func (r *Report) fault(format string, args ...any) {
	const maxFaults = 100
	if r.OK = false; len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// Verify reads all files of the log at path and checks the chain. The log has to contain the head beside it, and each of witnesses, which are heads
// that were recorded elsewhere: someone with write access to the directory can make a new chain, but not one that contains a head recorded elsewhere.
// It may run while the log is written.
func Verify(path string, witnesses ...Head) (*Report, error) {
	o := Options{Path: path}
	kept, err := readHead(o.headPath()) // read first: lines that are added meanwhile do no harm
	if err != nil {
		return nil, err
	}
	files, err := o.files()
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there is no audit log", path)
	}
	r := &Report{OK: true, Files: len(files)}
	found := map[int64]string{}
	for _, w := range append(witnesses, kept) {
		found[w.Seq] = ""
	}
	for i, f := range files {
		if err := r.read(f, i == len(files)-1, found); err != nil {
			return nil, err
		}
	}
	if kept == (Head{}) {
		r.fault("%s is missing: it cannot be told whether lines were cut off", o.headPath())
	}
	for _, w := range append(witnesses, kept) {
		r.reaches(w, found[w.Seq])
	}
	return r, nil
}

// reaches compares a head with the line of its number.
func (r *Report) reaches(w Head, hash string) {
	switch {
	case w.Seq == 0 || w.Seq < r.First && w.Hash != "":
	case hash == "":
		r.fault("line %d is missing: the log ends at line %d, and has been cut off", w.Seq, r.Head.Seq)
	case hash != w.Hash:
		r.fault("line %d is not the one whose hash was noted: the log was made anew", w.Seq)
	}
}

// read checks the lines of one file. newest is true for the one that is being written.
func (r *Report) read(path string, newest bool, found map[int64]string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case errors.Is(err, io.EOF) && newest: // it is being written, or its writer was killed
			return nil
		case errors.Is(err, io.EOF):
			r.fault("%s:%d: the line is not whole", path, n)
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			r.fault("%s:%d: the line is too long", path, n)
			return nil
		case err != nil:
			return err
		}
		r.line(fmt.Sprintf("%s:%d", path, n), bytes.TrimSuffix(text, []byte{'\n'}), found)
	}
}

// line checks a line against the previous one.
func (r *Report) line(at string, text []byte, found map[int64]string) {
	r.Lines++
	p, err := parse(text)
	if err != nil {
		r.fault("%s: %v", at, err)
		return
	}
	if p.Hash != p.sum {
		r.fault("%s: line %d was changed: its hash is another", at, p.Seq)
	}
	switch {
	case r.First == 0:
		if r.First = p.Seq; p.Seq == 1 && p.prev != "" {
			r.fault("%s: the first line refers to one before it", at)
		}
	case p.Seq != r.Head.Seq+1:
		r.fault("%s: line %d follows line %d: lines were removed, added or moved", at, p.Seq, r.Head.Seq)
	case p.prev != r.Head.Hash:
		r.fault("%s: line %d does not refer to the line before it", at, p.Seq)
	}
	r.Head = p.Head
	if _, ok := found[p.Seq]; ok {
		found[p.Seq] = p.sum
	}
}

// lastOf returns the head after a file's last whole line; the zero one for a file without lines, or with an invalid last line.
func lastOf(path string) (h Head, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReaderSize(f, maxLine)
	var last []byte
	for {
		text, err := in.ReadSlice('\n')
		if err != nil {
			break // the end, or an invalid line: the previous one counts
		}
		last = append(last[:0], text...)
	}
	if last == nil {
		return h, nil
	}
	if p, err := parse(bytes.TrimSuffix(last, []byte{'\n'})); err == nil {
		h = p.Head
	}
	return h, nil
}

// Export writes all lines, oldest first.
func Export(path string, to io.Writer) error {
	o := Options{Path: path}
	files, err := o.files()
	if err != nil {
		return err
	}
	for _, p := range files {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		whole, _, err := wholeLines(f)
		if err == nil {
			_, err = io.Copy(to, io.NewSectionReader(f, 0, whole))
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
