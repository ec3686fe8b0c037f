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

// withBodyDeadline bounds the time in which the body arrives. The deadline is removed at the body's end; a later expiry would look as if the client had
// disconnected.
func (a *api) withBodyDeadline(w http.ResponseWriter, body io.ReadCloser) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return body
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(cmp.Or(a.BodyTime, bodyTime))) // fails for a writer without a connection, which needs no deadline
	return &deadlineBody{body, c}
}

type deadlineBody struct {
	io.ReadCloser

	c *http.ResponseController
}

// Read implements io.Reader.
func (b *deadlineBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.c.SetReadDeadline(time.Time{})
	}
	return n, err //nolint:wrapcheck // readers compare io.EOF
}

// Problem is the body of every error.
type Problem struct {
	Error ProblemDetails `json:"error"`
}

// ProblemDetails describe an error.
type ProblemDetails struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"` // the member or parameter at fault
}

// fail writes an error. The cause of an internal error is logged, and included only if no token is required.
func (a *api) fail(w http.ResponseWriter, err error) {
	f := fault.From(err)
	p := Problem{ProblemDetails{f.CodeString(), f.Public, f.Param}}
	cause := errors.Unwrap(f)
	if a.Token == nil && cause != nil && f.HTTPStatus() >= http.StatusInternalServerError {
		p.Error.Message += ": " + cause.Error()
	}
	if f.Kind == fault.Internal {
		a.Log.Error("an operation of the admin API failed", "error", cmp.Or(cause, err))
	}
	if wait := f.Wait(); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	write(w, f.HTTPStatus(), p)
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}

// readBody decodes the body of a request.
func readBody(r *http.Request, into any) error {
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

// enumParams are the parameters with a fixed set of values, which must not be empty.
var enumParams = []string{"by", "state", "dry_run", "records"}

// query returns the query parameters. Unknown and repeated ones are errors.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "the query string cannot be read", err)
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, invalidParam(fault.Clip(name), " is no parameter of this path")
		}
		if len(values) > 1 {
			return nil, invalidParam(name, " is there twice")
		}
		if !utf8.ValidString(values[0]) || strings.ContainsFunc(values[0], unicode.IsControl) {
			return nil, invalidParam(name, " holds bytes that are no text")
		}
		if values[0] == "" && slices.Contains(enumParams, name) {
			return nil, invalidParam(name, " is empty: leave it out for the usual one")
		}
	}
	return q, nil
}

// invalidParam returns the fault of a parameter: its name followed by what.
func invalidParam(name, what string) error {
	f := fault.New(fault.InvalidRequest, name+what, nil)
	f.Param = name
	return f
}

// boolParam reads a parameter that is true or false.
func boolParam(q url.Values, name string) (bool, error) {
	switch q.Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, invalidParam(name, ": expected true or false")
}

// intParam reads a parameter from 1 to limit; def if absent.
func intParam(q url.Values, name string, def, limit int) (int, error) {
	s := q.Get(name)
	if s == "" && !q.Has(name) {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > limit || strings.HasPrefix(s, "+") {
		return 0, invalidParam(name, ": expected a number from 1 to "+strconv.Itoa(limit))
	}
	return n, nil
}

// timeParam reads a time: RFC 3339, or a UTC day, which stands for its first moment, or its last if end is true.
func timeParam(q url.Values, name string, end bool) (time.Time, error) {
	s := q.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return t, invalidParam(name, ": expected a day such as 2006-01-02, or a time such as "+time.RFC3339)
	}
	if end {
		t = t.AddDate(0, 0, 1).Add(-time.Microsecond)
	}
	return t, nil
}
