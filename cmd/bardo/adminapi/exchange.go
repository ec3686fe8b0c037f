package adminapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/admin"
)

const (
	maxBody  = 64 << 10 // bytes of a request
	bodyTime = 10 * time.Second
)

// soon is a body that has to arrive in time. The time is that of the body alone: where it ends later, the request is taken for one whose caller has gone.
func (a *api) soon(w http.ResponseWriter, body io.ReadCloser) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return body
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(cmp.Or(a.BodyTime, bodyTime))) // a writer without a connection needs none
	return &arriving{body, c}
}

type arriving struct {
	io.ReadCloser

	c *http.ResponseController
}

// Read implements io.Reader.
func (b *arriving) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.c.SetReadDeadline(time.Time{})
	}
	return n, err //nolint:wrapcheck // io.EOF is compared by readers
}

// Problem is the body of each error.
type Problem struct {
	Error ProblemDetails `json:"error"`
}

// ProblemDetails say what went wrong.
type ProblemDetails struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"` // the member or parameter that is wrong
}

// fail answers with an error. Only who needs no token sees the cause of an internal one.
func (a *api) fail(w http.ResponseWriter, err error) {
	f := fault.From(err)
	p := Problem{ProblemDetails{f.CodeString(), f.Public, f.Param}}
	if cause := errors.Unwrap(f); a.Token == nil && cause != nil && f.HTTPStatus() >= http.StatusInternalServerError {
		p.Error.Message += ": " + cause.Error()
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	}
	write(w, f.HTTPStatus(), p)
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader has gone if this fails
}

// read decodes the body of a request.
func read(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Newf(fault.TooLarge, "the body is larger than %d bytes", maxBody)
	}
	if err != nil {
		return fault.New(fault.RequestTimeout, "the body did not arrive", err)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if len(body) > 0 && (err != nil || kind != "application/json") {
		return fault.New(fault.UnsupportedMedia, "a body is JSON: send `Content-Type: application/json`", nil)
	}
	return admin.Decode(body, into)
}

// choices are the parameters that are one of some words.
var choices = []string{"by", "state", "dry_run", "records"}

// query reads the parameters behind the path: those of a list, each once.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "the query string cannot be read", err)
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, wrong(fault.Clip(name), " is no parameter of this path")
		}
		if len(values) > 1 {
			return nil, wrong(name, " is there twice")
		}
		if !utf8.ValidString(values[0]) || strings.ContainsFunc(values[0], unicode.IsControl) {
			return nil, wrong(name, " holds bytes that are no text")
		}
		if values[0] == "" && slices.Contains(choices, name) {
			return nil, wrong(name, " is empty: leave it out for the usual one")
		}
	}
	return q, nil
}

// wrong is the fault of a parameter; the sentence goes on behind its name.
func wrong(name, what string) error {
	f := fault.New(fault.InvalidRequest, name+what, nil)
	f.Param = name
	return f
}

// flag reads a parameter that is true or false.
func flag(q url.Values, name string) (bool, error) {
	switch q.Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, wrong(name, ": expected true or false")
}

// number reads a parameter from 1 to most; absent, it is usual.
func number(q url.Values, name string, usual, most int) (int, error) {
	s := q.Get(name)
	if s == "" && !q.Has(name) {
		return usual, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most || strings.HasPrefix(s, "+") {
		return 0, wrong(name, ": expected a number from 1 to "+strconv.Itoa(most))
	}
	return n, nil
}

// moment reads a time: RFC 3339, or a UTC day, which is its first moment, or its last where end is true.
func moment(q url.Values, name string, end bool) (time.Time, error) {
	s := q.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return t, wrong(name, ": expected a day such as 2006-01-02, or a time such as "+time.RFC3339)
	}
	if end {
		t = t.AddDate(0, 0, 1).Add(-time.Microsecond)
	}
	return t, nil
}
