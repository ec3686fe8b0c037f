package usage

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/policy"
)

// Table is a report for output as JSON, CSV or text. Its numbers are decimal, and exact.
type Table struct {
	By      []By
	Columns []string   // headings of the numbers
	Rows    [][]string // names, then numbers
}

// usageColumns are the headings of usage. full_price_usd is the cost that the requests would have had without the layers.
var usageColumns = []string{
	"requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "provider_cost_usd", "refused", "saved_usd",
	"full_price_usd",
}

// TableOf returns the table of a report.
func TableOf(by []By, sums []Sum) *Table {
	t := &Table{By: by, Columns: usageColumns, Rows: make([][]string, len(sums))}
	for i := range sums {
		t.Rows[i] = append(slices.Clone(sums[i].Names), sums[i].cells()...)
	}
	return t
}

func (r *Row) cells() []string {
	cells := make([]string, 0, len(usageColumns))
	for _, n := range []int64{r.Requests, r.Input, r.Cached, r.CacheWrite, r.Output, r.Reasoning} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, r.Cost.String(), r.ProviderCost.String(), strconv.FormatInt(r.Refused, 10), r.Saved.String(), r.Cost.Plus(r.Saved).String())
}

// LayerTableOf returns the table of a report of savings.
func LayerTableOf(by []By, sums []LayerSum) *Table {
	t := &Table{By: by, Columns: []string{"requests", "saved_tokens", "saved_usd"}, Rows: make([][]string, len(sums))}
	for i := range sums {
		s := &sums[i]
		t.Rows[i] = append(slices.Clone(s.Names), strconv.FormatInt(s.Requests, 10), strconv.FormatInt(s.Tokens, 10), s.Amount.String())
	}
	return t
}

// Total sums all rows, also as cells without names.
func Total(sums []Sum) (cells []string, total Row) {
	for i := range sums {
		r := &sums[i].Row
		total.Requests += r.Requests
		total.Refused += r.Refused
		addTokens(&total.Tokens, &r.Tokens)
		total.Cost = total.Cost.Plus(r.Cost)
		total.ProviderCost = total.ProviderCost.Plus(r.ProviderCost)
		total.Saved = total.Saved.Plus(r.Saved)
	}
	return total.cells(), total
}

// TotalOfLayers returns the cells of the total savings. There is no number of requests, because a request counts once for each of its layers.
func TotalOfLayers(sums []LayerSum) (cells []string) {
	var tokens int64
	var amount policy.Micro
	for i := range sums {
		tokens, amount = policy.AddTokens(tokens, sums[i].Tokens), amount.Plus(sums[i].Amount)
	}
	return []string{"", strconv.FormatInt(tokens, 10), amount.String()}
}

// Page returns up to limit rows from offset; next is the offset of the next page, 0 if there is none.
func (t *Table) Page(offset, limit int) (page *Table, next int) {
	from := min(offset, len(t.Rows))
	to := min(from+limit, len(t.Rows))
	if to < len(t.Rows) {
		next = to
	}
	return &Table{By: t.By, Columns: t.Columns, Rows: t.Rows[from:to]}, next
}

// CSV writes the table with a header line.
func (t *Table) CSV(to io.Writer) error {
	w := csv.NewWriter(to)
	header := make([]string, 0, len(t.By)+len(t.Columns))
	for _, by := range t.By {
		header = append(header, string(by))
	}
	records := [][]string{append(header, t.Columns...)}
	for _, row := range t.Rows {
		record := slices.Clone(row)
		for i := range t.By {
			record[i] = EscapeFormula(record[i])
		}
		records = append(records, record)
	}
	return w.WriteAll(records)
}

// EscapeFormula prefixes s with ' if a spreadsheet would read it as a formula: some names are chosen by clients.
func EscapeFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// AppendJSON appends the rows as an array of objects. A single name is the member "name"; several are members named by their dimensions.
func (t *Table) AppendJSON(b []byte) []byte {
	b = append(b, '[')
	for i, row := range t.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = t.appendRow(b, row)
	}
	return append(b, ']')
}

func (t *Table) appendRow(b []byte, row []string) []byte {
	b = append(b, '{')
	for i, by := range t.By {
		if i > 0 {
			b = append(b, ',')
		}
		if len(t.By) == 1 {
			by = "name"
		}
		name, _ := json.Marshal(row[i]) // cannot fail for a string
		b = append(append(append(append(b, '"'), by...), `":`...), name...)
	}
	for i, column := range t.Columns {
		b = append(append(append(append(b, `,"`...), column...), `":`...), row[len(t.By)+i]...)
	}
	return append(b, '}')
}

// MarshalJSON is AppendJSON.
func (t *Table) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }
