package adminapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"bardo.money/gateway/internal/fault"
)

// authorize requires the token in a single Authorization header, and nowhere else: pages of other sites cannot set that header, and it does not appear in
// access logs.
func authorize(r *http.Request, token string) error {
	values := r.Header.Values("Authorization")
	if len(values) == 1 && token != "" {
		scheme, given, _ := strings.Cut(values[0], " ")
		got, want := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(token)) // of equal length, for ConstantTimeCompare
		if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return nil
		}
	}
	f := fault.New(fault.InvalidAPIKey, "send the admin token as `Authorization: Bearer TOKEN`; it is in the file admin-token of the state directory, or what listen.admin_token says", nil)
	f.Code = "invalid_admin_token"
	return f
}

// tokenWriter is the writer of an answer whose client had the admin token at its start. Writes fail once the token has changed, also in a process that the
// answer is proxied from.
type tokenWriter struct {
	http.ResponseWriter

	token string
	now   func() string
}

// untilTokenChanges wraps the writer of a long answer: a stream, or an export.
func untilTokenChanges(w http.ResponseWriter, now func() string) *tokenWriter {
	return &tokenWriter{ResponseWriter: w, token: now(), now: now}
}

var errTokenChanged = errors.New("the admin token was changed")

// Write implements http.ResponseWriter.
func (h *tokenWriter) Write(b []byte) (int, error) {
	if h.now() != h.token {
		return 0, errTokenChanged
	}
	return h.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (h *tokenWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }
