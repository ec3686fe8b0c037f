package batch

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// provider answers calls by their method and path, and records them.
type provider struct {
	t       *testing.T
	answers map[string]string
	status  map[string]int
	failure string
	broken  bool
	calls   []string
	last    []byte
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	call := r.Method + " " + r.URL.Path
	p.calls = append(p.calls, call)
	p.last, _ = io.ReadAll(r.Body)
	if r.Header.Get(state.HeaderExchange) != "secret.deferred" || r.Header.Get(state.HeaderCluster) == "" || r.Header.Get("X-Api-Key") != "k" || r.Host != "api.example" {
		p.t.Errorf("%s came with %v to %s", call, r.Header, r.Host)
	}
	if p.broken {
		return nil, errors.New("reset")
	}
	h := http.Header{}
	if p.failure != "" {
		h.Set(state.HeaderFailure, p.failure)
	}
	status := p.status[call]
	body, ok := p.answers[call]
	switch {
	case status == 0 && ok:
		status = http.StatusOK
	case status == 0:
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func target(t *testing.T, form string, p *provider) *Target {
	t.Helper()
	p.t = t
	return &Target{
		Form: form, Provider: "p", Authority: "api.example", BasePath: "/v1", Header: header.List{{Name: "x-api-key", Value: "k"}}, Cluster: "p",
		Exchange: "secret.deferred", Client: &http.Client{Transport: p},
	}
}

var order = Order{Tag: "bardo_1", Path: "/chat/completions", Items: []Item{{ID: "req_a", Body: []byte(`{"model":"m"}`)}, {ID: "req_b", Body: []byte(`{"model":"m"}`)}}}

func TestOpenAIsBatchesAreFilesOfLines(t *testing.T) {
	p := &provider{answers: map[string]string{
		"POST /v1/files":                  `{"id":"file-1"}`,
		"POST /v1/batches":                `{"id":"batch_1","status":"validating"}`,
		"GET /v1/batches/batch_1":         `{"id":"batch_1","status":"completed","input_file_id":"file-1","output_file_id":"out","error_file_id":"err"}`,
		"GET /v1/files/out/content":       `{"custom_id":"req_b","response":{"status_code":200,"body":{"x":1}},"error":null}` + "\n",
		"GET /v1/files/err/content":       `{"custom_id":"req_a","response":null,"error":{"code":"batch_expired"}}` + "\nno JSON\n\n" + `{"custom_id":"req_c","response":{"status_code":400,"body":{"error":{}}}}`,
		"DELETE /v1/files/file-1":         `{}`,
		"DELETE /v1/files/out":            `{}`,
		"POST /v1/batches/batch_1/cancel": `{}`,
	}}
	tg, o := target(t, OpenAI, p), order
	input, err := tg.Upload(t.Context(), &o)
	if err != nil || input != "file-1" || !bytes.Contains(p.last, []byte(`{"custom_id":"req_a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}`+"\n")) || !bytes.Contains(p.last, []byte("batch")) {
		t.Fatalf("%q, %v: %s", input, err, p.last)
	}
	o.Input = input
	r, err := tg.Submit(t.Context(), &o)
	if err != nil || r.ID != "batch_1" || r.State != Running || !bytes.Contains(p.last, []byte(`"bardo_batch":"bardo_1"`)) {
		t.Fatalf("%+v, %v: %s", r, err, p.last)
	}
	if r, err = tg.Look(t.Context(), "batch_1"); err != nil || r.State != Ended || len(r.Files) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	got := readResults(t, tg, "batch_1")
	if a, b, c := got["req_a"], got["req_b"], got["req_c"]; len(got) != 3 || a.Answered || !b.Answered || b.Status != 200 || string(b.Body) != `{"x":1}` || !c.Answered || c.Status != 400 {
		t.Errorf("results %+v", got)
	}
	if err := tg.Cancel(t.Context(), "batch_1"); err != nil {
		t.Error(err)
	}
	if err := tg.Forget(t.Context(), &r); err != nil { // one file was deleted already
		t.Error(err)
	}
}

func readResults(t *testing.T, tg *Target, id string) map[string]Result {
	t.Helper()
	got := map[string]Result{}
	if err := tg.Results(t.Context(), id, func(r *Result) error {
		c := *r
		c.Body = bytes.Clone(r.Body)
		got[r.ID] = c
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAnthropicsBatchesAreOneCall(t *testing.T) {
	p := &provider{answers: map[string]string{
		"POST /v1/messages/batches":     `{"id":"b","processing_status":"in_progress"}`,
		"GET /v1/messages/batches/b":    `{"id":"b","processing_status":"ended"}`,
		"DELETE /v1/messages/batches/b": `{}`,
		"GET /v1/messages/batches/b/results": `{"custom_id":"req_b","result":{"type":"succeeded","message":{"x":1}}}` + "\n" +
			`{"custom_id":"req_a","result":{"type":"errored","error":{"type":"error","error":{"type":"overloaded_error","message":"m"}}}}` + "\n" +
			`{"custom_id":"req_c","result":{"type":"expired"}}` + "\n" + `{"custom_id":"req_d","result":{"type":"errored","error":{"error":{"type":"new"}}}}`,
	}}
	tg, o := target(t, Anthropic, p), order
	if input, err := tg.Upload(t.Context(), &o); err != nil || input != "" || len(p.calls) != 0 {
		t.Fatalf("%q, %v after %v", input, err, p.calls)
	}
	r, err := tg.Submit(t.Context(), &o)
	if err != nil || r.ID != "b" || string(p.last) != `{"requests":[{"custom_id":"req_a","params":{"model":"m"}},{"custom_id":"req_b","params":{"model":"m"}}]}` {
		t.Fatalf("%+v, %v: %s", r, err, p.last)
	}
	got := readResults(t, tg, "b")
	if got["req_a"].Status != 529 || got["req_b"].Status != 200 || got["req_c"].Answered || got["req_d"].Status != 500 || len(got) != 4 {
		t.Errorf("results %+v", got)
	}
	if r, err = tg.Look(t.Context(), "b"); err != nil || r.State != Ended || tg.Forget(t.Context(), &r) != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestASubmissionOfAnUnknownOutcomeIsFoundByItsTagOrItsLength(t *testing.T) {
	now := time.Now()
	old := now.Add(-time.Hour).Unix()
	p := &provider{answers: map[string]string{
		"GET /v1/batches": `{"data":[{"id":"x","created_at":` + stamp(now) + `},{"id":"y","created_at":` + stamp(now) + `,"status":"failed","metadata":{"bardo_batch":"bardo_1"}}],"has_more":true}`,
	}}
	if found, err := target(t, OpenAI, p).Find(t.Context(), &order, now); err != nil || len(found) != 1 || found[0].ID != "y" || found[0].State != Failed {
		t.Errorf("%+v, %v", found, err)
	}
	p.answers["GET /v1/batches"] = `{"data":[{"id":"x","created_at":` + stamp(time.Unix(old, 0)) + `}],"has_more":true}`
	if found, err := target(t, OpenAI, p).Find(t.Context(), &order, now); err != nil || len(found) != 0 || len(p.calls) != 2 {
		t.Errorf("%+v, %v after %v", found, err, p.calls)
	}
	at := now.UTC().Format(time.RFC3339)
	p.answers["GET /v1/messages/batches"] = `{"data":[{"id":"one","created_at":"` + at + `","request_counts":{"processing":1}},{"id":"two","created_at":"` + at + `","request_counts":{"succeeded":1,"errored":1}},{"id":"before","created_at":"2020-01-01T00:00:00Z","request_counts":{"processing":2}}]}`
	if found, err := target(t, Anthropic, p).Find(t.Context(), &order, now); err != nil || len(found) != 1 || found[0].ID != "two" {
		t.Errorf("%+v, %v", found, err)
	}
}

func stamp(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func TestWhatAFailedSubmissionMeans(t *testing.T) {
	const call = "POST /v1/batches"
	for _, row := range []struct {
		about string
		p     provider
		want  Outcome
	}{
		{"refused", provider{status: map[string]int{call: 400}}, Never},
		{"forbidden", provider{status: map[string]int{call: 403}}, Never},
		{"too many", provider{status: map[string]int{call: 429}}, Later},
		{"no connection", provider{failure: "upstream_reset_before_response_started{connection_failure}", status: map[string]int{call: 503}}, Later},
		{"broken off", provider{failure: "upstream_reset_before_response_started{connection_termination}", status: map[string]int{call: 503}}, Unknown},
		{"a server's error", provider{status: map[string]int{call: 500}}, Unknown},
		{"no answer", provider{broken: true}, Unknown},
		{"an answer that is none", provider{answers: map[string]string{call: "<html>"}}, Unknown},
	} {
		_, err := target(t, OpenAI, &row.p).Submit(t.Context(), &order)
		if err == nil || OutcomeOf(err) != row.want {
			t.Errorf("%s: %v means %d, want %d", row.about, err, OutcomeOf(err), row.want)
		}
	}
	if _, err := (&Target{Form: "other"}).Submit(t.Context(), &order); err == nil {
		t.Error("a form that nobody knows")
	}
}

// FuzzResults: no line from a provider causes a panic, or a result without an id.
func FuzzResults(f *testing.F) {
	for _, s := range []string{`{"custom_id":"a","response":{"status_code":200,"body":{}}}`, `{"custom_id":"a","result":{"type":"errored","error":{"error":{"type":"api_error"}}}}`, `{`, `[]`, `{"custom_id":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, read := range []func([]byte) (Result, bool){readOpenAILine, readAnthropicLine} {
			if r, ok := read(line); ok && r.ID == "" || r.Answered && r.Status < 200 {
				t.Errorf("%q is %+v", line, r)
			}
		}
	})
}
