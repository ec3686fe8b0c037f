// Package settings finds and reads configuration files, and derives from a configuration what several packages need: the models, the rules of intents, the
// inference profiles.
package settings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
)

// Read reads a configuration file.
func Read(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Advise(fmt.Errorf("configuration file %s does not exist", path), "name another one with -c")
	}
	if err != nil {
		return nil, cli.Advise(fmt.Errorf("configuration file: %w", err), "name one that this user can read with -c")
	}
	return data, nil
}

// SettleTime is how long a file must be unchanged before it is read: editors write in several steps.
const SettleTime = 200 * time.Millisecond

// Info is the info of a file; nil if it does not exist.
func Info(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// Settled reports whether a file has not been modified recently. A file with a time in the future counts as settled, and so does a missing one, since reading
// it returns the error.
func Settled(f os.FileInfo, now time.Time) bool {
	if f == nil {
		return true
	}
	age := now.Sub(f.ModTime())
	return age < 0 || age >= SettleTime
}

// SameFile reports whether a file was neither modified nor replaced between two calls of Info.
func SameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// File is a configuration file as it was read.
type File struct {
	Path string
	Data []byte
	Info os.FileInfo // from before the read; nil if it did not exist
}

// ErrChanging means that a file was written to while it was read: a prefix of a file may be a valid configuration too.
var ErrChanging = errors.New("the file changed while it was read")

// ReadFile reads a file with read. Data returned with ErrChanging must not be used.
func ReadFile(path string, read func(string) ([]byte, error)) (File, error) {
	f := File{Path: path, Info: Info(path)}
	var err error
	f.Data, err = read(path)
	if !SameFile(f.Info, Info(path)) {
		return f, ErrChanging
	}
	return f, err
}

// readSettled reads a configuration file, and retries while it changes.
func readSettled(ctx context.Context, path string) (File, error) {
	for {
		f, err := ReadFile(path, Read)
		if !errors.Is(err, ErrChanging) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(SettleTime):
		}
	}
}

// Digest identifies the contents of a configuration file: a prefix of its SHA-256.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}
