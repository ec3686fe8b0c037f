package arch

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// missionFile lists the requirements of Bardo, row by row, and the state of each.
const missionFile = "docs/mission.md"

// missionRows is the number of required rows, by the letter of their ids.
var missionRows = map[string]int{"R": 29, "C": 18, "F": 5, "I": 10, "P": 19, "X": 12, "S": 12, "O": 6, "E": 7, "B": 25}

// pageAndTests reads a page of the repository, and finds the tests that `make test` runs.
func pageAndTests(t *testing.T, path string) (page string, tests map[string]bool) {
	t.Helper()
	tree := os.DirFS("../..")
	text, err := fs.ReadFile(tree, path)
	if err != nil {
		t.Fatal(err)
	}
	if tests, err = testNames(tree); err != nil {
		t.Fatal(err)
	}
	return string(text), tests
}

func TestTheMissionsListIsTrue(t *testing.T) {
	for _, wrong := range checkMission(pageAndTests(t, missionFile)) {
		t.Error(wrong)
	}
}

// README.md states how much of the list is built. A change of a row needs a look at its table.
func TestTheReadmeCountsTheMissionsRows(t *testing.T) {
	list, _ := pageAndTests(t, missionFile)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	states, total := map[string]int{}, 0
	for line := range strings.Lines(list) {
		if m := missionRow.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			states[m[3]]++
			total++
		}
	}
	want := fmt.Sprintf("Of the %d planned features, %d are built, %d in part, and %d not", total, states["done"], states["part"], states["open"])
	if !strings.Contains(strings.Join(strings.Fields(string(readme)), " "), want) {
		t.Errorf("README.md does not say: %s", want)
	}
}

// Each guard of the page on security names tests that `make test` runs.
func TestTheGuardsOfThePageOnSecurityAreTested(t *testing.T) {
	page, tests := pageAndTests(t, "docs/security.md")
	guards := 0
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 4 || cells[0] == "asset" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		guards++
		named := namedTest.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, m := range named {
			if !tests[m[1]] {
				t.Errorf("%s does not exist, or `make test` does not run it: %s", m[1], line)
			}
		}
	}
	if guards < 10 {
		t.Errorf("the page has %d guards", guards)
	}
}

var namedTest = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")

var missionRow = regexp.MustCompile(`^\| ([A-Z]-\d\d) \| (.*) \| (done|part|open) \| (.*) \| (.*) \|$`)

// checkMission returns the faults of the list: a missing or duplicate row, a claim without a test, a test that does not exist.
func checkMission(list string, tests map[string]bool) (wrong []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		m := missionRow.FindStringSubmatch(line)
		if m == nil {
			if regexp.MustCompile(`^\| [A-Z]-\d\d`).MatchString(line) {
				wrong = append(wrong, "not a row of five columns with a known state: "+line)
			}
			continue
		}
		id, state := m[1], m[3]
		if seen[id] {
			wrong = append(wrong, id+" is listed twice")
		}
		seen[id] = true
		wrong = append(wrong, checkClaim(id, state, m[4], strings.Fields(strings.ReplaceAll(m[5], ",", " ")), tests)...)
	}
	for letter, n := range missionRows {
		for i := range n {
			if id := fmt.Sprintf("%s-%02d", letter, i+1); !seen[id] {
				wrong = append(wrong, id+" is missing")
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

func checkClaim(id, state, note string, named []string, tests map[string]bool) (wrong []string) {
	switch {
	case state != "open" && len(named) == 0:
		wrong = append(wrong, id+" is "+state+", but no test shows it")
	case state == "part" && strings.TrimSpace(note) == "":
		wrong = append(wrong, id+" is part done, and does not say what is missing")
	}
	for _, name := range named {
		if !tests[strings.Trim(name, "`")] {
			wrong = append(wrong, id+" names the test "+name+", which does not exist, or which `make test` does not run")
		}
	}
	return wrong
}

// testNames returns the names of all tests and fuzz targets of a tree that `make test` runs: those in files that are built on Linux, in functions
// that do not skip.
func testNames(tree fs.FS) (map[string]bool, error) {
	names := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path.Base(name), "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return addTests(names, name, src)
	})
	return names, err
}

func addTests(names map[string]bool, name string, src []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || !isBuilt(name, file) {
		return err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && testName.MatchString(f.Name.Name) && !skips(f) {
			names[f.Name.Name] = true
		}
	}
	return nil
}

var testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]`)

// isBuilt reports whether a file is part of its package on Linux, where the tests run.
func isBuilt(name string, file *ast.File) bool {
	for _, system := range []string{"darwin", "windows", "other"} {
		if strings.HasSuffix(name, "_"+system+"_test.go") {
			return false
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			x, err := constraint.Parse(c.Text)
			if c.Pos() > file.Package || err != nil {
				continue
			}
			if !x.Eval(func(tag string) bool { return tag == "linux" || tag == "unix" || tag == "cgo" }) {
				return false
			}
		}
	}
	return true
}

// skips reports whether a test may skip itself.
func skips(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			found = found || slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name)
		}
		return !found
	})
	return found
}

// The targets that `make test` is made of leave no test out.
func TestMakeTestRunsAllTests(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\ntest: unit e2e ") {
		t.Error("`make test` is not unit and e2e")
	}
	recipes := regexp.MustCompile(`(?m)^(TESTSUM|UNITS|unit|e2e)\b.*(\n\t.*)*`).FindAllString(string(makefile), -1)
	if all := strings.Join(recipes, "\n"); len(recipes) < 5 || regexp.MustCompile(` -(test\.)?(run|skip|short)\b`).MatchString(all) {
		t.Errorf("`make test` leaves tests out:\n%s", all)
	}
}

func TestWhatIsWrongWithAListIsSaid(t *testing.T) {
	tests, err := testNames(fstest.MapFS{
		"a/a_test.go":          {Data: []byte("package a\n\nfunc TestReal(t *testing.T) {}\n\nfunc TestSkips(t *testing.T) { t.Skip() }\n")},
		"a/b_test.go":          {Data: []byte("//go:build soak\n\npackage a\n\nfunc TestTagged(t *testing.T) {}\n")},
		"a/testdata/x_test.go": {Data: []byte("package a\n\nfunc TestData(t *testing.T) {}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"| R-01 | x | done |  |  |":                            "R-01 is done, but no test shows it",
		"| R-01 | x | part |  | `TestReal` |":                  "R-01 is part done, and does not say what is missing",
		"| R-01 | x | done |  | `TestDream` |":                 "R-01 names the test `TestDream`, which does not exist, or which `make test` does not run",
		"| R-01 | x | done |  | `TestSkips` |":                 "R-01 names the test `TestSkips`, which does not exist, or which `make test` does not run",
		"| R-01 | x | done |  | `TestTagged` |":                "R-01 names the test `TestTagged`, which does not exist, or which `make test` does not run",
		"| R-01 | x | done |  | `TestData` |":                  "R-01 names the test `TestData`, which does not exist, or which `make test` does not run",
		"| R-01 | x | almost |  |  |":                          "not a row of five columns with a known state: | R-01 | x | almost |  |  |",
		"| R-02 | x | open |  |  |":                            "R-01 is missing",
		"| R-01 | x | open |  |  |\n| R-01 | x | open |  |  |": "R-01 is listed twice",
	} {
		if got := checkMission(line, tests); !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got[:min(len(got), 3)], want)
		}
	}
	if got := checkMission("| R-01 | x | done |  | `TestReal` |", tests); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "R-01") }) {
		t.Errorf("a true row: %q", got)
	}
}
