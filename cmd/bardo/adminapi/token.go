package adminapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"bardo.money/gateway/internal/fault"
)

// authorize wants the token in the one Authorization header, and nowhere else: a page of another site cannot set it, and it is in no log of addresses.
func authorize(r *http.Request, token string) error {
	values := r.Header.Values("Authorization")
	if len(values) == 1 && token != "" {
		scheme, given, _ := strings.Cut(values[0], " ")
		have, want := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(token)) // of one length
		if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(have[:], want[:]) == 1 {
			return nil
		}
	}
	f := fault.New(fault.InvalidAPIKey, "send the admin token as `Authorization: Bearer TOKEN`; it is in the file admin-token of the state directory, or what listen.admin_token says", nil)
	f.Code = "invalid_admin_token"
	return f
}

// held is the answer to somebody who had the token when it began. Nothing is written once another one is in force, in this process or in one that serves for it.
type held struct {
	http.ResponseWriter

	token string
	now   func() string
}

// whileHeld bounds an answer that lasts: a stream, or an export.
func whileHeld(w http.ResponseWriter, now func() string) *held {
	return &held{ResponseWriter: w, token: now(), now: now}
}

var errChanged = errors.New("the admin token was changed")

// Write implements http.ResponseWriter.
func (h *held) Write(b []byte) (int, error) {
	if h.now() != h.token {
		return 0, errChanged
	}
	return h.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }
