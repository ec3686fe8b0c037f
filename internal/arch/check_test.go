package arch

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// check returns the violations of the rules, one sentence each, in order.
func check(files []file) []string {
	var broken []string
	used := map[string]bool{}
	for _, f := range files {
		broken = append(broken, checkFile(f, used)...)
	}
	broken = append(broken, checkPlugged(files)...)
	broken = append(broken, checkReach(files)...)
	broken = append(broken, checkSizes(files)...)
	broken = append(broken, checkC(files)...)
	for _, from := range slices.Sorted(maps.Keys(engines)) {
		for _, to := range engines[from] {
			if !used[from+to] {
				broken = append(broken, fmt.Sprintf("rules: nothing in %s imports %s any more: take it from the list of engines", from, to))
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// longest is the maximum lines of a package, without tests and generated code: a longer one has more than one subject.
const longest = 5000

// checkSizes reports packages that are too long.
func checkSizes(files []file) (broken []string) {
	lines := map[string]int{}
	for _, f := range files {
		lines[f.pkg] += f.lines
	}
	for pkg, n := range lines {
		if n > longest {
			broken = append(broken, fmt.Sprintf("%s: %d lines without tests, more than %d: a part of it is a package of its own", pkg, n, longest))
		}
	}
	return broken
}

// checkC reports packages with C that would be taken from Go's cache as another checkout compiled them, also when that checkout is gone: what cgo
// generates names its source by its absolute path, which linters then open.
func checkC(files []file) (broken []string) {
	c, placed := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		c[f.pkg] = c[f.pkg] || f.c
		placed[f.pkg] = placed[f.pkg] || f.placed
	}
	for pkg := range c {
		if c[pkg] && !placed[pkg] {
			broken = append(broken, pkg+": contains C without '#cgo CFLAGS: -I${SRCDIR}', see extproc/stream/module")
		}
	}
	return broken
}

func checkFile(f file, used map[string]bool) []string {
	from, ok := levelOf(f.pkg)
	if !ok {
		return []string{fmt.Sprintf("%s: package %s has no level: add it to the table in internal/arch", f.path, f.pkg)}
	}
	var broken []string
	report := func(format string, args ...any) {
		broken = append(broken, f.path+": "+fmt.Sprintf(format, args...))
	}
	for _, imported := range f.ours {
		to, ok := levelOf(imported)
		switch {
		case imported == f.pkg || !ok: // an external test; the other package's own files report it
		case to > from:
			report("%s %s imports %s %s: imports go only downward", nameOf(from), f.pkg, nameOf(to), imported)
		case to == from && !sideways(from, f, imported, used):
			report("%s %s imports %s %s: what two of them share moves one level down", nameOf(from), f.pkg, nameOf(to), imported)
		}
	}
	if f.test() {
		return broken
	}
	for pattern, forbidden := range apart {
		for _, imported := range f.ours {
			if match(pattern, f.pkg) && slices.Contains(forbidden, imported) {
				report("package %s imports %s: pass values down instead", f.pkg, imported)
			}
		}
	}
	for _, imported := range f.others {
		if module := moduleOf(imported); module != "" && !matchAny(outside[module], f.pkg) {
			report("package %s imports %s: only %s may", f.pkg, imported, strings.Join(outside[module], ", "))
		}
	}
	if f.environ && !matchAny(environment, f.pkg) && !servesTests(f.pkg) {
		report("package %s reads the environment: only %s may; pass the value down from there", f.pkg, strings.Join(environment, ", "))
	}
	return broken
}

// sideways reports whether a file may import another package of its own level: nouns, end-to-end tests, and the packages of one program may; engines
// and steps may for tests, and where the table allows it, whose line is then marked as used.
func sideways(level int, f file, to string, used map[string]bool) bool {
	switch level {
	case 0:
		return true
	case 1, 3:
		return f.test() || servesTests(f.pkg) || listed(f.pkg, to, used)
	case 5:
		same := func(folder string) bool { return match(folder, f.pkg) && match(folder, to) }
		return same("e2e/...") || same("cmd/bardo/...")
	default:
		return false
	}
}

func listed(from, to string, used map[string]bool) bool {
	for pattern, allowed := range engines {
		if match(pattern, from) && slices.Contains(allowed, to) {
			used[pattern+to] = true
			return true
		}
	}
	return false
}

// checkPlugged finds parts that are not registered.
func checkPlugged(files []file) []string {
	var named []string
	parts := map[string]bool{}
	for _, f := range files {
		if f.path == partsFile {
			named = f.ours
		}
		if matchAny(plugged, f.pkg) && !f.test() && !servesTests(f.pkg) {
			parts[f.pkg] = true
		}
	}
	var broken []string
	for part := range parts {
		if !slices.Contains(named, part) {
			broken = append(broken, fmt.Sprintf("%s: does not name %s, so no gateway has it", partsFile, part))
		}
	}
	return broken
}

// checkReach finds packages in programs that must not contain them, through any chain of imports.
func checkReach(files []file) []string {
	imports := map[string][]string{}
	for _, f := range files {
		if !f.test() {
			imports[f.pkg] = append(imports[f.pkg], f.ours...)
		}
	}
	var broken []string
	for program, forbidden := range unreachable {
		via := map[string]string{program: ""} // a package, and one that imports it
		for queue := []string{program}; len(queue) > 0; queue = queue[1:] {
			for _, to := range imports[queue[0]] {
				if _, seen := via[to]; !seen {
					via[to] = queue[0]
					queue = append(queue, to)
				}
			}
		}
		for _, pkg := range forbidden {
			if by, ok := via[pkg]; ok {
				broken = append(broken, fmt.Sprintf("%s: contains %s, by %s: only other programs may", program, pkg, by))
			}
		}
	}
	return broken
}

func levelOf(pkg string) (level int, ok bool) {
	for _, l := range levels {
		if matchAny(l.packages, pkg) {
			return l.level, true
		}
	}
	return 0, false
}

func nameOf(level int) string {
	for _, l := range levels {
		if l.level == level {
			return l.name
		}
	}
	return ""
}

// moduleOf returns the restricted module that an import belongs to, or nothing.
func moduleOf(imported string) string {
	for module := range outside {
		if match(module+"/...", imported) {
			return module
		}
	}
	return ""
}

// servesTests reports whether a package exists for tests, by its name, as in the standard library: httptest.
func servesTests(pkg string) bool { return strings.HasSuffix(pkg, "test") }

func matchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}

func match(pattern, pkg string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == folder || strings.HasPrefix(pkg, folder+"/")
	}
	ok, err := path.Match(pattern, pkg)
	return ok && err == nil
}
