package store

import (
	"context"
	"strconv"
	"strings"
	"sync"
)

// Bulk is a statement for many rows, with a query for each of rowCounts, which is built on first use.
type Bulk struct {
	Width   int // parameters of a row
	queries [len(rowCounts)]func() string
}

// rowCounts are the numbers of rows of the prepared statements. The last one is 1.
var rowCounts = [...]int{64, 16, 4, 1}

// NewBulk returns the statement of rows between two texts. In the text of a row, $1 is its first parameter.
func NewBulk(before, row, after string) *Bulk {
	t := &Bulk{}
	for strings.Contains(row, "$"+strconv.Itoa(t.Width+1)) {
		t.Width++
	}
	for i, n := range rowCounts {
		t.queries[i] = sync.OnceValue(func() string {
			rows := make([]string, n)
			for k := range rows {
				rows[k] = numbered(row, t.Width, k*t.Width)
			}
			return before + strings.Join(rows, ", ") + after
		})
	}
	return t
}

// numbered numbers the parameters of a row in a statement, after those of earlier rows.
func numbered(row string, width, others int) string {
	for p := width; p > 0; p-- { // $1 is the beginning of $10
		row = strings.ReplaceAll(row, "$"+strconv.Itoa(p), "?"+strconv.Itoa(others+p))
	}
	return row
}

// each runs the queries for rows. values are the concatenated values of the rows.
func (t *Bulk) each(values []any, run func(query string, values []any) error) error {
	for i, n := range rowCounts {
		for size := n * t.Width; len(values) >= size; values = values[size:] {
			if err := run(t.queries[i](), values[:size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ExecAll runs a statement for rows, and returns the number of changed rows.
func (b *Book) ExecAll(t *Bulk, values []any) (changed int64, err error) {
	err = t.each(values, func(query string, values []any) error {
		n, err := b.Exec(query, values...)
		changed += n
		return err
	})
	return changed, err
}

// QueryAll runs a statement for rows, and scans the rows that it returns.
func (b *Book) QueryAll(t *Bulk, values []any, scan func(Scanner) error) error {
	return t.each(values, func(query string, values []any) error {
		s, err := b.statement(query) //nolint:sqlclosecheck // kept, and closed with the book
		if err != nil {
			return err
		}
		rows, err := s.QueryContext(context.Background(), values...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
