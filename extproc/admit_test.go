package extproc

import (
	"net/http"
	"strconv"
	"testing"

	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/quota"
)

// TestWhatARequestCountsAs: requests that generate count against the rate of generations, all others against that of lookups.
func TestWhatARequestCountsAs(t *testing.T) {
	for i, row := range []struct {
		method, path, route string
		want                quota.Class
	}{
		{http.MethodPost, "/v1/chat/completions", "", quota.Generation},
		{http.MethodPost, "/v1/chat/completions", "explain", quota.Lookup},
		{http.MethodPost, "/v1beta/models/m:generateContent", "", quota.Generation},
		{http.MethodPost, "/v1/messages/count_tokens", "", quota.Lookup},
		{http.MethodGet, "/v1/models", "", quota.Lookup},
		{http.MethodDelete, "/v1/cache", "", quota.Lookup},
		{http.MethodPost, "/v1/files", "", quota.Generation},
		{http.MethodPost, "/v1/files", "explain", quota.Generation},
		{http.MethodGet, "/v1/files/f", "", quota.Lookup},
		{http.MethodDelete, "/v1/files/f", "", quota.Lookup},
		{http.MethodPatch, "/v1beta/cachedContents/c", "", quota.Lookup},
	} {
		t.Run(strconv.Itoa(i)+row.path, func(t *testing.T) {
			x := &exchange{View: request.View{Config: &runtime.Config{}}}
			x.report.View, x.report.Bill, x.funds.Report = &x.View, &x.bill, &x.report
			x.bill.Open(meter.New(quota.New(quota.Options{}), nil, nil), nil, "")
			x.Head = stream.Head{Method: row.method, Path: row.path, Header: header.List{{Name: dryrun.Header, Value: row.route}}}
			e, err := endpoint.Find(&x.Head)
			if err != nil {
				t.Fatal(err)
			}
			if err := x.limit(t.Context(), &e); err != nil {
				t.Fatal(err)
			}
			if got := x.limitClass(&e); got != row.want {
				t.Errorf("class %d, want %d", got, row.want)
			}
		})
	}
}
