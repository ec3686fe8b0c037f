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
)

// missionFile lists what Bardo is meant to be, row by row, and how far each row is.
const missionFile = "docs/mission.md"

// missionRows are the rows that the list must have, by the letter of their ids.
var missionRows = map[string]int{"R": 29, "C": 18, "F": 5, "I": 10, "P": 19, "X": 12, "S": 12, "O": 6, "E": 7, "B": 25}

func TestTheMissionsListIsTrue(t *testing.T) {
	tree := os.DirFS("../..")
	list, err := fs.ReadFile(tree, missionFile)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := testNames(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range checkMission(string(list), tests) {
		t.Error(wrong)
	}
}

var missionRow = regexp.MustCompile(`^\| ([A-Z]-\d\d) \| (.*) \| (done|part|open) \| (.*) \| (.*) \|$`)

// checkMission says what is wrong with the list: a row that is missing or twice there, a claim without a test, a test that
// does not exist.
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
			wrong = append(wrong, id+" names the test "+name+", which does not exist")
		}
	}
	return wrong
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// testNames are the names of all tests and fuzz targets of a tree.
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
		for _, m := range testFunc.FindAllSubmatch(src, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	return names, err
}

func TestWhatIsWrongWithAListIsSaid(t *testing.T) {
	tests, err := testNames(fstest.MapFS{"a/a_test.go": {Data: []byte("package a\n\nfunc TestReal(t *testing.T) {}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"| R-01 | x | done |  |  |":                            "R-01 is done, but no test shows it",
		"| R-01 | x | part |  | `TestReal` |":                  "R-01 is part done, and does not say what is missing",
		"| R-01 | x | done |  | `TestDream` |":                 "R-01 names the test `TestDream`, which does not exist",
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
