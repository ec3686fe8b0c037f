package arch

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The table of common tasks in CONTRIBUTING.md names at most three files for each. That its links lead to files is tested with all links.
func TestACommonTaskTouchesAtMostThreeFiles(t *testing.T) {
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n| task | files | how |\n")
	table, _, _ := strings.Cut(rest, "\n\n")
	file, tasks := regexp.MustCompile("`[^`]+/[^`]*`|\\]\\([^)]+\\)"), 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(line, "|---") {
			continue
		}
		tasks++
		if n := len(file.FindAllString(cells[2], -1)); n < 1 || n > 3 {
			t.Errorf("%s: %d files, want one to three", strings.TrimSpace(cells[1]), n)
		}
	}
	if tasks != 10 {
		t.Errorf("the table has %d tasks, want 10", tasks)
	}
}
