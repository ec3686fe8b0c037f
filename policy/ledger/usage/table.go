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

// Table is a report as it is written out: in JSON, CSV, or for a terminal. Its numbers are decimal, and exact.
type Table struct {
	By      []By
	Columns []string   // of the numbers, which follow the names
	Rows    [][]string // names, and then numbers
}

// usageColumns are the numbers of usage. full_price_usd is what the requests would have cost without the work of the layers.
var usageColumns = []string{
	"requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "provider_cost_usd", "refused", "saved_usd",
	"full_price_usd",
}

// TableOf is the table of sums.
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

// LayerTableOf is the table of what layers saved.
func LayerTableOf(by []By, sums []LayerSum) *Table {
	t := &Table{By: by, Columns: []string{"requests", "saved_tokens", "saved_usd"}, Rows: make([][]string, len(sums))}
	for i := range sums {
		s := &sums[i]
		t.Rows[i] = append(slices.Clone(s.Names), strconv.FormatInt(s.Requests, 10), strconv.FormatInt(s.Tokens, 10), s.Amount.String())
	}
	return t
}

// Total is the sum of all rows, and its cells without names.
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

// TotalOfLayers is likewise what all layers saved. It has no number of requests: one counts at each of its layers.
func TotalOfLayers(sums []LayerSum) (cells []string) {
	var tokens int64
	var amount policy.Micro
	for i := range sums {
		tokens, amount = policy.AddTokens(tokens, sums[i].Tokens), amount.Plus(sums[i].Amount)
	}
	return []string{"", strconv.FormatInt(tokens, 10), amount.String()}
}

// Page is the rows from offset, at most limit; next is the offset of those that follow, 0 if there are none.
func (t *Table) Page(offset, limit int) (page *Table, next int) {
	from := min(offset, len(t.Rows))
	to := min(from+limit, len(t.Rows))
	if to < len(t.Rows) {
		next = to
	}
	return &Table{By: t.By, Columns: t.Columns, Rows: t.Rows[from:to]}, next
}

// CSV writes the table with a line of heads.
func (t *Table) CSV(to io.Writer) error {
	w := csv.NewWriter(to)
	heads := make([]string, 0, len(t.By)+len(t.Columns))
	for _, by := range t.By {
		heads = append(heads, string(by))
	}
	records := [][]string{append(heads, t.Columns...)}
	for _, row := range t.Rows {
		record := slices.Clone(row)
		for i := range t.By {
			record[i] = Inert(record[i])
		}
		records = append(records, record)
	}
	return w.WriteAll(records)
}

// Inert is s as a spreadsheet takes it for text: some names were chosen by clients, and must not become formulas.
func Inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// AppendJSON appends the rows as an array of objects. A single name is the member "name", several are members of their own.
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
		name, _ := json.Marshal(row[i]) // a text always has a JSON form
		b = append(append(append(append(b, '"'), by...), `":`...), name...)
	}
	for i, column := range t.Columns {
		b = append(append(append(append(b, `,"`...), column...), `":`...), row[len(t.By)+i]...)
	}
	return append(b, '}')
}

// MarshalJSON is AppendJSON.
func (t *Table) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }
