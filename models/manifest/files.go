package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dirs are the directories of model files, in order of precedence.
type Dirs []string

// ErrAbsent means that a file is in none of the directories.
var ErrAbsent = errors.New("not installed")

// Find returns the path of a file, without reading it. The error wraps ErrAbsent if it does not exist.
func (d Dirs) Find(f File) (string, error) {
	for _, dir := range d {
		path := filepath.Join(dir, f.Name)
		switch st, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case !st.Mode().IsRegular():
			return "", fmt.Errorf("%s is no file", path)
		default:
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s is not in %s", ErrAbsent, f.Name, strings.Join(d, " or "))
}

// Check finds a file and compares its content with its hash.
func (d Dirs) Check(f File) (path string, err error) {
	path, err = d.Find(f)
	if err != nil {
		return "", err
	}
	want, err := f.hash(path)
	if err != nil {
		return "", err
	}
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	got, err := Hash(in)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if got != want {
		return "", fmt.Errorf("%s is not the file that was meant: its SHA-256 is %s, expected %s", path, got, want)
	}
	return path, nil
}

// Sum returns the hash that a file must have.
func (d Dirs) Sum(f File) (string, error) {
	path, err := d.Find(f)
	if err != nil {
		return "", err
	}
	return f.hash(path)
}

// hashSuffix is the suffix of the file that records the hash of an installed one.
const hashSuffix = ".sha256"

// hash returns the expected hash of a file's content: the manifest's, else the one recorded at its installation.
func (f *File) hash(path string) (string, error) {
	if f.SHA256 != "" {
		return f.SHA256, nil
	}
	b, err := os.ReadFile(path + hashSuffix)
	if err != nil {
		return "", fmt.Errorf("the hash of %s is not known: install it with bardo models install: %w", path, err)
	}
	sum := strings.TrimSpace(string(b))
	if !hexHash.MatchString(sum) {
		return "", fmt.Errorf("%s holds no SHA-256", path+hashSuffix)
	}
	return sum, nil
}

// Hash returns the SHA-256 of r's content, in hexadecimal digits.
func Hash(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Install writes a model's file into a directory, if its content has the expected hash, or not at all. sum is the operator's expected hash, which is
// recorded; it may be empty if the manifest has one, and must be equal to the manifest's otherwise.
func Install(dir string, f File, sum string, content io.Reader) (err error) {
	switch sum = strings.ToLower(sum); {
	case sum == "" && f.SHA256 == "":
		return fmt.Errorf("the hash of %s is not known: say which one you expect, as its publisher does", f.Name)
	case sum != "" && !hexHash.MatchString(sum):
		return fmt.Errorf("%q is no SHA-256: expected 64 hexadecimal digits", sum)
	case sum == "":
		sum = f.SHA256
	case f.SHA256 != "" && sum != f.SHA256:
		return fmt.Errorf("the hash of %s is %s, not %s", f.Name, f.SHA256, sum)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".install-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeIfThere(tmp.Name())) }()
	got, err := Hash(io.TeeReader(content, tmp))
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if got != sum {
		return fmt.Errorf("%s: the content's SHA-256 is %s, expected %s", f.Name, got, sum)
	}
	path := filepath.Join(dir, f.Name)
	if err := os.WriteFile(path+hashSuffix, []byte(sum+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
