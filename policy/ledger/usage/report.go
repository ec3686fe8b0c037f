package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// Query selects the requests that a report sums, and the dimensions.
type Query struct {
	Filter

	By      []By // 1 to MostDimensions, each once
	MaxRows int  // rows; 0 means MostRows
}

// Limits of a report, which is sorted in memory.
const (
	MaxDimensions = 3
	MaxRows       = 100_000
)

// Errors of a query.
var (
	ErrBy      = fmt.Errorf("expected 1 to %d different ones of %s", MaxDimensions, strings.Join(Dimensions(), ", "))
	ErrTooMany = errors.New("the report has too many rows: narrow its period, or sum by less")
)

// Sum is the usage of the requests that share a value in every dimension of a query.
type Sum struct {
	Names []string // the values, in the order of Query.By
	Row            // Name is the first value
}

// LayerSum is the savings of layers on these requests.
type LayerSum struct {
	Names []string
	SavingRow
}

// dimension is a dimension of reports.
type dimension struct {
	by     By
	column string                                    // of the stored sums; "" for the day, see store.Dialect.Day
	name   func(v *View, c *chargelog.Charge) string // the value of a charge; nil for the layer: a charge has several
}

var dimensions = []dimension{
	{ByKey, "s.account", func(_ *View, c *chargelog.Charge) string { return string(c.Account) }},
	{ByProject, "coalesce(k.project, '')", func(v *View, c *chargelog.Charge) string { return v.projects[c.Account] }},
	{ByGolem, "s.agent", func(_ *View, c *chargelog.Charge) string { return c.Agent }},
	{BySubsystem, "s.subsystem", func(_ *View, c *chargelog.Charge) string { return c.Subsystem }},
	{ByModel, "s.model", func(_ *View, c *chargelog.Charge) string { return string(c.Model) }},
	{ByProvider, "s.provider", func(_ *View, c *chargelog.Charge) string { return string(c.Provider) }},
	{ByDay, "", func(_ *View, c *chargelog.Charge) string { return c.At.UTC().Format(time.DateOnly) }},
	{ByLayer, "s.layer", nil},
}

// Dimensions returns the names of the dimensions.
func Dimensions() (names []string) {
	for _, d := range dimensions {
		names = append(names, string(d.by))
	}
	return names
}

// ParseBy parses a list of dimensions such as "model,day". The error is ErrBy.
func ParseBy(list string) (by []By, err error) {
	for name := range strings.SplitSeq(list, ",") {
		by = append(by, By(strings.TrimSpace(name)))
		if len(by) > MaxDimensions {
			break
		}
	}
	_, err = dimensionsOf(by)
	return by, err
}

func dimensionsOf(by []By) (list []dimension, err error) {
	for i, name := range by {
		at := slices.IndexFunc(dimensions, func(d dimension) bool { return d.by == name })
		if at < 0 || slices.Contains(by[:i], name) {
			return nil, fmt.Errorf("by %q: %w", name, ErrBy)
		}
		list = append(list, dimensions[at])
	}
	if len(by) < 1 || len(by) > MaxDimensions {
		return nil, fmt.Errorf("by %d: %w", len(by), ErrBy)
	}
	return list, nil
}

// errLayers says that usage cannot be summed by layer, and savings only by layer.
var errLayers = errors.New("layers have savings, and no usage")

// Report sums usage, most expensive first, or in order of time if the first dimension is the day. The error is ErrBy, ErrTooMany, or the store's.
func (v *View) Report(ctx context.Context, q Query) ([]Sum, error) {
	r, err := v.reportOf(ctx, &q)
	if err == nil && slices.Contains(q.By, ByLayer) {
		err = errLayers
	}
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	const columns = `sum(s.requests), sum(s.refused), sum(s.input), sum(s.cached), sum(s.cache_write), sum(s.output), sum(s.reasoning), sum(s.charged), sum(s.provider_cost), sum(s.saved)`
	rows, err := store.ReadAll(ctx, v, func(s store.Scanner) (u Sum, err error) {
		u.Names, err = r.scan(s, &u.Requests, &u.Refused, &u.Input, &u.Cached, &u.CacheWrite, &u.Output, &u.Reasoning, &u.Cost, &u.ProviderCost, &u.Saved)
		return u, err
	}, r.query(columns, "usage"), r.args...)
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	known := map[string]int{}
	for i := range rows {
		known[join(rows[i].Names)] = i
	}
	for _, e := range r.pending {
		names := r.names(e.Charge, "")
		i, ok := known[join(names)]
		if !ok {
			i = len(rows)
			known[join(names)] = i
			rows = append(rows, Sum{Names: names})
		}
		rows[i].add(e)
	}
	return sortRows(rows, &q, func(s *Sum) (names []string, worth policy.Micro) {
		s.Name = s.Names[0]
		return s.Names, s.Cost
	})
}

// SavingsReport sums the savings of layers, the greatest first, or in order of time if the first dimension is the day. The errors are those of Report.
func (v *View) SavingsReport(ctx context.Context, q Query) ([]LayerSum, error) {
	r, err := v.reportOf(ctx, &q)
	if err == nil && !slices.Contains(q.By, ByLayer) {
		err = errLayers
	}
	if err != nil {
		return nil, fmt.Errorf("savings: %w", err)
	}
	rows, err := store.ReadAll(ctx, v, func(s store.Scanner) (u LayerSum, err error) {
		u.Names, err = r.scan(s, &u.Requests, &u.Tokens, &u.Amount)
		return u, err
	}, r.query(`sum(s.requests), sum(s.tokens), sum(s.saved)`, "saving"), r.args...)
	if err != nil {
		return nil, fmt.Errorf("savings: %w", err)
	}
	known := map[string]int{}
	for i := range rows {
		known[join(rows[i].Names)] = i
	}
	for _, e := range r.pending {
		for k := range e.Charge.Savings {
			one := &e.Charge.Savings[k]
			names := r.names(e.Charge, one.Layer)
			i, ok := known[join(names)]
			if !ok {
				i = len(rows)
				known[join(names)] = i
				rows = append(rows, LayerSum{Names: names})
			}
			rows[i].add(one)
		}
	}
	layer := slices.Index(q.By, ByLayer)
	return sortRows(rows, &q, func(s *LayerSum) (names []string, worth policy.Micro) {
		s.Layer = s.Names[layer]
		return s.Names, s.Amount
	})
}

// add adds a charge that is not in the store yet.
func (r *Row) add(e *chargelog.Entry) {
	r.Requests++
	addTokens(&r.Tokens, &e.Charge.Tokens)
	r.Cost += e.Expected()
	r.ProviderCost += e.Charge.ProviderCost
	r.Saved = r.Saved.Plus(savedOn(e.Charge))
}

// report is the state of a query.
type report struct {
	view       *View
	dimensions []dimension
	args       []any
	pending    []*chargelog.Entry // selected entries that are not in the store yet
}

func (v *View) reportOf(ctx context.Context, q *Query) (*report, error) {
	list, err := dimensionsOf(q.By)
	if err != nil {
		return nil, err
	}
	if q.MaxRows <= 0 || q.MaxRows > MaxRows {
		q.MaxRows = MaxRows
	}
	first, last := q.days()
	r := &report{view: v, dimensions: list, args: []any{q.Account, first, last, q.Project, q.Golem, q.MaxRows + 1}}
	if v.projects == nil && (q.Project != "" || slices.Contains(q.By, ByProject)) {
		if err := v.readProjects(ctx); err != nil {
			return nil, err
		}
	}
	for _, e := range v.Unapplied() {
		if q.selects(e) && (q.Project == "" || v.projects[e.Charge.Account] == q.Project) {
			r.pending = append(r.pending, e)
		}
	}
	return r, nil
}

// readProjects reads the projects of the keys with charges that are not in the store yet.
func (v *View) readProjects(ctx context.Context) error {
	v.projects = map[policy.Account]string{}
	var accounts []string
	for _, e := range v.Unapplied() {
		accounts = append(accounts, string(e.Charge.Account))
	}
	if len(accounts) == 0 {
		return nil
	}
	_, err := store.ReadAll(ctx, v, func(s store.Scanner) (none struct{}, err error) {
		var id policy.Account
		var project string
		if err = s.Scan(&id, &project); err == nil {
			v.projects[id] = project
		}
		return none, err
	}, `SELECT id, coalesce(project, '') FROM "key" WHERE id `+v.InList, v.StringList(accounts))
	return err
}

// query is the query of the stored sums in a table.
func (r *report) query(columns, table string) string {
	names, numbers := make([]string, len(r.dimensions)), make([]string, len(r.dimensions))
	for i, d := range r.dimensions {
		names[i], numbers[i] = cmp.Or(d.column, r.view.Day), strconv.Itoa(i+1)
	}
	return `SELECT ` + strings.Join(names, ", ") + `, ` + columns + `
FROM ` + table + ` s LEFT JOIN "key" k ON k.id = s.account
WHERE (?1 = '' OR s.account = ?1) AND s.day BETWEEN ?2 AND ?3 AND (?4 = '' OR k.project = ?4) AND (?5 = '' OR s.agent = ?5)
GROUP BY ` + strings.Join(numbers, ", ") + ` LIMIT ?6`
}

// scan scans a row of the query: its names, then the sums.
func (r *report) scan(row store.Scanner, sums ...any) (names []string, err error) {
	names = make([]string, len(r.dimensions))
	into := make([]any, 0, len(names)+len(sums))
	for i := range names {
		into = append(into, &names[i])
	}
	return names, row.Scan(append(into, sums...)...)
}

// names are the names of the sum that a charge belongs to, with a layer if there is one.
func (r *report) names(c *chargelog.Charge, layer string) []string {
	names := make([]string, len(r.dimensions))
	for i, d := range r.dimensions {
		if names[i] = layer; d.name != nil {
			names[i] = d.name(r.view, c)
		}
	}
	return names
}

// join joins names by a character that is in none of them.
func join(names []string) string { return strings.Join(names, "\x00") }

// sortRows sorts the rows of a report. of returns a row's names and the amount by which it is sorted. The error is ErrTooMany.
func sortRows[S any](rows []S, q *Query, of func(*S) ([]string, policy.Micro)) ([]S, error) {
	if len(rows) > q.MaxRows {
		return nil, ErrTooMany
	}
	for i := range rows {
		of(&rows[i])
	}
	byTime := q.By[0] == ByDay
	slices.SortFunc(rows, func(a, b S) int {
		namesA, worthA := of(&a)
		namesB, worthB := of(&b)
		if worthA != worthB && !byTime {
			return cmp.Compare(worthB, worthA)
		}
		return slices.Compare(namesA, namesB)
	})
	return rows, nil
}
