package onnx

import (
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/models/manifest"
)

// library is the path of the runtime that `make models` installed, in whole and loaded.
func library(tb testing.TB) string {
	tb.Helper()
	m, err := manifest.BuiltIn()
	if err != nil {
		tb.Fatal(err)
	}
	f, ok := m.Runtime.Library()
	if !ok {
		tb.Fatal("there is no runtime for this machine")
	}
	path, err := manifest.Dirs{modeltest.Dir(tb)}.Check(f)
	if err != nil {
		tb.Fatal(err)
	}
	version, err := Load(path)
	if err != nil || version != m.Runtime.Version {
		tb.Fatalf("version %q: %v", version, err)
	}
	return path
}

// The tokens of "This is an example sentence", with the values of the model's page and the Python runtime, within the precision of int8.
func TestTheEmbeddingOfAKnownSentence(t *testing.T) {
	library(t)
	s, err := Open(filepath.Join(modeltest.Dir(t), "all-minilm-l6-v2.int8.onnx"), "sentence_embedding")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ids := []int64{101, 2023, 2003, 2019, 2742, 6251, 102}
	v, err := s.Run(1, ids, []int64{1, 1, 1, 1, 1, 1, 1})
	if err != nil || len(v) != 384 {
		t.Fatal(len(v), err)
	}
	length := 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	if math.Abs(length-1) > 1e-5 {
		t.Errorf("its length is %f", math.Sqrt(length))
	}
	for i, want := range []float64{0.0677, 0.0635, 0.0487, 0.0793, 0.0374} {
		if math.Abs(float64(v[i])-want) > 0.02 {
			t.Errorf("dimension %d is %f, want about %f", i, v[i], want)
		}
	}
	if _, err := s.Run(2, ids, make([]int64, len(ids))); err == nil {
		t.Error("rows of several lengths were accepted")
	}
}

func TestModelsThatAreNotWhatTheyShouldBe(t *testing.T) {
	path := library(t)
	model := filepath.Join(modeltest.Dir(t), "stackone-defender-v5.onnx")
	if _, err := Open(model, "sentence_embedding"); err == nil || !strings.Contains(err.Error(), "no output sentence_embedding") {
		t.Error(err)
	}
	if _, err := Open(path, "logits"); err == nil {
		t.Error("a library was opened as a model")
	}
	if _, err := Load(model); err == nil || !strings.Contains(err.Error(), "loaded from "+path) {
		t.Error(err)
	}
}

// oldRuntime is a library of an older version, without the requested interface.
const oldRuntime = `#include <stddef.h>
#include <stdint.h>
typedef struct { const void *(*get)(uint32_t); const char *(*version)(void); } base;
static const void *get(uint32_t v) { return NULL; }
static const char *version(void) { return "1.20.1"; }
static const base b = { get, version };
const base *OrtGetApiBase(void) { return &b; }
`

func TestAnOldRuntimeIsRefused(t *testing.T) {
	if loaded.path != "" { // as another test may have done in this process
		out, err := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestAnOldRuntimeIsRefused$", "-test.v").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestAnOldRuntimeIsRefused") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	old := filepath.Join(t.TempDir(), "libold.so")
	cc := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-x", "c", "-o", old, "-")
	cc.Stdin = strings.NewReader(oldRuntime)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := Load(old); err == nil || !strings.Contains(err.Error(), "is too old: version 1.24 or newer") {
		t.Error(err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.so")); err == nil || !strings.Contains(err.Error(), "none.so") {
		t.Error(err)
	}
	library(t) // the right one can still be loaded
}
