package ledger

import (
	"strconv"
	"strings"
)

// table is how rows are inserted into a table, many with one statement.
type table struct {
	width   int                    // parameters of a row
	inserts [len(rowCounts)]string // for so many rows each
}

// rowCounts are the numbers of rows of the prepared statements. The last one is 1.
var rowCounts = [...]int{64, 16, 4, 1}

// newTable makes the statements that insert rows. In the text of a row, $1 is its first parameter.
func newTable(into, row string) *table {
	t := &table{}
	for strings.Contains(row, "$"+strconv.Itoa(t.width+1)) {
		t.width++
	}
	for i, n := range rowCounts {
		rows := make([]string, n)
		for k := range rows {
			rows[k] = numbered(row, t.width, k*t.width)
		}
		t.inserts[i] = into + strings.Join(rows, ", ")
	}
	return t
}

// numbered writes the parameters of a row as those of a statement, whose parameters from first on it has.
func numbered(row string, width, first int) string {
	for p := width; p > 0; p-- { // $1 is the beginning of $10
		row = strings.ReplaceAll(row, "$"+strconv.Itoa(p), "?"+strconv.Itoa(first+p))
	}
	return row
}

// insertRows inserts rows, whose values follow each other.
func (b *book) insertRows(into *table, values []any) error {
	for i, n := range rowCounts {
		for size := n * into.width; len(values) >= size && size > 0; values = values[size:] {
			if _, err := b.exec(into.inserts[i], values[:size]...); err != nil {
				return err
			}
		}
	}
	return nil
}
