package startpages

import (
	"fmt"
	_ "net/http" // makes the test program's tables larger than two pieces, one of which is in them wherever they are
	"os"
	"regexp"
	"testing"
)

func TestOnlyUnchangedPagesOfTheProgramAreDropped(t *testing.T) {
	t.Parallel()
	const file = "/usr/local/bin/bardo"
	area := func(at, permissions, name string, anonymous int) string {
		return fmt.Sprintf("%s %s 00003000 fe:00 10354871                           %s\nSize:               8 kB\nRss:                8 kB\nAnonymous:         %d kB\nVmFlags: rd ex mr mw me \n", at, permissions, name, anonymous)
	}
	for _, c := range []struct {
		name, smaps, want string
	}{
		{"code", area("00403000-01ff5000", "r-xp", file, 0), "[{4206592 33509376}]"},
		{"tables", area("01ff5000-04b65000", "r--p", file, 0), "[{33509376 79056896}]"},
		{"addresses that were relocated", area("04b65000-04b68000", "r--p", file, 4), "[]"},
		{"variables", area("04b68000-04d90000", "rw-p", file, 0), "[]"},
		{"shared", area("04b68000-04d90000", "r--s", file, 0), "[]"},
		{"another file", area("00403000-01ff5000", "r-xp", "/usr/lib/libc.so.6", 0), "[]"},
		{"another file of the same name", area("00403000-01ff5000", "r-xp", "/opt"+file, 0), "[]"},
		{"a file that was replaced", area("00403000-01ff5000", "r-xp", file+" (deleted)", 0), "[]"},
		{"no file", area("00403000-01ff5000", "r-xp", "", 0), "[]"},
		{"two", area("00403000-00404000", "rw-p", file, 0) + area("00405000-00406000", "r-xp", file, 0), "[{4214784 4218880}]"},
		{"nothing", "", "[]"},
		{"other text", "\n\n-\nx-y r\nAnonymous: 0 kB\n", "[]"},
	} {
		if got := fmt.Sprint(cleanMappings(c.smaps, file)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := cleanMappings(area("00403000-01ff5000", "r-xp", file+" (deleted)", 0), file+" (deleted)"); len(got) != 1 {
		t.Errorf("of a program whose file was replaced: %v", got)
	}
}

// TestAProgramRunsOnWithoutThePagesOfItsStart: the test program itself.
func TestAProgramRunsOnWithoutThePagesOfItsStart(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	piece := regexp.MustCompile(`(?m) r[-x]\S* .* ` + regexp.QuoteMeta(program) + `\n(?:\w+:.*\n)*VmFlags:.*\bdd\b`)
	for range 3 {
		Drop(ProgramFile)
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		if len(cleanMappings(string(smaps), program)) < 2 || !piece.Match(smaps) {
			t.Errorf("the program's mappings were not found, or not split:\n%s", smaps)
		}
	}
}
