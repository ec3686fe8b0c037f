package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// Limits of sessions. Those of one key are limited separately, so that it cannot end the sessions of others.
const (
	sessionLife = 12 * time.Hour
	sessionIdle = 2 * time.Hour
	maxSessions = 4096
	maxPerKey   = 16
)

// cookieName is the name of the session cookie.
const cookieName = "bardo_ui"

// session is one login.
type session struct {
	operator bool
	token    string         // the operator's token at login: the session ends when it changes
	key      policy.Account // "" for the operator
	hash     string         // of the key's secret at login: the session ends when it changes
	csrf     string
	began    time.Time
	used     time.Time
}

// digest is the hash of a session's token: the token itself is not stored.
type digest [sha256.Size]byte

// sessions are the active sessions, in memory only: a logout is final, and a restart logs everybody out. The zero value is empty. Safe for concurrent use.
type sessions struct {
	mu  sync.Mutex
	all map[digest]*session
}

// begin stores a session and returns its token.
func (s *sessions) begin(now time.Time, n session) (token string) {
	token = rand.Text()
	n.csrf, n.began, n.used = rand.Text(), now, now
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[digest]*session{}
	}
	s.dropExpired(now)
	same := func(o *session) bool { return o.operator == n.operator && o.key == n.key }
	s.dropOldest(maxPerKey-1, same)
	s.dropOldest(maxSessions-1, func(*session) bool { return true })
	s.all[sha256.Sum256([]byte(token))] = &n
	return token
}

func (n *session) expired(now time.Time) bool {
	return now.Sub(n.began) >= sessionLife || now.Sub(n.used) >= sessionIdle
}

func (s *sessions) dropExpired(now time.Time) {
	for d, n := range s.all {
		if n.expired(now) {
			delete(s.all, d)
		}
	}
}

// dropOldest removes the least recently used of the matching sessions, down to limit.
func (s *sessions) dropOldest(limit int, matches func(*session) bool) {
	for {
		count, oldest := 0, digest{}
		var at time.Time
		for d, n := range s.all {
			if !matches(n) {
				continue
			}
			if count++; count == 1 || n.used.Before(at) {
				oldest, at = d, n.used
			}
		}
		if count <= limit {
			return
		}
		delete(s.all, oldest)
	}
}

// find returns the session of a token; ok is false if there is none or it has expired.
func (s *sessions) find(now time.Time, token string) (n session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := sha256.Sum256([]byte(token))
	found := s.all[d]
	if found == nil {
		return session{}, false
	}
	if found.expired(now) {
		delete(s.all, d)
		return session{}, false
	}
	found.used = now
	return *found, true
}

// end ends the session of a token.
func (s *sessions) end(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(token)))
}

// tokenOf is the session token of a request; "" for none.
func tokenOf(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets the session cookie; "" deletes it. Envoy overwrites X-Forwarded-Proto, which says whether the connection is encrypted.
func setCookie(w http.ResponseWriter, r *http.Request, token string) {
	c := &http.Cookie{ //nolint:gosec // over plain HTTP, as used on the own machine, a Secure cookie would not be returned
		Name: cookieName, Value: token, Path: "/ui", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife.Seconds()),
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
