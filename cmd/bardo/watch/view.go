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

// mood is how a piece of the screen is meant; a palette gives it a look.
type mood uint8

const (
	moodPlain mood = iota
	moodHead
	moodGood
	moodWarn
	moodBad
	moodFaint
)

// palette makes a text look like its mood without changing its width.
type palette func(m mood, text string) string

// unpainted is the palette of tests and of terminals without colours.
func unpainted(_ mood, text string) string { return text }

// gap is the space between two columns.
const gap = "  "

// render draws what was seen into a screen of so many columns and rows: one line each, none longer. It depends on nothing else.
func (v *view) render(width, height int, paint palette) string {
	lines := append(v.heading(paint), "")
	if rows := providerRows(v.status); len(rows) > 0 {
		lines = append(append(lines, table(providerColumns, rows, width, paint)...), "")
	}
	room := max(height-len(lines)-1, 1)
	if len(v.requests) == 0 {
		lines = append(lines, paint(moodFaint, "no request has ended since the watching began"))
	} else {
		lines = append(lines, table(requestColumns, requestRows(v.newest(room), cmp.Or(v.zone, time.Local)), width, paint)...)
	}
	lines = lines[:min(len(lines), max(height, 1))]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], max(width, 1), "")
	}
	return strings.Join(lines, "\n")
}

// heading are the lines above the tables: who is watched, and the sums.
func (v *view) heading(paint palette) []string {
	return append([]string{v.title(paint)}, v.sums()...)
}

func (v *view) title(paint palette) string {
	name := paint(moodHead, "bardo "+cmp.Or(v.gateway.Version, cli.Version)) + gap
	title := name + cli.Printable(v.gateway.Home)
	switch {
	case v.gone != "":
		return name + paint(moodBad, "gone ("+cli.Printable(v.gone)+"): waiting for it to come back")
	case v.status.Draining:
		return title + gap + paint(moodWarn, "draining")
	case !v.status.At.IsZero() && !v.gateway.Started.IsZero():
		return title + gap + paint(moodFaint, "up "+span(v.status.At.Sub(v.gateway.Started)))
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

// column is one column of a table. Where there is no room for all, those with the lowest worth go first.
type column struct {
	head  string
	worth int
	right bool
	most  int // columns; longer cells are cut
}

// cell is one field of a row.
type cell struct {
	text string
	mood mood
}

var providerColumns = []column{
	{"PROVIDER", 9, false, 24},
	{"STATE", 8, false, 10},
	{"ORDER", 7, true, 5},
	{"ERROR RATE", 6, false, 16},
	{"REASON", 5, false, 60},
}

func providerRows(s statusSeen) [][]cell {
	rows := make([][]cell, len(s.Providers))
	for i, p := range s.Providers {
		c := p.Cells() // name, state, error rate, order, reason
		rows[i] = []cell{{c[0], moodPlain}, {c[1], moodOf(p.State)}, {c[3], moodPlain}, {c[2], moodPlain}, {c[4], moodFaint}}
	}
	return rows
}

func moodOf(state string) mood {
	switch state {
	case "healthy":
		return moodGood
	case "degraded":
		return moodWarn
	case "down":
		return moodBad
	}
	return moodFaint
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

func requestRows(requests []requestSeen, zone *time.Location) [][]cell {
	rows := make([][]cell, len(requests))
	for i, r := range requests {
		first := ""
		if r.FirstTokenMS > 0 {
			first = millis(r.FirstTokenMS)
		}
		rows[i] = []cell{
			{r.At.In(zone).Format(time.TimeOnly), moodFaint},
			{r.verdict(), r.mood()},
			{cmp.Or(r.Model, r.RequestedModel), moodPlain},
			{r.route(), moodPlain},
			{count(r.InputTokens), moodPlain},
			{count(r.OutputTokens), moodPlain},
			{r.Cost.String(), moodPlain},
			{millis(r.LatencyMS), moodPlain},
			{first, moodPlain},
			{r.Cache, moodFaint},
			{r.ID, moodFaint},
		}
	}
	return rows
}

// table writes rows in columns that fit the width, under their heads.
func table(columns []column, rows [][]cell, width int, paint palette) []string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = ansi.StringWidth(c.head)
		for j := range rows {
			rows[j][i].text = ansi.Truncate(cli.Printable(rows[j][i].text), c.most, "…")
			widths[i] = max(widths[i], ansi.StringWidth(rows[j][i].text))
		}
	}
	shown := fitting(columns, widths, width)
	heads := make([]cell, len(columns))
	for i, c := range columns {
		heads[i] = cell{c.head, moodHead}
	}
	lines := make([]string, 0, len(rows)+1)
	for _, row := range slices.Concat([][]cell{heads}, rows) {
		lines = append(lines, drawRow(columns, widths, shown, row, paint))
	}
	return lines
}

// fitting are the columns that there is room for, in their order.
func fitting(columns []column, widths []int, width int) []int {
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
		least := slices.MinFunc(shown, func(a, b int) int { return cmp.Compare(columns[a].worth, columns[b].worth) })
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
			text = pad + paint(row[i].mood, text)
		case n == len(shown)-1:
			text = paint(row[i].mood, text)
		default:
			text = paint(row[i].mood, text) + pad
		}
		parts = append(parts, text)
	}
	return strings.TrimRight(strings.Join(parts, gap), " ")
}

// count is a number for people: 999, 1.2k, 3.4M.
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

// millis is a time for people: 281ms, 2.4s.
func millis(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%dms", ms)
	}
	return fmt.Sprintf("%.1fs", float64(ms)/1000)
}

// span is how long something has lasted, in two units at most.
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
