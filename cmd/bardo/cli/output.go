package cli

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"bardo.money/gateway/policy"
)

// Advised is an error with advice.
type Advised struct {
	Err error
	Fix string
}

// Advise adds advice to an error.
func Advise(err error, fix string) error { return Advised{err, fix} }

func (a Advised) Error() string { return a.Err.Error() + ": " + a.Fix }

func (a Advised) Unwrap() error { return a.Err }

// JSONFlag adds --json to a command.
func JSONFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "print JSON")
}

// Completes sets the values that shells complete a flag with.
func Completes(c *cobra.Command, flag string, values ...cobra.Completion) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
}

// PrintJSON writes v, indented, to the command's output.
func PrintJSON(c *cobra.Command, v any) error {
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// PrintTable writes a table below its heads.
func PrintTable(w io.Writer, heads []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heads}, rows...) {
		line := make([]string, len(row))
		for i, cell := range row {
			line[i] = Printable(cell)
		}
		if _, err := io.WriteString(t, strings.Join(line, "\t")+"\n"); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Printable is s if a terminal can show it safely, else quoted: some texts are chosen by clients.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	if s == "" {
		return "-"
	}
	return s
}

// List joins names with commas.
func List[S ~string](names []S) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}

// Dollars formats an amount.
func Dollars(m policy.Micro) string {
	if m < 0 {
		return "-$" + (-m).String()
	}
	return "$" + m.String()
}
