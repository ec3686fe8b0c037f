package ui

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/internal/attempts"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// errLoggedOut is returned if there is no session.
var errLoggedOut = errors.New("not logged in")

// viewer is the user of a page: the operator sees everything, a key its own requests and those of its project's other keys.
type viewer struct {
	Operator bool
	Name     string
	CSRF     string
	Key      policy.Account // "" for the operator

	accounts []policy.Account // whose requests are shown, the key's own first; empty for the operator
	token    string
}

// viewer authenticates a request. A key's row is read each time: a session ends if the key was revoked, has expired, has another secret or is used from an
// address that it does not allow, and the operator's if the token has changed.
func (s *Server) viewer(r *http.Request) (*viewer, error) {
	token := tokenOf(r)
	n, ok := s.sessions.find(s.o.Now(), token)
	if !ok {
		return nil, errLoggedOut
	}
	v := &viewer{Operator: n.operator, Name: "operator", CSRF: n.csrf, Key: n.key, token: token}
	switch {
	case n.operator && s.o.Operator(n.token):
		return v, nil
	case n.operator:
		s.sessions.end(token)
		return nil, errLoggedOut
	}
	row, ok, err := s.o.Books.Key(r.Context(), n.key)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "The keys cannot be read at the moment.", err)
	}
	p := row.Principal()
	if !ok || row.Hash != n.hash || !row.Usable(s.o.Now()) || auth.CheckUse(&p, auth.Request{Client: attempts.Address(r)}) != nil {
		s.sessions.end(token)
		return nil, errLoggedOut
	}
	v.Name = row.Name
	v.accounts, err = s.projectOf(r.Context(), &row)
	return v, err
}

// projectOf returns the key and the other keys of its project.
func (s *Server) projectOf(ctx context.Context, k *ledger.KeyRow) ([]policy.Account, error) {
	all := []policy.Account{k.ID}
	if k.Project == "" {
		return all, nil
	}
	rows, err := s.o.Books.Keys(ctx)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "The keys cannot be read at the moment.", err)
	}
	for i := range rows {
		if rows[i].Project == k.Project && rows[i].ID != k.ID {
			all = append(all, rows[i].ID)
		}
	}
	return all, nil
}

// maySee reports whether the viewer may see an account's requests.
func (v *viewer) maySee(a policy.Account) bool { return v.Operator || slices.Contains(v.accounts, a) }

// accountsFor returns the accounts that a page is about: all that the viewer may see, or the one in the query. One that the viewer may not see is reported as
// not found.
func (v *viewer) accountsFor(key string) ([]policy.Account, error) {
	switch {
	case key == "" && v.Operator:
		return []policy.Account{""}, nil // every account
	case key == "":
		return v.accounts, nil
	case !v.maySee(policy.Account(key)):
		return nil, fault.New(fault.NotFound, "There is no such key.", nil)
	}
	return []policy.Account{policy.Account(key)}, nil
}

// requireCSRF refuses changes without the session's CSRF token.
func requireCSRF(p page) page {
	return func(w http.ResponseWriter, r *http.Request, v *viewer) error {
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(v.CSRF)) != 1 {
			return fault.New(fault.KeyRestricted, "This form is out of date: go back, reload the page and try again.", nil)
		}
		return p(w, r, v)
	}
}

// keyNames returns the names of the keys that the viewer may see.
func (s *Server) keyNames(ctx context.Context, v *viewer) (map[policy.Account]string, error) {
	rows, err := s.o.Books.Keys(ctx)
	if err != nil {
		return nil, err
	}
	names := map[policy.Account]string{}
	for i := range rows {
		if v.maySee(rows[i].ID) {
			names[rows[i].ID] = rows[i].Name
		}
	}
	return names, nil
}

// dayOf is the start of the UTC day ago days before now.
func dayOf(now time.Time, ago int) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -ago)
}
