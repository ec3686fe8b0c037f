package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestLinksBetweenPagesLeadSomewhere reads every page of the repository: a relative link must name an existing file, and its anchor a heading of that
// page. docs/README.md must be complete, too.
func TestLinksBetweenPagesLeadSomewhere(t *testing.T) {
	pages := readPages(t, "../..")
	if len(pages) < 10 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	for _, wrong := range brokenLinks("../..", pages) {
		t.Error(wrong)
	}
	for page := range pages {
		dir, name := filepath.Split(page)
		if dir == "docs/" && name != "README.md" && !strings.Contains(pages["docs/README.md"], "("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := "### <a id=\"d-10\"></a>D-10. A title\n\n# The `first`, and more\n\n```\n# no heading\n```\n\n## Twice\n\n## Twice\n"
	for text, want := range map[string]string{
		"[a](b.md) [c](file.yaml) [d](b.md#the-first-and-more) [e](https://example.org/x) [f](mailto:a@b)": "",
		"[a](b.md#twice) [b](b.md#twice-1) [c](#here)\n\n# Here":                                           "",
		"[a](b.md#d-10) [b](b.md#d-10-a-title)":                                                            "",
		"[a](b.md#d-11)":                                                                                   "a.md: b.md has no heading #d-11",
		"[a](c.md)":                                                                                        "a.md: c.md does not exist",
		"[a](b.md#no-heading)":                                                                             "a.md: b.md has no heading #no-heading",
		"[a](b.md#twice-2)":                                                                                "a.md: b.md has no heading #twice-2",
		"[a](#there)":                                                                                      "a.md: a.md has no heading #there",
		"```\n[a](c.md)\n```":                                                                              "",
		"`[a](c.md)`":                                                                                      "",
	} {
		got := strings.Join(brokenLinks(dir, map[string]string{"a.md": text, "b.md": other}), "\n")
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// readPages returns the texts of all pages, by their slash-separated paths from root.
func readPages(t *testing.T, root string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		pages[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

var (
	codeBlock = regexp.MustCompile("(?s)\n```.*?\n```")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	scheme    = regexp.MustCompile(`^[a-z]+:`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	named     = regexp.MustCompile(`<a id="([^"]+)"></a>`)
)

// brokenLinks returns the broken relative links, in the order of the pages' names.
func brokenLinks(root string, pages map[string]string) (wrong []string) {
	names := make([]string, 0, len(pages))
	for name := range pages {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString("\n"+pages[name], ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if why := broken(root, pages, name, m[1]); why != "" {
				wrong = append(wrong, name+": "+why)
			}
		}
	}
	return wrong
}

// broken returns why a link of a page is broken; "" if it is not, or leads out of the repository.
func broken(root string, pages map[string]string, page, target string) string {
	if scheme.MatchString(target) {
		return ""
	}
	path, anchor, _ := strings.Cut(target, "#")
	to := page
	if path != "" {
		to = filepath.ToSlash(filepath.Join(filepath.Dir(page), path))
	}
	text, isPage := pages[to]
	if _, err := os.Stat(filepath.Join(root, to)); err != nil && !isPage {
		return to + " does not exist"
	}
	if anchor != "" && !slices.Contains(anchors(text), anchor) {
		return to + " has no heading #" + anchor
	}
	return ""
}

// anchors returns the anchors of a page's headings: in lower case, without punctuation, with dashes for spaces, and a number for a repeated heading.
// Explicit ones, such as <a id="d-10"></a>, are included.
func anchors(text string) (all []string) {
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString("\n"+text, ""), -1) {
		for _, id := range named.FindAllStringSubmatch(m[1], -1) {
			all = append(all, id[1])
		}
		name := strings.Map(anchorRune, strings.ToLower(strings.TrimSpace(named.ReplaceAllString(m[1], ""))))
		if n := seen[name]; n > 0 {
			all = append(all, name+"-"+string(rune('0'+n)))
		} else {
			all = append(all, name)
		}
		seen[name]++
	}
	return all
}

func anchorRune(r rune) rune {
	switch {
	case r == ' ':
		return '-'
	case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
		return r
	}
	return -1
}
