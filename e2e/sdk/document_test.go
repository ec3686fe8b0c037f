package sdk

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/internal/proctest"
)

var update = flag.Bool("update", false, "write the tables of docs/clients.md anew")

// whole reports whether the agents in a terminal play everything over every format, which make soak has them do. Otherwise they play everything
// once, and over every format once: an agent's start alone takes seconds of CPU time. A run that writes the tables is whole.
func whole() bool { return *update || os.Getenv("BARDO_SOAK") != "" }

// document guards docs/clients.md, which several tests write.
var document sync.Mutex

// checkTable compares what stands in docs/clients.md between the markers of a name, or writes it.
func checkTable(t *testing.T, name, want string) {
	t.Helper()
	document.Lock()
	defer document.Unlock()
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "docs", "clients.md")
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+", written by go test ./e2e/sdk -update -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(doc), begin)
	got, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no %q", file, begin)
	case *update:
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("the table of %s in %s is another; -update writes it:\n%s", name, file, want)
	}
}

// columns of the matrix, and the cases that each stands for.
var columns = []struct {
	title string
	cases []string
}{
	{"chat", []string{"chat"}},
	{"base URL", []string{"base-url"}},
	{"stream", []string{"stream"}},
	{"tools", []string{"tools", "tools-stream"}},
	{"tool loop", []string{"loop"}},
	{"thinking", []string{"thinks"}},
	{"Unicode", []string{"unicode", "unicode-tools"}},
	{"large", []string{"large"}},
	{"retry", []string{"retry"}},
	{"cancel", []string{"cancel"}},
	{"heartbeats", []string{"heartbeat", "heartbeat2"}},
	{"broken stream", []string{"dies", "dies2"}},
	{"errors", nil}, // as the client's own provider's
}

// matrix is the table of clients and cases: each cell has the provider of the client's own dialect and the one of the other.
func matrix(reports map[string]report) string {
	var b strings.Builder
	b.WriteString("| client | version |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, c := range clients {
		rs := c.targets()
		fmt.Fprintf(&b, "| %s | %s |", c.title, reports[rs[0].name()].version)
		for _, col := range columns {
			cells := []string{rs[0].cell(col.cases, reports), rs[1].cell(col.cases, reports)}
			fmt.Fprintf(&b, " %s |", strings.Join(slices.Compact(cells), " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cell is ✓ where every case went well, ✗ where one did not, – where the client has no means for them.
func (r target) cell(cases []string, reports map[string]report) string {
	through, direct := reports[r.name()], reports[r.client.targets()[2].name()]
	if cases == nil && len(r.parity(through, direct)) > 0 {
		return "✗"
	}
	for _, name := range r.columnCases(cases) {
		if r.client.lacks[name] != "" {
			return "–"
		}
		if !through.cases[name].OK {
			return "✗"
		}
	}
	return "✓"
}

// columnCases are a column's, or all of the errors'.
func (r target) columnCases(cases []string) []string {
	if cases != nil {
		return cases
	}
	var errs []string
	for _, name := range r.cases() {
		if strings.HasPrefix(name, "error-") {
			errs = append(errs, name)
		}
	}
	return errs
}

// raised is the table of statuses and the classes of those clients that have several; clients that raise alike share a column.
func raised(reports map[string]report) string {
	type column struct{ titles, classes []string }
	var found []column
	for _, c := range clients {
		classes := c.classes(reports[c.targets()[0].name()])
		if len(slices.Compact(slices.Clone(classes))) == 1 {
			continue
		}
		i := slices.IndexFunc(found, func(f column) bool { return slices.Equal(f.classes, classes) })
		if i < 0 {
			i, found = len(found), append(found, column{classes: classes})
		}
		found[i].titles = append(found[i].titles, c.title)
	}
	var b strings.Builder
	b.WriteString("| the provider, or the gateway, says |")
	for _, f := range found {
		b.WriteString(" " + strings.Join(f.titles, "; ") + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(found)) + "\n")
	for i, status := range statuses {
		fmt.Fprintf(&b, "| %d |", status)
		for _, f := range found {
			fmt.Fprintf(&b, " `%s` |", f.classes[i])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// classes are what a client raised for each status.
func (c client) classes(rep report) []string {
	classes := make([]string, len(statuses))
	for i, s := range statuses {
		classes[i] = rep.cases["error-"+strconv.Itoa(s)].Exception
	}
	return classes
}
