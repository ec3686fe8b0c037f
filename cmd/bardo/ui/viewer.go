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

// errLoggedOut says that nobody has logged in.
var errLoggedOut = errors.New("not logged in")

// viewer is who looks at a page, and what it may see: the operator everything, a key its own requests and those of its project's other keys.
type viewer struct {
	Operator bool
	Name     string
	CSRF     string
	Key      policy.Account // "" for the operator

	accounts []policy.Account // whose requests are shown, the key's own first; the operator's list is empty
	token    string
}

// viewer finds out who sends a request. A key's row is read each time, so that what was revoked, has expired, has got another secret or is used from
// elsewhere sees nothing more; and so does who has logged in with a token that is not the operator's any more.
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

// projectOf are a key and the other keys of its project.
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

// sees reports whether requests of an account are the viewer's to see.
func (v *viewer) sees(a policy.Account) bool { return v.Operator || slices.Contains(v.accounts, a) }

// selected are the accounts that a page is about: all that the viewer sees, or the one that the query names. One that the viewer does not see is as one that there is not.
func (v *viewer) selected(key string) ([]policy.Account, error) {
	switch {
	case key == "" && v.Operator:
		return []policy.Account{""}, nil // every account
	case key == "":
		return v.accounts, nil
	case !v.sees(policy.Account(key)):
		return nil, fault.New(fault.NotFound, "There is no such key.", nil)
	}
	return []policy.Account{policy.Account(key)}, nil
}

// withToken refuses changes that do not come from a form of the session.
func withToken(p page) page {
	return func(w http.ResponseWriter, r *http.Request, v *viewer) error {
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(v.CSRF)) != 1 {
			return fault.New(fault.KeyRestricted, "This form is out of date: go back, reload the page and try again.", nil)
		}
		return p(w, r, v)
	}
}

// keyNames are the names of the keys that the viewer sees.
func (s *Server) keyNames(ctx context.Context, v *viewer) (map[policy.Account]string, error) {
	rows, err := s.o.Books.Keys(ctx)
	if err != nil {
		return nil, err
	}
	names := map[policy.Account]string{}
	for i := range rows {
		if v.sees(rows[i].ID) {
			names[rows[i].ID] = rows[i].Name
		}
	}
	return names, nil
}

// dayOf is the start of a UTC day so many days ago.
func dayOf(now time.Time, ago int) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -ago)
}
