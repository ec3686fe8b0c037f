package clickhouse

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/config"
)

// The tables of usage and of events.
var (
	//go:embed schema.sql
	schema string
	//go:embed events.sql
	eventsSchema string
)

// server is ClickHouse's HTTP interface (https://clickhouse.com/docs/interfaces/http).
type server struct {
	at             config.URL
	user, password string
	table          string
	schema         string // creates the table
	client         *http.Client
}

const (
	callTimeout = time.Minute
	maxAnswer   = 64 << 10 // bytes
)

// newServer returns a server for one of its tables.
func newServer(t *config.Telemetry, table, schema string) *server {
	return &server{
		at: t.ClickHouse, user: t.ClickHouseUser, password: t.ClickHousePassword.Reveal(), table: table, schema: schema,
		client: &http.Client{Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// exception is an error of ClickHouse.
type exception struct {
	status int
	code   int // ClickHouse's error code; 0 if there is none
	text   string
}

// Error implements error.
func (e *exception) Error() string {
	return fmt.Sprintf("it answered %d, code %d: %.300q", e.status, e.code, e.text)
}

// unknownTable is ClickHouse's error code of a missing table.
const unknownTable = 60

// insert inserts rows of JSON, a line each. If the table's engine supports it, rows that were inserted before with the same token are not inserted again. A
// missing table is created.
func (s *server) insert(ctx context.Context, rows []byte, token string) error {
	settings := url.Values{
		"insert_deduplication_token": {token}, "async_insert": {"0"}, "wait_end_of_query": {"1"}, "date_time_input_format": {"best_effort"},
		"input_format_skip_unknown_fields": {"0"},
	}
	query := "INSERT INTO " + s.table + " FORMAT JSONEachRow"
	err := s.call(ctx, query, settings, rows)
	if e, ok := errors.AsType[*exception](err); !ok || e.code != unknownTable {
		return err
	}
	if err := s.call(ctx, strings.ReplaceAll(s.schema, "{table}", s.table), nil, nil); err != nil {
		return fmt.Errorf("the table %s is not there, and cannot be made: %w", s.table, err)
	}
	return s.call(ctx, query, settings, rows)
}

// call runs a query, with data as its input.
func (s *server) call(ctx context.Context, query string, settings url.Values, data []byte) error {
	q := url.Values{"query": {query}}
	maps.Copy(q, settings)
	body, err := compress(data)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.at.String()+"/?"+q.Encode(), body)
	if err != nil {
		return err
	}
	req.Header.Set("X-ClickHouse-User", s.user)
	if s.password != "" {
		req.Header.Set("X-ClickHouse-Key", s.password)
	}
	if len(data) > 0 {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the query
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	code, _ := strconv.Atoi(resp.Header.Get("X-ClickHouse-Exception-Code"))
	if resp.StatusCode != http.StatusOK || code != 0 {
		return &exception{resp.StatusCode, code, string(text)}
	}
	return nil
}

func compress(data []byte) (*bytes.Buffer, error) {
	var b bytes.Buffer
	if len(data) == 0 {
		return &b, nil
	}
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	return &b, errors.Join(err, w.Close())
}
