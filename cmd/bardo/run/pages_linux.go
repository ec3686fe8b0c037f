package run

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// programFile is the file of this program.
const programFile = "/proc/self/exe"

// dropStartPages unmaps the pages of a file with code, this program's or a library's, that the start has used: most of its code and of its tables is used
// once. They stay in the page cache, and what is used again is mapped again.
func dropStartPages(file string) {
	if at, err := filepath.EvalSymlinks(file); err == nil {
		file = at
	} else if at, err := os.Readlink(file); err == nil { // a program whose file was replaced
		file = at
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range cleanMappings(string(maps), file) {
		m.split()
		_ = m.advise(syscall.MADV_DONTNEED)
	}
}

// mapping is a range of addresses, of whole pages.
type mapping struct{ start, end uint64 }

// cleanMappings are those of a file that are not written to and of which every page is as it is in the file. A page that was changed is not: where the
// program has relocated addresses, they would be lost.
func cleanMappings(smaps, file string) (clean []mapping) {
	var m mapping
	for line := range strings.Lines(smaps) {
		line = strings.TrimSuffix(line, "\n")
		if at, rest, ok := mappingLine(line); ok {
			m = mapping{}
			if permissions, name, _ := strings.Cut(rest, " "); strings.HasSuffix(name, " "+file) && strings.HasSuffix(permissions, "p") && !strings.Contains(permissions, "w") {
				m = at
			}
			continue
		}
		if dirty, ok := strings.CutPrefix(line, "Anonymous:"); ok && m.end > 0 && strings.TrimSpace(dirty) == "0 kB" {
			clean = append(clean, m)
		}
	}
	return clean
}

// mappingLine reads the first line of a mapping: 00403000-01ff5000 r-xp 00003000 fe:00 10354871   /usr/local/bin/bardo.
func mappingLine(line string) (m mapping, rest string, ok bool) {
	addresses, rest, ok := strings.Cut(line, " ")
	from, to, dash := strings.Cut(addresses, "-")
	if !ok || !dash {
		return m, "", false
	}
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	return mapping{start: start, end: end}, rest, err1 == nil && err2 == nil
}

const (
	piece    = 1 << 20 // half of a huge page
	dontDump = 16      // MADV_DONTDUMP, which package syscall has not
)

// split makes the kernel manage a mapping as pieces, which differ in whether a core dump has them (it has no pages of files in any case). Since Linux 6.18
// a page that is used is mapped with its whole folio of the page cache, 2 MB of a file that was just written, but not beyond its piece: of code and of tables
// a little is used everywhere, so that all were mapped.
func (m mapping) split() {
	for at := (m.start + piece - 1) &^ (piece - 1); at+piece <= m.end; at += 2 * piece {
		if (mapping{start: at, end: at + piece}).advise(dontDump) != nil {
			return
		}
	}
}

// advise tells the kernel how a mapping is used.
func (m mapping) advise(advice uintptr) error {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), advice)
	if errno != 0 {
		return errno
	}
	return nil
}
