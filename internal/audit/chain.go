package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// Head is the end of a chain: the number of its last line, from 1, and that line's hash. The zero value is the head of an empty chain.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// line is one line as it is written. Its hash is the SHA-256, in hex, of the line's bytes before `,"hash":`.
type line struct {
	Seq     int64          `json:"seq"`
	Time    time.Time      `json:"time"`
	Event   string         `json:"event"`
	Account policy.Account `json:"account,omitempty"`
	Data    any            `json:"data,omitempty"`
	Prev    string         `json:"prev"` // hash of the line before; "" for the first
}

// written is a line and the head after it.
type written struct {
	Head
	text []byte
}

const (
	hashBegin = `,"hash":"`
	hashEnd   = `"}`
)

// line returns the next line of the chain.
func (h Head) line(e *entry, redact func([]byte) []byte) (written, error) {
	text, err := json.Marshal(line{h.Seq + 1, e.at.UTC(), e.event, e.account, e.data, h.Hash})
	if err != nil {
		return written{}, fmt.Errorf("%s: %w", e.event, err)
	}
	if redact != nil {
		text = redact(text)
	}
	text = text[:len(text)-1]
	hash := hashOf(text)
	return written{Head{h.Seq + 1, hash}, append(append(append(text, hashBegin...), hash...), hashEnd+"\n"...)}, nil
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// parsed is a line that was read.
type parsed struct {
	Head
	prev string
	sum  string // expected hash
}

var errForm = errors.New("it does not have the form of a line of an audit log")

// parse reads a line, without its end.
func parse(text []byte) (p parsed, err error) {
	var l struct {
		Seq  int64   `json:"seq"`
		Prev *string `json:"prev"`
		Hash string  `json:"hash"`
	}
	at := bytes.LastIndex(text, []byte(hashBegin))
	if at < 0 || json.Unmarshal(text, &l) != nil || l.Prev == nil || string(text[at:]) != hashBegin+l.Hash+hashEnd {
		return p, errForm
	}
	return parsed{Head{l.Seq, l.Hash}, *l.Prev, hashOf(text[:at])}, nil
}

// headPath is the file of the head: the number and hash of the last line, which show whether a log was cut off.
func (o *Options) headPath() string { return o.Path + ".head" }

// keep writes the head, replacing the previous one.
func (h Head) keep(path string, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d %s\n", h.Seq, h.Hash)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// readHead reads a head; without a file it returns the head of an empty chain.
func readHead(path string) (h Head, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	return ParseHead(strings.TrimSpace(string(b)))
}

// ParseHead reads a head in the form "SEQ HASH" or "SEQ:HASH".
func ParseHead(text string) (h Head, err error) {
	seq, hash, ok := strings.Cut(strings.Replace(text, ":", " ", 1), " ")
	if h.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil || !ok || h.Seq < 0 || len(hash) != 2*sha256.Size && h.Seq > 0 {
		return Head{}, fmt.Errorf("%q is no head of an audit log: expected a number and a hash", text)
	}
	h.Hash = hash
	return h, nil
}

// files returns the log's files, oldest first. All but the newest are named after their last line.
func (o *Options) files() ([]string, error) {
	older, err := o.older()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.Path); err == nil {
		older = append(older, o.Path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return older, nil
}

// older returns all files but the newest.
func (o *Options) older() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(o.Path))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), filepath.Base(o.Path)+"."); ok && len(n) == seqDigits && strings.Trim(n, "0123456789") == "" {
			list = append(list, filepath.Join(filepath.Dir(o.Path), e.Name()))
		}
	}
	slices.Sort(list)
	return list, nil
}

// seqDigits is the width of the numbers in file names, so that these sort.
const seqDigits = 19

// rotate starts a new file.
func (l *Log) rotate() error {
	l.save()
	if err := os.Rename(l.o.Path, fmt.Sprintf("%s.%0*d", l.o.Path, seqDigits, l.last.Seq)); err != nil && !errors.Is(err, fs.ErrNotExist) { // if it does not exist, an earlier rotation renamed it and then could not create the new file
		return err
	}
	f, err := os.OpenFile(l.o.Path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	err = l.file.Close()
	l.file, l.size = f, 0
	if err != nil || l.o.Keep == 0 {
		return err
	}
	older, err := l.o.older()
	if err != nil {
		return err
	}
	for _, p := range older[:max(0, len(older)-l.o.Keep)] {
		err = errors.Join(err, os.Remove(p))
	}
	return err
}
