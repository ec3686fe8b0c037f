package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"bardo.money/gateway/cmd/bardo/cli"
)

// textStyle is the meaning of a text on the screen; a palette renders it.
type textStyle uint8

const (
	stylePlain textStyle = iota
	styleHead
	styleGood
	styleWarn
	styleBad
	styleFaint
)

// palette renders a text in a style without changing its width.
type palette func(m textStyle, text string) string

// plainPalette is the palette of tests and of terminals without colours.
func plainPalette(_ textStyle, text string) string { return text }

// gap separates two columns.
const gap = "  "

// render renders the view for a screen of width columns and height rows, one line each. It depends on nothing else.
func (v *view) render(width, height int, paint palette) string {
	lines := append(v.heading(paint), "")
	if rows := providerRows(v.status); len(rows) > 0 {
		lines = append(append(lines, table(providerColumns, rows, width, paint)...), "")
	}
	room := max(height-len(lines)-1, 1)
	if len(v.requests) == 0 {
		lines = append(lines, paint(styleFaint, "no request has ended since the watching began"))
	} else {
		lines = append(lines, table(requestColumns, requestRows(v.newest(room), cmp.Or(v.zone, time.Local)), width, paint)...)
	}
	lines = lines[:min(len(lines), max(height, 1))]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], max(width, 1), "")
	}
	return strings.Join(lines, "\n")
}

// heading returns the lines above the tables: the gateway, and the totals.
func (v *view) heading(paint palette) []string {
	return append([]string{v.title(paint)}, v.sums()...)
}

func (v *view) title(paint palette) string {
	name := paint(styleHead, "bardo "+cmp.Or(v.gateway.Version, cli.Version)) + gap
	title := name + cli.Printable(v.gateway.Home)
	switch {
	case v.disconnected != "":
		return name + paint(styleBad, "gone ("+cli.Printable(v.disconnected)+"): waiting for it to come back")
	case v.status.Draining:
		return title + gap + paint(styleWarn, "draining")
	case !v.status.At.IsZero() && !v.gateway.Started.IsZero():
		return title + gap + paint(styleFaint, "up "+span(v.status.At.Sub(v.gateway.Started)))
	}
	return title
}

func (v *view) sums() []string {
	s, n := v.status, v.seen
	lines := []string{
		fmt.Sprintf("requests  %.1f/s   under way %d   today %d   since the start %d", v.perSecond(), s.Live, s.RequestsToday, s.Served),
		fmt.Sprintf("cost      today %s   on hold %s for %d", s.CostToday, s.Held, s.Holds),
		fmt.Sprintf("watched   %d requests   %d failed   %d failed over   %s tokens in, %s out", n.requests, n.failed, n.failedOver, count(n.input), count(n.output)),
		fmt.Sprintf("          cost %s   saved %s", n.cost, n.savings),
	}
	if s.Lost > 0 {
		lines = append(lines, fmt.Sprintf("          %d came too fast to be shown", s.Lost))
	}
	return lines
}

// column is a column of a table. If there is no room for all, those with the lowest priority are dropped first.
type column struct {
	head     string
	priority int
	right    bool
	maxWidth int // in terminal columns; longer cells are truncated
}

// cell is one field of a row.
type cell struct {
	text  string
	style textStyle
}

var providerColumns = []column{
	{"PROVIDER", 9, false, 24},
	{"STATE", 8, false, 10},
	{"ORDER", 7, true, 5},
	{"ERROR RATE", 6, false, 16},
	{"REASON", 5, false, 60},
}

func providerRows(s statusLine) [][]cell {
	rows := make([][]cell, len(s.Providers))
	for i, p := range s.Providers {
		c := p.Cells() // name, state, error rate, order, reason
		rows[i] = []cell{{c[0], stylePlain}, {c[1], stateStyle(p.State)}, {c[3], stylePlain}, {c[2], stylePlain}, {c[4], styleFaint}}
	}
	return rows
}

func stateStyle(state string) textStyle {
	switch state {
	case "healthy":
		return styleGood
	case "degraded":
		return styleWarn
	case "down":
		return styleBad
	}
	return styleFaint
}

var requestColumns = []column{
	{"TIME", 7, false, 8},
	{"STATUS", 10, false, 24},
	{"MODEL", 8, false, 28},
	{"PROVIDER", 9, false, 32},
	{"IN", 4, true, 8},
	{"OUT", 4, true, 8},
	{"COST", 6, true, 14},
	{"TOOK", 5, true, 8},
	{"FIRST", 3, true, 8},
	{"CACHE", 2, false, 9},
	{"REQUEST", 1, false, 28},
}

func requestRows(requests []requestLine, zone *time.Location) [][]cell {
	rows := make([][]cell, len(requests))
	for i, r := range requests {
		first := ""
		if r.FirstTokenMS > 0 {
			first = millis(r.FirstTokenMS)
		}
		rows[i] = []cell{
			{r.At.In(zone).Format(time.TimeOnly), styleFaint},
			{r.verdict(), r.style()},
			{cmp.Or(r.Model, r.RequestedModel), stylePlain},
			{r.route(), stylePlain},
			{count(r.InputTokens), stylePlain},
			{count(r.OutputTokens), stylePlain},
			{r.Cost.String(), stylePlain},
			{millis(r.LatencyMS), stylePlain},
			{first, stylePlain},
			{r.Cache, styleFaint},
			{r.ID, styleFaint},
		}
	}
	return rows
}

// table renders rows below their heads, in the columns that fit the width.
func table(columns []column, rows [][]cell, width int, paint palette) []string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = ansi.StringWidth(c.head)
		for j := range rows {
			rows[j][i].text = ansi.Truncate(cli.Printable(rows[j][i].text), c.maxWidth, "…")
			widths[i] = max(widths[i], ansi.StringWidth(rows[j][i].text))
		}
	}
	shown := fitColumns(columns, widths, width)
	heads := make([]cell, len(columns))
	for i, c := range columns {
		heads[i] = cell{c.head, styleHead}
	}
	lines := make([]string, 0, len(rows)+1)
	for _, row := range slices.Concat([][]cell{heads}, rows) {
		lines = append(lines, drawRow(columns, widths, shown, row, paint))
	}
	return lines
}

// fitColumns returns the indexes of the columns that fit, in order.
func fitColumns(columns []column, widths []int, width int) []int {
	shown := make([]int, len(columns))
	for i := range shown {
		shown[i] = i
	}
	total := func() (n int) {
		for _, i := range shown {
			n += widths[i] + len(gap)
		}
		return n - len(gap)
	}
	for len(shown) > 1 && total() > width {
		least := slices.MinFunc(shown, func(a, b int) int { return cmp.Compare(columns[a].priority, columns[b].priority) })
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == least })
	}
	return shown
}

func drawRow(columns []column, widths, shown []int, row []cell, paint palette) string {
	parts := make([]string, 0, len(shown))
	for n, i := range shown {
		text := row[i].text
		pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(text))
		switch {
		case columns[i].right:
			text = pad + paint(row[i].style, text)
		case n == len(shown)-1:
			text = paint(row[i].style, text)
		default:
			text = paint(row[i].style, text) + pad
		}
		parts = append(parts, text)
	}
	return strings.TrimRight(strings.Join(parts, gap), " ")
}

// count formats a number: 999, 1.2k, 3.4M.
func count(n int64) string {
	const thousand = 1000
	switch {
	case n < thousand:
		return fmt.Sprint(n)
	case n < thousand*thousand:
		return fmt.Sprintf("%.1fk", float64(n)/thousand)
	}
	return fmt.Sprintf("%.1fM", float64(n)/thousand/thousand)
}

// millis formats milliseconds: 281ms, 2.4s.
func millis(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%dms", ms)
	}
	return fmt.Sprintf("%.1fs", float64(ms)/1000)
}

// span formats a duration in at most two units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
