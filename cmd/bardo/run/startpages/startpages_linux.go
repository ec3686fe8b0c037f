// Package startpages returns the memory of code that a process used only during its startup.
package startpages

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ProgramFile is the file of this program.
const ProgramFile = "/proc/self/exe"

// Drop unmaps the pages of a code file, this program's or a library's, that were used during startup: most of its code and tables is used only
// once. The pages stay in the page cache, and are mapped again when they are used.
func Drop(file string) {
	if at, err := filepath.EvalSymlinks(file); err == nil {
		file = at
	} else if at, err := os.Readlink(file); err == nil { // the program's file was replaced
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

// mapping is a page-aligned address range.
type mapping struct{ start, end uint64 }

// cleanMappings returns the read-only private mappings of a file in which no page was modified. Modified pages, such as those with relocated addresses, would
// be lost.
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

// mappingLine parses the first line of a mapping: 00403000-01ff5000 r-xp 00003000 fe:00 10354871   /usr/local/bin/bardo.
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
	dontDump = 16      // MADV_DONTDUMP, which package syscall lacks
)

// split makes the kernel manage a mapping as separate pieces, which differ only in MADV_DONTDUMP (a core dump has no file pages in any case). Since Linux
// 6.18 a used page is mapped with its whole folio of the page cache, 2 MB in a file that was just written, but not beyond its piece: without the split, code
// and tables that are used a little everywhere would be mapped completely.
func (m mapping) split() {
	for at := (m.start + piece - 1) &^ (piece - 1); at+piece <= m.end; at += 2 * piece {
		if (mapping{start: at, end: at + piece}).advise(dontDump) != nil {
			return
		}
	}
}

// advise calls madvise.
func (m mapping) advise(advice uintptr) error {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), advice)
	if errno != 0 {
		return errno
	}
	return nil
}
