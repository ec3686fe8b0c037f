package ledger

import (
	"context"
	"strconv"
	"strings"
)

// bulk is a statement for many rows at once, in a prepared form for each of rowCounts.
type bulk struct {
	width   int // parameters of a row
	queries [len(rowCounts)]string
}

// rowCounts are the numbers of rows of the prepared statements. The last one is 1.
var rowCounts = [...]int{64, 16, 4, 1}

// newBulk makes the statements of rows between two texts. In the text of a row, $1 is its first parameter.
func newBulk(before, row, after string) *bulk {
	t := &bulk{}
	for strings.Contains(row, "$"+strconv.Itoa(t.width+1)) {
		t.width++
	}
	for i, n := range rowCounts {
		rows := make([]string, n)
		for k := range rows {
			rows[k] = numbered(row, t.width, k*t.width)
		}
		t.queries[i] = before + strings.Join(rows, ", ") + after
	}
	return t
}

// numbered writes the parameters of a row as those of a statement, in which the first one comes after some others.
func numbered(row string, width, others int) string {
	for p := width; p > 0; p-- { // $1 is the beginning of $10
		row = strings.ReplaceAll(row, "$"+strconv.Itoa(p), "?"+strconv.Itoa(others+p))
	}
	return row
}

// each runs the statements for rows, whose values follow each other.
func (t *bulk) each(values []any, run func(query string, values []any) error) error {
	for i, n := range rowCounts {
		for size := n * t.width; len(values) >= size; values = values[size:] {
			if err := run(t.queries[i], values[:size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// execAll runs the statements for rows, and returns how many rows they changed.
func (b *book) execAll(t *bulk, values []any) (changed int64, err error) {
	err = t.each(values, func(query string, values []any) error {
		n, err := b.exec(query, values...)
		changed += n
		return err
	})
	return changed, err
}

// queryAll runs the statements for rows, which return pairs of an account and an amount.
func (b *book) queryAll(t *bulk, values []any) (pairs []entry, err error) {
	err = t.each(values, func(query string, values []any) error {
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
			e, err := scanEntry(rows)
			if err != nil {
				return err
			}
			pairs = append(pairs, e)
		}
		return rows.Err()
	})
	return pairs, err
}
