package ui

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/attempts"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/auth"
)

// loginForm is the content of the login page.
type loginForm struct {
	Next  string
	Error string
}

func (s *Server) showLogin(w http.ResponseWriter, r *http.Request) {
	s.render(w, http.StatusOK, nil, "login", view{Title: "Log in", Data: loginForm{Next: localPath(r.URL.Query().Get("next"))}})
}

// sendToLogin redirects to the login page, which returns to this one.
func (s *Server) sendToLogin(w http.ResponseWriter, r *http.Request) {
	to := "/ui/login"
	if r.Method == http.MethodGet && r.URL.Path != "/ui" {
		to += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// localPattern matches the paths that a login may redirect to: pages of the dashboard.
var localPattern = regexp.MustCompile(`^/ui(/[A-Za-z0-9_.~-]+)*(\?[A-Za-z0-9_.~%&=+:-]*)?$`)

// localPath returns s if it is a path of the dashboard, else the path of its first page.
func localPath(s string) string {
	if !localPattern.MatchString(s) || strings.Contains(s, "..") {
		return "/ui"
	}
	return s
}

// logIn starts a session for a key, or for the operator.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	form := loginForm{Next: localPath(r.PostFormValue("next"))}
	refuse := func(status int, why string) {
		form.Error = why
		s.render(w, status, nil, "login", view{Title: "Log in", Data: form})
	}
	if wait := s.attempts.Take(s.o.Now(), attempts.Address(r)); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		refuse(http.StatusTooManyRequests, "Too many attempts from your address: wait a little and try again.")
		return
	}
	n, err := s.sessionFor(r.Context(), strings.TrimSpace(r.PostFormValue("secret")), attempts.Address(r))
	if err != nil {
		f := fault.From(err)
		if known, ok := errors.AsType[*fault.Fault](err); ok {
			f = known
		}
		refuse(f.HTTPStatus(), sentence(f.Public))
		return
	}
	s.sessions.end(tokenOf(r))
	setCookie(w, r, s.sessions.begin(s.o.Now(), n))
	http.Redirect(w, r, form.Next, http.StatusSeeOther)
}

// sentence capitalises a message and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// errSharedKey is the fault of a key that others may know.
var errSharedKey = fault.New(fault.KeyRestricted, "this key is publishable or bound to a session: others may have it, so it shows nothing here; log in with a key of the account", nil)

// sessionFor authenticates a secret, and returns its session.
func (s *Server) sessionFor(ctx context.Context, secret string, client netip.Addr) (session, error) {
	if s.o.Operator != nil && s.o.Operator(secret) {
		return session{operator: true, token: secret}, nil
	}
	h := header.List{{Name: "x-api-key", Value: secret}}
	if !auth.IsKey(h) {
		return session{}, fault.New(fault.InvalidAPIKey, "this is neither an API key of this gateway nor the operator's token", nil)
	}
	p, ok, err := s.o.Keys.Verify(ctx, auth.Request{Header: h, Client: client})
	switch {
	case err != nil:
		return session{}, err
	case !ok || p.Account == "":
		return session{}, fault.New(fault.InvalidAPIKey, "the API key is not valid", nil)
	case p.Publishable || p.Session != "":
		return session{}, errSharedKey
	}
	row, ok, err := s.o.Books.Key(ctx, p.Account)
	if err != nil || !ok {
		return session{}, fault.New(fault.Unavailable, "the keys cannot be read at the moment", err)
	}
	return session{key: p.Account, hash: row.Hash}, nil
}

// logOut ends the session.
func (s *Server) logOut(w http.ResponseWriter, r *http.Request, v *viewer) error {
	s.sessions.end(v.token)
	setCookie(w, r, "")
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
	return nil
}
