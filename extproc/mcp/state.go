package mcp

import (
	"context"
	"sync"
	"time"

	"bardo.money/gateway/internal/guard"
)

// State is whether a server answers.
type State struct {
	Server string `json:"server"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // what is wrong; also of a server that is being asked for the first time
}

// Asking is the detail of a server that is being asked for the first time.
const Asking = "it is being asked"

// stateAge is how long a server's state is shown before it is asked again.
const stateAge = 15 * time.Second

// known is what is known of one server's state.
type known struct {
	mu    sync.Mutex
	done  chan struct{} // of the question under way; nil: none
	at    time.Time     // of state; zero: there is none yet
	state State
}

// States returns whether the servers answer. Those that were not asked for a while are asked now: whether they open a session. States waits for them for
// patience at most, and returns what was known of those that take longer. secret is that of the egress listener.
func (g *Gateway) States(servers []Server, secret string, patience time.Duration) []State {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	asked := make([]*known, len(servers))
	for i := range servers {
		v, _ := g.states.LoadOrStore(servers[i].Key, &known{})
		asked[i] = v.(*known) //nolint:forcetypeassert // the only type there
		g.ask(asked[i], &servers[i], secret)
	}
	out := make([]State, len(servers))
	over := false
	for i, s := range asked {
		s.mu.Lock()
		done := s.done
		s.mu.Unlock()
		if done != nil && !over {
			select {
			case <-done:
			case <-wait.C:
				over = true
			}
		}
		s.mu.Lock()
		if out[i] = s.state; s.at.IsZero() {
			out[i] = State{servers[i].Name, true, Asking}
		}
		s.mu.Unlock()
	}
	return out
}

// ask asks a server, unless that is under way or was done a short time ago.
func (g *Gateway) ask(s *known, server *Server, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil || !s.at.IsZero() && time.Since(s.at) < stateAge {
		return
	}
	done := make(chan struct{})
	s.done = done
	guard.Go(func() {
		state := State{server.Name, false, failure{why: badAnswer}.describe(server.Name)} // of a panic
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.state, s.at, s.done = state, time.Now(), nil
			close(done)
		}()
		state = g.stateOf(server, secret)
	})
}

// stateOf opens a session at a server, and ends it.
func (g *Gateway) stateOf(server *Server, secret string) State {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	k := &call{Gateway: g, caller: &Caller{Request: "state", Secret: secret}, server: server}
	began := time.Now()
	l, err := k.open(ctx)
	k.measure("initialize", began, err)
	if err != nil {
		return State{server.Name, false, k.failed502(err).message}
	}
	if l.session != "" {
		k.end(ctx, l)
	}
	return State{Server: server.Name, OK: true}
}
