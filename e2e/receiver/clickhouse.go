package receiver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// ClickHouse is a stand-in for a ClickHouse server: its HTTP interface as https://clickhouse.com/docs/interfaces/http has it, for tables of usage and events that replace
// rows with the same sorting key, as ReplacingMergeTree does in queries with FINAL. It is not ClickHouse: what it takes for valid was compared with the engine (26.9).
type ClickHouse struct {
	URL string

	mu     sync.Mutex
	tables map[string]*chTable
	held   chan struct{} // closed where calls are not held
}

// chTable is one table.
type chTable struct {
	columns map[string]bool
	key     []string                  // the sorting key, behind key and day
	rows    map[string]map[string]any // by the sorting key
	all     int                       // rows that were inserted, those that replace others included
	refuse  int                       // inserts to answer 500, before anything is inserted
	forget  int                       // inserts whose rows are taken and that are answered 500
}

// ClickHousePassword is that of the user bardo.
const ClickHousePassword = "PLANTEDCLICKHOUSE_0123456789"

// StartClickHouse starts one without a table.
func StartClickHouse(t testing.TB) *ClickHouse {
	t.Helper()
	c := &ClickHouse{tables: map[string]*chTable{}, held: make(chan struct{})}
	close(c.held)
	s := httptest.NewServer(c)
	t.Cleanup(func() {
		c.Release()
		s.Close()
	})
	c.URL = s.URL
	return c
}

// Hold has calls wait until Release.
func (c *ClickHouse) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = make(chan struct{})
}

// Release ends Hold.
func (c *ClickHouse) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.held:
	default:
		close(c.held)
	}
}

// Fail has the next inserts of each table fail: before anything is inserted, and after it.
func (c *ClickHouse) Fail(before, after int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tables {
		t.refuse, t.forget = before, after
	}
}

// Rows are what a query of usage with FINAL returns, and how many rows were inserted.
func (c *ClickHouse) Rows() (rows []map[string]any, inserted int) { return c.in("request_id") }

// Events are the same of events.
func (c *ClickHouse) Events() (rows []map[string]any, inserted int) { return c.in("event_id") }

func (c *ClickHouse) in(id string) (rows []map[string]any, inserted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tables {
		if t.key[len(t.key)-1] != id {
			continue
		}
		for _, r := range t.rows {
			rows = append(rows, r)
		}
		inserted += t.all
	}
	return rows, inserted
}

var (
	createTable = regexp.MustCompile(`(?s)^(?:--[^\n]*\n)*CREATE TABLE IF NOT EXISTS ([a-z_.]+) \((.*)\) ENGINE = ReplacingMergeTree\(exported_at\)\s+PARTITION BY toYYYYMM\(at\)\s+ORDER BY \(key, toDate\(at\), ((?:event, event|request)_id)\)\s*$`)
	insertInto  = regexp.MustCompile(`^INSERT INTO ([a-z_.]+) FORMAT JSONEachRow$`)
	timeForm    = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}$`)
)

// ServeHTTP implements http.Handler.
func (c *ClickHouse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	select {
	case <-held:
	case <-r.Context().Done():
		return
	}
	body, err := readBody(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	query := r.URL.Query().Get("query")
	created, insert := createTable.FindStringSubmatch(query), insertInto.FindStringSubmatch(query)
	var into *chTable
	if insert != nil {
		into = c.tables[insert[1]]
	}
	switch {
	case err != nil:
		exception(w, http.StatusBadRequest, 354, "ZLIB_INFLATE_FAILED")
	case r.Method != http.MethodPost:
		exception(w, http.StatusInternalServerError, 164, "READONLY")
	case r.Header.Get("X-ClickHouse-User") != "bardo" || r.Header.Get("X-ClickHouse-Key") != ClickHousePassword:
		exception(w, http.StatusForbidden, 516, "AUTHENTICATION_FAILED")
	case created != nil:
		c.create(created[1], created[2], strings.Split(created[3], ", "))
	case insert == nil:
		exception(w, http.StatusBadRequest, 62, "SYNTAX_ERROR")
	case into == nil:
		exception(w, http.StatusNotFound, 60, "UNKNOWN_TABLE")
	case into.fails(&into.refuse):
		exception(w, http.StatusInternalServerError, 241, "MEMORY_LIMIT_EXCEEDED")
	case !into.insert(body):
		exception(w, http.StatusBadRequest, 27, "CANNOT_PARSE_INPUT_ASSERTION_FAILED")
	case into.fails(&into.forget):
		exception(w, http.StatusInternalServerError, 159, "TIMEOUT_EXCEEDED")
	}
}

// fails takes one of a number of failures.
func (*chTable) fails(left *int) bool {
	*left--
	return *left >= 0
}

func readBody(r *http.Request) ([]byte, error) {
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if from, err = gzip.NewReader(r.Body); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(from)
}

func exception(w http.ResponseWriter, status, code int, name string) {
	w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(code))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "Code: "+strconv.Itoa(code)+". DB::Exception: ("+name+")\n")
}

func (c *ClickHouse) create(table, columns string, key []string) {
	if c.tables[table] != nil {
		return
	}
	t := &chTable{columns: map[string]bool{}, key: key, rows: map[string]map[string]any{}}
	for line := range strings.Lines(columns) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			t.columns[name] = true
		}
	}
	c.tables[table] = t
}

// insert takes rows, all or none.
func (t *chTable) insert(body []byte) bool {
	var rows []map[string]any
	for in := json.NewDecoder(bytes.NewReader(body)); ; {
		var r map[string]any
		in.UseNumber()
		if err := in.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			return false
		}
		at, ok := r["at"].(string)
		if !ok || !timeForm.MatchString(at) || len(r) != len(t.columns) {
			return false
		}
		for name := range r {
			if !t.columns[name] {
				return false
			}
		}
		rows = append(rows, r)
	}
	for _, r := range rows {
		id := []string{r["key"].(string), r["at"].(string)[:10]}
		for _, column := range t.key {
			id = append(id, r[column].(string))
		}
		t.rows[strings.Join(id, " ")] = r
	}
	t.all += len(rows)
	return true
}
