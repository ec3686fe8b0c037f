// Package mdtest extracts the commands and examples from the documents, so that tests can run and check them. It knows Markdown's fenced blocks and
// bash; it does not know the meaning of the commands.
package mdtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Block is a fenced block of a page.
type Block struct {
	Page string // its path in the repository
	Line int    // of the opening fence
	Info string // text after the opening fence: a language, and perhaps more
	Text string
}

// String returns the block's position, as page:line.
func (b *Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

var fence = regexp.MustCompile("(?s)(?m:^ *```)([^\n]*)\n(.*?)(?m:^ *```$)") //nolint:gocritic // a line begins there

// Blocks returns a page's fenced blocks, in order.
func Blocks(page, text string) (all []Block) {
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		all = append(all, Block{page, 1 + strings.Count(text[:at[0]], "\n"), text[at[2]:at[3]], text[at[4]:at[5]]})
	}
	return all
}

// Pages returns README.md and the pages in docs, by their path below root.
func Pages(t testing.TB, root string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	pages := map[string]string{}
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.ToSlash(name)] = string(text)
	}
	return pages
}

// Script returns the commands that the user types: all of a block of sh, and the lines after "$ " of one of console, with their continuation lines.
// The program's name in it is bardo, without a path.
func (b *Block) Script() string { return strings.ReplaceAll(b.commands(), "bin/bardo", "bardo") }

func (b *Block) commands() string {
	if b.Info != "console" {
		return b.Text
	}
	var commands strings.Builder
	more := false
	for line := range strings.Lines(b.Text) {
		command, begins := strings.CutPrefix(line, "$ ")
		if !begins && !more {
			continue
		}
		commands.WriteString(command)
		more = strings.HasSuffix(strings.TrimSpace(command), "\\")
	}
	return commands.String()
}

var span = regexp.MustCompile("`(bardo [^`\n]+)`")

// Spans returns the commands of the program in the text of a page.
func Spans(text string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, m[1])
	}
	return all
}

// recorder records each command that is not a bash builtin, through bash's handler for commands that are not found.
const recorder = `
command_not_found_handle() { printf '%s\0' "$@" $'\036' >> "$RECORD"; }
PATH=/nonexistent
cd() { :; }; kill() { :; }; .() { :; }
`

// Commands returns the commands that bash would run for a script, with their arguments, after quoting, variables and redirection. Nothing is run:
// bash finds no programs. The error is of an invalid script.
func Commands(t testing.TB, script string) ([][]string, error) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	ctx := context.Background()
	if out, err := exec.CommandContext(ctx, bash, "-n", "-c", script).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	c := exec.CommandContext(ctx, bash, "-c", recorder+"\n"+script+"\nwait\n")
	c.Dir, c.Env = dir, []string{"RECORD=" + record, "HOME=" + dir}
	_ = c.Run() // returns the last command's status: not found
	written, err := os.ReadFile(record)
	if errors.Is(err, fs.ErrNotExist) { // the script has only builtins
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all [][]string
	const end = "\x00\x1e\x00"
	for one := range strings.SplitSeq(strings.TrimSuffix(string(written), end), end) {
		all = append(all, strings.Split(one, "\x00"))
	}
	return all, nil
}

// Output returns the output shown in a block of console; all of any other block.
func (b *Block) Output() string {
	if b.Info != "console" {
		return b.Text
	}
	var shown strings.Builder
	more := false
	for line := range strings.Lines(b.Text) {
		commands := more || strings.HasPrefix(line, "$ ")
		if !commands {
			shown.WriteString(line)
		}
		more = commands && strings.HasSuffix(strings.TrimSpace(line), "\\")
	}
	return shown.String()
}
