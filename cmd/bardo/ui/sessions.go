package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// How long one stays logged in, and how many may be at the same time. Of one key only so many are: it must not end the sessions of others.
const (
	sessionLife = 12 * time.Hour
	sessionIdle = 2 * time.Hour
	maxSessions = 4096
	maxPerKey   = 16
)

// cookieName is that of the cookie with a session's token.
const cookieName = "bardo_ui"

// session is one log-in.
type session struct {
	operator bool
	token    string         // of the operator, that logged in: another one in force ends the session
	key      policy.Account // that logged in
	hash     string         // of the key's secret then: another secret ends the session
	csrf     string
	began    time.Time
	used     time.Time
}

// digest is what the store knows of a token.
type digest [sha256.Size]byte

// sessions are in memory alone: who logs out is out, and a restart logs everybody out. The zero value is empty. Safe for concurrent use.
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
	s.dropOver(now)
	same := func(o *session) bool { return o.operator == n.operator && o.key == n.key }
	s.dropOldest(maxPerKey-1, same)
	s.dropOldest(maxSessions-1, func(*session) bool { return true })
	s.all[sha256.Sum256([]byte(token))] = &n
	return token
}

func (n *session) over(now time.Time) bool {
	return now.Sub(n.began) >= sessionLife || now.Sub(n.used) >= sessionIdle
}

func (s *sessions) dropOver(now time.Time) {
	for d, n := range s.all {
		if n.over(now) {
			delete(s.all, d)
		}
	}
}

// dropOldest leaves at most so many of some sessions, those that were used last.
func (s *sessions) dropOldest(most int, these func(*session) bool) {
	for {
		count, oldest := 0, digest{}
		var at time.Time
		for d, n := range s.all {
			if !these(n) {
				continue
			}
			if count++; count == 1 || n.used.Before(at) {
				oldest, at = d, n.used
			}
		}
		if count <= most {
			return
		}
		delete(s.all, oldest)
	}
}

// find is the session of a token; ok is false when it is over.
func (s *sessions) find(now time.Time, token string) (n session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := sha256.Sum256([]byte(token))
	found := s.all[d]
	if found == nil {
		return session{}, false
	}
	if found.over(now) {
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

// tokenOf is the token that a request carries; "" for none.
func tokenOf(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie gives a browser its token; "" takes it away. Envoy overwrites the header that says whether the connection is encrypted.
func setCookie(w http.ResponseWriter, r *http.Request, token string) {
	c := &http.Cookie{ //nolint:gosec // over plain HTTP, which people use on their own machine, a Secure cookie would not come back
		Name: cookieName, Value: token, Path: "/ui", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife.Seconds()),
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
