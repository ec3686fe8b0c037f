package adminapi

import (
	"crypto/sha256"
	"crypto/subtle"
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
