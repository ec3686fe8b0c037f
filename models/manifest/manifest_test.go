package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/internal/modeltest"
)

func builtInManifest(tb testing.TB) *Manifest {
	tb.Helper()
	m, err := BuiltIn()
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestTheInstalledModelsAreThoseOfTheManifest(t *testing.T) {
	m, dirs, n := builtInManifest(t), Dirs{t.TempDir(), modeltest.Dir(t)}, 0
	for i := range m.Models {
		for _, f := range []File{m.Models[i].Files.Model, m.Models[i].Files.Tokenizer} {
			if f.Address != "" {
				if _, err := dirs.Check(f); !errors.Is(err, ErrAbsent) || f.SHA256 != "" {
					t.Errorf("%s: %v", f.Name, err)
				}
				continue
			}
			n++
			if _, err := dirs.Check(f); err != nil {
				t.Error(err)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d files are made", n)
	}
	if a, b := m.Of(Embedding), m.Of(Injection); a[0] != "all-minilm-l6-v2" || b[0] != "stackone-defender-v5" {
		t.Error(a, b)
	}
}

func TestMistakesInAManifestAreFound(t *testing.T) {
	good := string(builtIn)
	for _, c := range [][2]string{
		{"dimensions: 384", "dimensions: 0"},
		{"kind: embedding", "kind: other"},
		{"threshold: 0.92 #", "threshold: 1.5 #"},
		{"threshold: 0.92 #", "treshold: 0.92 #"},
		{"file: stackone-defender-v5.onnx", "file: ../stackone.onnx"},
		{"sha256: 3d4a1b", "sha256: 3D4A1B"},
		{"temperature: 2.41", "temperature: 0"},
		{"head: sigmoid", "head: other"},
		{"overlap: 64\n    output: logits\n    head: sigmoid", "overlap: 200\n    output: logits\n    head: sigmoid"},
		{"tokenizer: unigram", "tokenizer: bpe"},
		{"name: nomic-embed-text-v1.5", "name: all-minilm-l6-v2"},
		{"labels: [O, B-MISC,", "labels: [O,"},
		{"labels: [O, B-MISC, I-MISC, B-PER, I-PER, B-ORG, I-ORG, B-LOC, I-LOC]", "labels: [a, b, c, d, e, f, g, h, i]"},
		{"labels: [O, B-MISC, I-MISC, B-PER, I-PER, B-ORG, I-ORG, B-LOC, I-LOC]", "head: softmax"},
		{"kind: entities", "kind: embedding"},
		{"version: 1.27.0", "version: new"},
		{"licence: Apache-2.0", "licence: "},
		{"sha256: b5c9d4f124d24707f514dad926dc181820807178855df1c528e3addb2dd0e6f7", `sha256: ""`},
	} {
		if !strings.Contains(good, c[0]) {
			t.Fatalf("the manifest has no %q", c[0])
		}
		if _, err := Parse([]byte(strings.Replace(good, c[0], c[1], 1))); err == nil {
			t.Errorf("%q was accepted", c[1])
		}
	}
}

func TestAFileWithAnotherContentIsRefused(t *testing.T) {
	dir, m := t.TempDir(), builtInManifest(t)
	f := m.Models[0].Files.Tokenizer
	if err := os.WriteFile(filepath.Join(dir, f.Name), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Dirs{dir}).Check(f); err == nil || !strings.Contains(err.Error(), "is not the file that was meant") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, f.Name)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, f.Name), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (Dirs{dir}).Check(f); err == nil || errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
}

func TestWhatIsInstalledHasTheExpectedHash(t *testing.T) {
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
	other := strings.Repeat("0", 64)
	unknown, known := File{Name: "a.onnx", Address: "https://models.example/a"}, File{Name: "b.onnx", SHA256: sum}
	for _, c := range []struct {
		file    File
		sum     string
		content string
		want    string // "": it is installed
	}{
		{unknown, sum, "hello", ""},
		{unknown, strings.ToUpper(sum), "hello", ""},
		{known, "", "hello", ""},
		{known, sum, "hello", ""},
		{unknown, "", "hello", "say which one you expect"},
		{unknown, "abc", "hello", "no SHA-256"},
		{unknown, other, "hello", "the content's SHA-256 is " + sum},
		{known, other, "hello", "the hash of b.onnx is " + sum},
		{known, "", "hell", "the content's SHA-256 is"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		err := Install(dir, c.file, c.sum, strings.NewReader(c.content))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
				t.Errorf("%+v: it left %v", c, left)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if _, err := (Dirs{dir}).Check(c.file); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(filepath.Join(dir, c.file.Name), []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Dirs{dir}).Check(c.file); err == nil {
			t.Error("a changed file was accepted")
		}
	}
}
