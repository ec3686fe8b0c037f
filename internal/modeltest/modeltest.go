// Package modeltest finds the local models for tests, and reads the reference library's tokens. Only tests import it.
package modeltest

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"bardo.money/gateway/internal/proctest"
)

// Dir returns the directory in which `make models` installs the models.
func Dir(tb testing.TB) string {
	tb.Helper()
	root, err := proctest.Root()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(root, ".tools", "models")
	if _, err := os.Stat(dir); err != nil {
		tb.Fatalf("no models to test with (%v): run `make models`", err)
	}
	return dir
}

// Unpack reads a compressed file.
func Unpack(tb testing.TB, path string) []byte {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Reference is the output of models/build/reference.py.
type Reference struct {
	Texts  [][2]json.RawMessage // pairs of a text and its tokens
	Blocks []string             // one hash per 256 characters
}

// ReadReference reads the reference library's output.
func ReadReference(tb testing.TB, path string) (r Reference) {
	tb.Helper()
	if err := json.Unmarshal(Unpack(tb, path), &r); err != nil {
		tb.Fatal(err)
	}
	return r
}

// Each calls f for each text with its tokens.
func (r *Reference) Each(tb testing.TB, f func(text string, want []int32)) {
	tb.Helper()
	for _, c := range r.Texts {
		var text string
		var want []int32
		if err := json.Unmarshal(c[0], &text); err != nil {
			tb.Fatal(err)
		}
		if err := json.Unmarshal(c[1], &want); err != nil {
			tb.Fatal(err)
		}
		f(text, want)
	}
}

// Different lists the blocks of 256 characters for which a tokenizer differs from the reference. encode is called with texts "aXb".
func (r *Reference) Different(tb testing.TB, encode func(string) []int32) (blocks []int) {
	tb.Helper()
	for i, want := range r.Blocks {
		all := [][]int32{}
		for c := rune(i * 256); c < rune(i*256+256); c++ {
			if c < 0xD800 || c > 0xDFFF {
				all = append(all, encode("a"+string(c)+"b"))
			}
		}
		b, err := json.Marshal(all)
		if err != nil {
			tb.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:4]) != want {
			blocks = append(blocks, i)
		}
	}
	return blocks
}
