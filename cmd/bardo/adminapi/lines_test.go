package adminapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
)

// TestExportsOverHTTP: a line for each request, and each posting, as described; an invalid query is refused with JSON before the first line.
func TestExportsOverHTTP(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a","balance_usd":5}`)
	for i := range 3 {
		c := ledger.Charge{
			RequestID: fmt.Sprintf("req_%d", i), Account: policy.Account(id), Status: "ok", Model: "m", Provider: "p", Amount: 7, At: time.Now(), Record: fmt.Appendf(nil, `{"request_id":"req_%d"}`, i),
		}
		if err := s.books.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	lines := func(path, schema string) (rows []string) {
		t.Helper()
		a := s.send(http.MethodGet, adminapi.Prefix+path, "")
		if a.status != http.StatusOK || a.header.Get("Content-Type") != adminapi.Lines {
			t.Fatalf("%s: %d %v %s", path, a.status, a.header, a.body)
		}
		for l := range strings.Lines(a.body) {
			s.spec.validate(t, l, "components", "schemas", schema)
			rows = append(rows, l)
		}
		return rows
	}
	if rows := lines("/export/requests?key="+id+"&since=2026-01-01", "ExportedRequest"); len(rows) != 3 || !strings.Contains(strings.Join(rows, ""), `"req_0"`) || strings.Contains(rows[0], `"record"`) {
		t.Errorf("%v", rows)
	}
	if rows := lines("/export/requests?records=true", "ExportedRequest"); len(rows) != 3 || !strings.Contains(rows[2], `"record":{"key":"`+id) {
		t.Errorf("%v", rows)
	}
	if rows := lines("/export/requests?until=2020-01-01", "ExportedRequest"); len(rows) != 0 {
		t.Errorf("%v", rows)
	}
	if rows := lines("/export/journal?key="+id, "ExportedPosting"); len(rows) < 2 || !strings.Contains(rows[0], `"deposit"`) {
		t.Errorf("%v", rows)
	}
	for _, path := range []string{"/export/requests", "/export/journal"} {
		s.refuses(http.MethodGet, path+"?key=nobody", "", http.StatusNotFound, "no such key")
		s.refuses(http.MethodGet, path+"?since=yesterday", "", http.StatusBadRequest, "since")
	}
	s.refuses(http.MethodGet, "/export/requests?records=2", "", http.StatusBadRequest, "records")
}

// TestAnExportThatBreaksOffIsNoWholeOne, in this process or over the network.
func TestAnExportThatBreaksOffIsNoWholeOne(t *testing.T) {
	c := adminapi.Local(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", adminapi.Lines)
		_, _ = io.WriteString(w, `{"request_id":"req_0"}`+"\n")
		panic(http.ErrAbortHandler)
	}))
	n := 0
	err := adminapi.EachLine(t.Context(), c, "/export/requests", func(*admin.ExportedRequest) error { n++; return nil })
	if n != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d lines, %v", n, err)
	}
	stop := errors.New("enough")
	endless := adminapi.Local(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for row := json.NewEncoder(w); row.Encode(struct{}{}) == nil; {
			continue // until the client has disconnected
		}
	}))
	if err := adminapi.EachLine(context.Background(), endless, "/export/requests", func(*admin.ExportedRequest) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
