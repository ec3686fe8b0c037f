package crossing_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/internal/jsonx"
)

var update = flag.Bool("update", false, "update the golden files")

// pair is one archive of testdata.
type pair struct {
	*txtar.Archive
}

// file returns the text of a file of the archive, or "".
func (p pair) file(name string) string {
	for _, f := range p.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// options returns the provider's options of a pair, one per line.
func (p pair) options() []string {
	var ls []string
	for l := range strings.Lines(p.file("options")) {
		if l = strings.TrimSpace(l); l != "" {
			ls = append(ls, l)
		}
	}
	return ls
}

// isInput reports whether a file is an input of a pair; all others are outputs.
func isInput(name string) bool {
	return name == "options" || name == "request.json" || strings.HasPrefix(name, "in.")
}

// pairs returns the archives of a folder, by their paths.
func pairs(t testing.TB, dir string) map[string]pair {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no pairs in %s (%v)", dir, err)
	}
	all := map[string]pair{}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = pair{archive}
	}
	return all
}

// runPairs runs every archive of a folder, one subtest each. produce makes the outputs from the inputs; an output without text is not
// stored in the archive.
func runPairs(t *testing.T, dir string, produce func(t *testing.T, p pair) []txtar.File) {
	t.Helper()
	all := pairs(t, dir)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			if len(bytes.TrimSpace(p.Comment)) == 0 {
				t.Error("the comment must say what the pair shows")
			}
			if *update {
				p.tidy(t)
			}
			got := present(produce(t, p))
			if *update {
				write(t, name, p, got)
				return
			}
			check(t, p, got)
		})
	}
}

func present(files []txtar.File) []txtar.File {
	var kept []txtar.File
	for _, f := range files {
		if len(bytes.TrimSpace(f.Data)) > 0 {
			kept = append(kept, f)
		}
	}
	return kept
}

// tidy formats the inputs before they are used. Tool arguments keep their white space.
func (p pair) tidy(t *testing.T) {
	t.Helper()
	for i, f := range p.Files {
		if isInput(f.Name) {
			p.Files[i].Data = pretty(t, f)
		}
	}
}

// check compares JSON by its tokens, so that the order of members and the text of numbers count, and everything else by its text.
func check(t *testing.T, p pair, got []txtar.File) {
	t.Helper()
	wanted := map[string]bool{}
	for _, f := range p.Files {
		wanted[f.Name] = !isInput(f.Name)
	}
	for _, f := range got {
		if want := p.file(f.Name); !wanted[f.Name] || plain(t, f.Name, f.Data) != plain(t, f.Name, []byte(want)) {
			t.Errorf("%s is\n%s\nwant\n%s", f.Name, pretty(t, f), want)
		}
		delete(wanted, f.Name)
	}
	for name, isOutput := range wanted {
		if isOutput {
			t.Errorf("%s is missing, want\n%s", name, p.file(name))
		}
	}
}

func plain(t *testing.T, name string, data []byte) string {
	t.Helper()
	if filepath.Ext(name) != ".json" {
		return strings.TrimSpace(string(data))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatalf("%s: %v in %s", name, err, data)
	}
	return b.String()
}

// write writes a pair in readable form.
func write(t *testing.T, name string, p pair, got []txtar.File) {
	t.Helper()
	out := txtar.Archive{Comment: append(bytes.TrimSpace(p.Comment), '\n')}
	for _, f := range p.Files {
		if isInput(f.Name) {
			out.Files = append(out.Files, f)
		}
	}
	for _, f := range got {
		out.Files = append(out.Files, txtar.File{Name: f.Name, Data: pretty(t, f)})
	}
	if err := os.WriteFile(name, txtar.Format(&out), 0o600); err != nil {
		t.Fatal(err)
	}
}

func pretty(t *testing.T, f txtar.File) []byte {
	t.Helper()
	text := bytes.TrimSpace(f.Data)
	if filepath.Ext(f.Name) != ".json" {
		return append(slices.Clip(text), '\n')
	}
	v, err := jsonx.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v in %s", f.Name, err, f.Data)
	}
	var b bytes.Buffer
	layout(&b, v, 0)
	b.WriteByte('\n')
	return b.Bytes()
}
