// Package ui is the dashboard at /ui: HTML pages that the gateway renders itself, with a small script for live updates. All assets are embedded; no page names
// another host. Package extproc routes requests to it; access is decided here (viewer.go). It shows no content of requests, since the gateway stores none.
package ui

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/attempts"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// Options configure the dashboard. All but Operator, Now and Draining are required.
type Options struct {
	Books     *ledger.Ledger
	Keys      auth.Verifier                                                                                   // of API keys, which users log in with
	CreateKey func(ctx context.Context, k ledger.KeyRow, opening policy.Micro) (id, secret string, err error) // creates a key from a row without id and hash
	Local     func() *api.Server                                                                              // the gateway's own endpoints
	Finished  *event.Feed[record.Finished]
	Providers func() []control.Provider
	Switch    func(ctx context.Context, provider, verb string) error // "enable" or "disable"
	Load      func() (live int64, served uint64)
	Checked   func() bool // reports whether answers of subsystems are validated against their schemas
	Log       *slog.Logger

	Operator func(token string) bool // reports whether a token is the operator's; nil: there is none
	Draining func() bool             // ends open streams; nil: never
	Now      func() time.Time        // nil: time.Now
}

// Server serves the pages. Safe for concurrent use.
type Server struct {
	o        Options
	sessions sessions
	attempts attempts.Limiter // login attempts
	streams  streams
	handler  http.Handler
}

// New creates a dashboard.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	s := &Server{o: o}
	s.handler = headers(http.NewCrossOriginProtection().Handler(s.routes()))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/assets/{name}", serveAsset)
	mux.HandleFunc("GET /ui/login", s.showLogin)
	mux.HandleFunc("POST /ui/login", s.logIn)
	mux.HandleFunc("GET /venice", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ui/privacy", http.StatusSeeOther) })
	for pattern, page := range map[string]page{
		"GET /ui":               s.overview,
		"GET /ui/live":          s.live,
		"GET /ui/live/events":   s.liveEvents,
		"GET /ui/requests":      s.requests,
		"GET /ui/requests/{id}": s.explain,
		"GET /ui/providers":     s.providers,
		"GET /ui/cache":         s.caches,
		"GET /ui/keys":          s.keys,
		"GET /ui/privacy":       s.privacy,
		"GET /ui/playground":    s.playground,

		"GET /ui/playground/records/{id}": s.recordStatus,
	} {
		mux.Handle(pattern, s.withViewer(page))
	}
	for pattern, change := range map[string]page{
		"POST /ui/logout":                  s.logOut,
		"POST /ui/providers/{name}/{verb}": operatorOnly(s.switchProvider),
		"POST /ui/cache/delete":            s.deleteCached,
		"POST /ui/keys":                    operatorOnly(s.createKey),
		"POST /ui/keys/{id}/revoke":        operatorOnly(s.revokeKey),
		"POST /ui/keys/{id}/limits":        operatorOnly(s.limitKey),
	} {
		mux.Handle(pattern, s.withViewer(requireCSRF(change)))
	}
	mux.Handle("/", s.withViewer(func(http.ResponseWriter, *http.Request, *viewer) error {
		return fault.New(fault.NotFound, "There is no such page.", nil)
	}))
	return mux
}

// page handles a request of a logged-in viewer. If it returns an error, it has not written an answer.
type page func(w http.ResponseWriter, r *http.Request, v *viewer) error

// withViewer redirects to the login page if there is no session.
func (s *Server) withViewer(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := s.viewer(r)
		switch {
		case err == nil:
			err = p(w, r, v)
		case !errors.Is(err, errLoggedOut):
		case strings.HasSuffix(r.URL.Path, "/events"):
			w.WriteHeader(http.StatusUnauthorized)
			return
		default:
			s.sendToLogin(w, r)
			return
		}
		if err != nil && r.Context().Err() == nil {
			s.fail(w, r, v, err)
		}
	})
}

// operatorOnly refuses viewers that logged in with a key.
func operatorOnly(p page) page {
	return func(w http.ResponseWriter, r *http.Request, v *viewer) error {
		if !v.Operator {
			return fault.New(fault.KeyRestricted, "Only the operator may do this: log in with the operator's token.", nil)
		}
		return p(w, r, v)
	}
}

// fail shows an error. Internal errors are logged, and their cause is not shown.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, v *viewer, err error) {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok {
		f = fault.From(err)
	}
	if f.HTTPStatus() >= http.StatusInternalServerError {
		s.o.Log.Error("a page of the dashboard failed", "page", r.Pattern, "error", err)
	}
	s.render(w, f.HTTPStatus(), v, "error", view{Title: cmp.Or(http.StatusText(f.HTTPStatus()), "Error"), Data: f.Public})
}

// headers sets security headers on every answer: pages run no script or style but the dashboard's files, and send nothing elsewhere.
func headers(h http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := w.Header().Set
		set("Content-Security-Policy", policy)
		set("X-Content-Type-Options", "nosniff")
		set("X-Frame-Options", "DENY")
		set("Referrer-Policy", "no-referrer")
		set("Cross-Origin-Opener-Policy", "same-origin")
		set("Cross-Origin-Resource-Policy", "same-origin")
		set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}
