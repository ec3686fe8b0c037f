package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// Requirements have ids: K-nn is an edge case, D-nn a decision, and any other letter of missionRows a row of the mission. Each kind is defined
// on one page.
const (
	edgeCaseFile = "docs/edge-cases.md"
	decisionFile = "RATIONALE.md"
	edgeCases    = 96 // K-01 and on, without gaps
)

var (
	definedCase     = regexp.MustCompile(`^\| (K-\d\d) \|`)
	definedDecision = regexp.MustCompile(`^### <a id="d-\d\d"></a>(D-\d\d)\. \w`)
	definedRow      = regexp.MustCompile(`^\| ([A-Z]-\d\d) \|`)

	idInText = regexp.MustCompile(`\b[BCDEFIKOPRSX]-\d\d\b`)
	testID   = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	idInName = regexp.MustCompile(`[BCDEFIKOPRSX]\d+`)
	idInPath = regexp.MustCompile(`(?:[/_.-]|^)([dk]\d\d)(?:[/_.-]|$)`)
	page     = regexp.MustCompile(`\bdocs/[\w/-]+\.md(#[\w-]+)?`)
	// The documents that the mission came from have numbers that say nothing to a reader of the repository.
	document = regexp.MustCompile(`(?:^|[\s(])00[0-4](?:['’]s|s?[,;:.]?\s|s?[).]|s?$)|^(?:Test|Fuzz)\w*00[0-4]`)
)

func TestEveryReferenceIsDefined(t *testing.T) {
	for _, wrong := range checkReferences(t, os.DirFS("../..")) {
		t.Error(wrong)
	}
}

func TestEveryEdgeCaseNamesItsTests(t *testing.T) {
	for _, wrong := range checkEdgeCases(pageAndTests(t, edgeCaseFile)) {
		t.Error(wrong)
	}
}

// checkReferences returns the ids of a tree that are undefined or defined twice, the numbers of documents, and the named pages that do not exist.
func checkReferences(t *testing.T, tree fs.FS) (wrong []string) {
	t.Helper()
	texts := readTexts(t, tree)
	defined := map[string]int{}
	for name, form := range map[string]*regexp.Regexp{edgeCaseFile: definedCase, decisionFile: definedDecision, missionFile: definedRow} {
		for line := range strings.Lines(texts[name]) {
			if m := form.FindStringSubmatch(line); m != nil {
				defined[m[1]]++
			}
		}
	}
	for id, n := range defined {
		if n > 1 {
			wrong = append(wrong, id+" is defined twice")
		}
	}
	for name, text := range texts {
		for _, m := range idInPath.FindAllStringSubmatch(name, -1) {
			if id := strings.ToUpper(m[1][:1]) + "-" + m[1][1:]; defined[id] == 0 {
				wrong = append(wrong, name+": "+id+" is not defined")
			}
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			for _, why := range checkLine(line, defined, texts) {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s", name, n, why))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

func checkLine(line string, defined map[string]int, texts map[string]string) (wrong []string) {
	for _, id := range slices.Concat(idInText.FindAllString(line, -1), idsOfTests(line)) {
		if defined[id] == 0 {
			wrong = append(wrong, id+" is not defined")
		}
	}
	for _, words := range append(testID.FindAllString(line, -1), line) {
		if document.MatchString(words) {
			wrong = append(wrong, "the number of a document says nothing here: name a decision, a row of the mission or a page")
		}
	}
	for _, m := range page.FindAllStringSubmatch(line, -1) {
		name := strings.TrimSuffix(m[0], m[1])
		text, ok := texts[name]
		switch anchor := strings.TrimPrefix(m[1], "#"); {
		case !ok:
			wrong = append(wrong, name+" does not exist")
		case anchor != "" && !slices.Contains(anchors(text), anchor):
			wrong = append(wrong, name+" has no heading #"+anchor)
		}
	}
	return wrong
}

// idsOfTests returns the ids in the names of a line's tests: K-34 in TestK34TheClientLeaves.
func idsOfTests(line string) (ids []string) {
	for _, name := range testID.FindAllString(line, -1) {
		for _, id := range idInName.FindAllString(name, -1) {
			if len(id) == len("K34") {
				ids = append(ids, id[:1]+"-"+id[1:])
			}
		}
	}
	return ids
}

// checkEdgeCases returns the faults of the list of edge cases: a missing one, one without a statement about its tests, a test that does not exist.
func checkEdgeCases(list string, tests map[string]bool) (wrong []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(list) {
		m := definedCase.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id := m[1]
		seen[id] = true
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		last := cells[len(cells)-1]
		named := namedTest.FindAllStringSubmatch(last, -1)
		switch {
		case len(cells) != 3:
			wrong = append(wrong, id+" is not a row of three columns")
		case len(named) == 0 && last != "open" && !strings.HasPrefix(last, "open: "):
			wrong = append(wrong, id+" has no test, and does not say that it is open")
		}
		for _, m := range named {
			if !tests[m[1]] {
				wrong = append(wrong, id+" names the test `"+m[1]+"`, which does not exist, or which `make test` does not run")
			}
		}
	}
	for i := range edgeCases {
		if id := fmt.Sprintf("K-%02d", i+1); !seen[id] {
			wrong = append(wrong, id+" is missing")
		}
	}
	return wrong
}

// readTexts returns the text files of a tree, by their paths, without ignored ones.
func readTexts(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if strings.HasPrefix(base, ".") && name != "." || slices.Contains([]string{"bin", "bench-out", "node_modules", "__pycache__"}, base) {
				return fs.SkipDir
			}
			return nil
		case name == "internal/arch/references_test.go": // its own test has ids that do not exist
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if utf8.Valid(text) {
			texts[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// definitions returns a tree in which every reference is defined.
func definitions() map[string]string {
	return map[string]string{
		edgeCaseFile: "# Edge cases\n\n| K-01 | a | `TestK01A` |\n| K-02 | b | open |\n",
		decisionFile: "# Rationale\n\n### <a id=\"d-10\"></a>D-10. Two routers\n\nBecause of R-01.\n",
		missionFile:  "| R-01 | x | open |  |  |\n",
		"a/a_test.go": "// See docs/edge-cases.md#edge-cases (K-01, D-10): 0.003, \"001\" and 5,000 are numbers.\n" +
			"func TestK01K02D10AndR01() {}\nfunc TestB64AndK256Hold() {}\n",
		"a/testdata/03-k02-x.txtar": "K-02\n",
		"bin/bardo":                 "K-99",
		".git/x":                    "K-99",
	}
}

func TestReferencesThatLeadNowhereAreFound(t *testing.T) {
	sound := definitions()
	sound[missionFile] += "| B-64 | y | open |  |  |\n"
	if wrong := checkReferences(t, mapFS(sound)); len(wrong) > 0 {
		t.Fatalf("a sound tree: %q", wrong)
	}
	for _, tt := range []struct{ file, text, want string }{
		{"a/a.go", "// K-03: a case\n", "a/a.go:1: K-03 is not defined"},
		{"a/a.go", "\n// as D-11 has it\n", "a/a.go:2: D-11 is not defined"},
		{"a/a.go", "// done for X-12's budgets\n", "a/a.go:1: X-12 is not defined"},
		{"a/b_test.go", "func TestD85NoReader() {}\n", "a/b_test.go:1: D-85 is not defined"},
		{"a/b_test.go", "func TestK01K34Both() {}\n", "a/b_test.go:1: K-34 is not defined"},
		{"a/b_test.go", "func FuzzEveryCutK38(f) {}\n", "a/b_test.go:1: K-38 is not defined"},
		{"docs/a.yaml", "a: 1 # B-01\n", "docs/a.yaml:1: B-01 is not defined"},
		{"Makefile", "# C-15\n", "Makefile:1: C-15 is not defined"},
		{"a/testdata/13-k05-x.txtar", "\n", "a/testdata/13-k05-x.txtar: K-05 is not defined"},
		{"a/testdata/x_k57.bad.yaml", "\n", "a/testdata/x_k57.bad.yaml: K-57 is not defined"},
		{edgeCaseFile, sound[edgeCaseFile] + "| K-01 | a | open |\n", "K-01 is defined twice"},
		{decisionFile, sound[decisionFile] + "### <a id=\"d-10\"></a>D-10. Again\n", "D-10 is defined twice"},
		{missionFile, sound[missionFile] + "| R-01 | x | open |  |  |\n", "R-01 is defined twice"},
		{"a/a.go", "// the table (004, section 9)\n", "a/a.go:1: the number of a document"},
		{"a/a.go", "// 003's map\n", "a/a.go:1: the number of a document"},
		{"a/a.yaml", "source: documents 000 and 003\n", "a/a.yaml:1: the number of a document"},
		{"a/b_test.go", "func TestFormsOf003() {}\n", "a/b_test.go:1: the number of a document"},
		{"a/a.go", "// see docs/none.md\n", "a/a.go:1: docs/none.md does not exist"},
		{"a/a.go", "// see docs/edge-cases.md#none\n", "a/a.go:1: docs/edge-cases.md has no heading #none"},
	} {
		tree := definitions()
		tree[missionFile] = sound[missionFile]
		tree[tt.file] = tt.text
		wrong := checkReferences(t, mapFS(tree))
		if len(wrong) == 0 || !slices.ContainsFunc(wrong, func(s string) bool { return strings.HasPrefix(s, tt.want) }) {
			t.Errorf("%s %q: %q, want %q", tt.file, tt.text, wrong, tt.want)
		}
	}
}

func TestWhatIsWrongWithAnEdgeCaseIsSaid(t *testing.T) {
	tests, err := testNames(fstest.MapFS{"a/a_test.go": {Data: []byte("package a\n\nfunc TestReal(t *testing.T) {}\n\nfunc TestSkips(t *testing.T) { t.Skip() }\n")}})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"| K-01 | a | `TestDream` |":             "K-01 names the test `TestDream`, which does not exist, or which `make test` does not run",
		"| K-01 | a | `TestReal`, `TestSkips` |": "K-01 names the test `TestSkips`, which does not exist, or which `make test` does not run",
		"| K-01 | a | soon |":                    "K-01 has no test, and does not say that it is open",
		"| K-01 | a |":                           "K-01 is not a row of three columns",
		"| K-02 | a | open |":                    "K-01 is missing",
	} {
		if got := checkEdgeCases(line, tests); !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got[:min(len(got), 3)], want)
		}
	}
	for _, line := range []string{"| K-01 | a | `TestReal` |", "| K-01 | a | open: not built |"} {
		if got := checkEdgeCases(line, tests); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "K-01") }) {
			t.Errorf("%s: %q", line, got)
		}
	}
}
