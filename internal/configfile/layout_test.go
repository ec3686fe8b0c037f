package configfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheLayoutOfGoodFilesIsGood: layout reports nothing for files that can be read.
func TestTheLayoutOfGoodFilesIsGood(t *testing.T) {
	examples, err := filepath.Glob("../../docs/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	good, err := filepath.Glob("../config/testdata/*.good.yaml")
	if err != nil || len(good) == 0 {
		t.Fatalf("no configurations: %v", err)
	}
	for _, path := range append(good, examples...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if line, message, _, ok := layout(data); ok {
			t.Errorf("%s:%d: %s", path, line, message)
		}
	}
	for _, text := range []string{
		"a:\n- b: 1\n  c: 2\n-   d: 3\n    e: 4\nf: 5\n",
		"a: |\n    x: 1\n  y:\n\tz\nb: 1\n",
		"a: {b: [1,\n  2,\n 3], c: \"}\"}\nd: 1\n",
		"a: first\n  second\nb: 1\n",
		"a:\n    b: 1\n\n# c\n  # d\n    e: 2\n",
		"a:\n- - b: 1\n    c: 2\n  - d: 3\n",
		"a: 1 # it's\nb:   # x: y\n  c: 2\n",
		"\"a\": 1\n\"b\":\n  c: 2\n",
	} {
		if line, message, _, ok := layout([]byte(text)); ok {
			t.Errorf("line %d of %q: %s", line, text, message)
		}
	}
}
