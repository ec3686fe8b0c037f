package mcp

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/policy"
)

// sessions is a server that counts its sessions.
type sessions struct {
	mu     sync.Mutex
	opened int
	ended  []string
	wait   time.Duration // that the end of a session takes
}

// answer is a transport.
func (s *sessions) answer(r *http.Request, body string) (int, string, string) {
	if r.Method == http.MethodDelete {
		if r.Header.Get("Authorization") != "Bearer t-one" {
			return http.StatusUnauthorized, "", ""
		}
		s.mu.Lock()
		s.ended = append(s.ended, r.Header.Get(headerSession))
		s.mu.Unlock()
		time.Sleep(s.wait) //nolint:forbidigo // of the bubble's clock
		return http.StatusNoContent, "", ""
	}
	status, header, answer := handshake(nil)(r, body)
	if header != "" {
		s.mu.Lock()
		s.opened++
		header = headerSession + ": " + strconv.Itoa(s.opened)
		s.mu.Unlock()
	}
	return status, header, answer
}

// open opens a session at the server for a new session of an account.
func (s *sessions) open(t *testing.T, g *Gateway, account policy.Account) {
	t.Helper()
	c := caller("one")
	c.Account = account
	n, _ := g.session(account, g.newSession(account))
	if _, err := (&call{g, c, &c.Servers[0], n}).link(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestASessionThatIsDroppedIsEndedAtItsServer, which the request that needs its place does not wait for.
func TestASessionThatIsDroppedIsEndedAtItsServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
		s := &sessions{wait: time.Second}
		g := newGateway(s.answer)
		began := time.Now()
		for range maxLinks + 3 {
			s.open(t, g, "a")
		}
		synctest.Wait()
		if s.mu.Lock(); len(s.ended) != 3 || time.Since(began) > 0 {
			t.Errorf("%v are ended after %s", s.ended, time.Since(began))
		}
		s.mu.Unlock()
		for _, n := range s.ended {
			if n != "1" && n != "2" && n != "3" {
				t.Errorf("session %s is ended", n)
			}
		}
	})
}

// TestTheSessionsOfAnAccountThatIsDroppedAreEnded, except those that calls use; at most maxEnding at the same time.
func TestTheSessionsOfAnAccountThatIsDroppedAreEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
		s := &sessions{wait: time.Second}
		g := newGateway(s.answer)
		for i := range 2 {
			for range 200 {
				s.open(t, g, policy.Account(strconv.Itoa(i)))
			}
		}
		all, _ := g.accounts.Peek("0")
		for i, l := range all.Values() {
			if i < 10 {
				l.calls.Add(1)
			}
		}
		for i := range maxAccounts {
			g.linksOf(policy.Account("n" + strconv.Itoa(i)))
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ended) != maxEnding {
			t.Errorf("%d sessions are ended at the same time", len(s.ended))
		}
		for _, id := range s.ended {
			if n, _ := strconv.Atoi(id); n <= 10 {
				t.Errorf("session %s is ended, though a call uses it", id)
			}
		}
	})
}

// TestASessionThatIsOverIsNotEndedAgain: the server has lost it, or the client has ended it.
func TestASessionThatIsOverIsNotEndedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sessions{}
		g := newGateway(s.answer)
		c := caller("one")
		k := &call{g, c, &c.Servers[0], nonce{1}}
		for range 2 {
			l, err := k.link(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			k.forget(l)
		}
		if _, err := k.link(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.endLinks(t.Context(), c, k.session)
		synctest.Wait()
		if len(s.ended) != 1 || s.ended[0] != "3" {
			t.Errorf("the sessions %v are ended", s.ended)
		}
	})
}

// TestAReloadForgetsServersThatAreGone, and what was known about one with another address or credential.
func TestAReloadForgetsServersThatAreGone(t *testing.T) {
	t.Parallel()
	g, kept, gone := newGateway(nil), Server{Key: "kept"}, Server{Key: "gone"}
	for _, s := range []*Server{&kept, &gone} {
		g.failed.Store(s.Key, time.Now())
		g.tools.Store(s.Key, map[string]bool{"t": true})
	}
	g.Keep([]Server{kept})
	for s, want := range map[*Server]bool{&kept: true, &gone: false} {
		if k := (&call{Gateway: g, server: s}); g.isPaused(s) != want || k.knows("t") != want {
			t.Errorf("%s: %v %v", s.Key, g.isPaused(s), k.knows("t"))
		}
	}
}
