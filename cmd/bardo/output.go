package main

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

// advised is an error with what there is to do about it.
type advised struct {
	error

	fix string
}

func (a advised) Error() string { return a.error.Error() + ": " + a.fix }

func (a advised) Unwrap() error { return a.error }

// jsonFlag adds --json to a command.
func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "print JSON")
}

// completes tells shells the values of a flag.
func completes(c *cobra.Command, flag string, values ...cobra.Completion) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is not there
}

// printJSON writes v, indented, to the command's output.
func printJSON(c *cobra.Command, v any) error {
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printTable writes rows in columns, the heads first.
func printTable(w io.Writer, heads []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heads}, rows...) {
		line := make([]string, len(row))
		for i, cell := range row {
			line[i] = printable(cell)
		}
		if _, err := io.WriteString(t, strings.Join(line, "\t")+"\n"); err != nil {
			return err
		}
	}
	return t.Flush()
}

// printable is s as a terminal may show it. Some of what is shown was chosen by clients.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	if s == "" {
		return "-"
	}
	return s
}

// listed is names for people.
func listed[S ~string](names []S) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}

// dollars is an amount for people.
func dollars(m policy.Micro) string {
	if m < 0 {
		return "-$" + (-m).String()
	}
	return "$" + m.String()
}
