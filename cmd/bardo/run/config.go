package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// handleConfig serves the state of the configuration, and reloads it.
func (g *gateway) handleConfig(mux *http.ServeMux) {
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, g.configStatus()) })
	mux.HandleFunc("POST /config/reload", func(w http.ResponseWriter, r *http.Request) {
		var problems bytes.Buffer
		err := g.reloadNow(r.Context(), &problems)
		out := control.ReloadOutcome{Problems: problems.String(), Status: g.configStatus()}
		if err != nil {
			out.Error = err.Error()
		}
		writeJSON(w, http.StatusOK, out)
	})
}

// reloadNow has the configuration file read, and waits for the outcome.
func (c *configuration) reloadNow(ctx context.Context, problems io.Writer) error {
	done := make(chan error, 1)
	select {
	case c.reloads <- reloadRequest{problems, done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-done
}

// configState keeps a control.ConfigStatus. Safe for concurrent use.
type configState struct {
	mu       sync.Mutex
	now      control.ConfigStatus
	failures int // of Envoy, in a row
}

// reloaded notes a configuration that is in force.
func (s *configState) reloaded(version string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Version, s.now.Since, s.now.Failure = version, at, nil
}

// notReloaded notes one that is not.
func (s *configState) notReloaded(version string, err error, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Failure = &control.ConfigFailure{Version: version, Reason: err.Error(), At: at}
}

// waitFor notes what the configuration in force waits for; nothing ends the wait.
func (s *configState) waitFor(providers []policy.ProviderID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Waiting = providers
}

const (
	firstReloadRetry = 2 * time.Second // after Envoy refused a configuration; doubled each time
	maxReloadRetry   = 5 * time.Minute
)

// failed says when to read again a file that Envoy refused: the cause may be outside of the file. ok is false if there is no need to.
func (s *configState) failed(err error, now time.Time) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.As(err, new(notApplied)) {
		s.failures = 0
		return 0, false
	}
	wait = min(firstReloadRetry<<min(s.failures, 20), maxReloadRetry)
	s.failures++
	if s.now.Failure != nil {
		at := now.Add(wait)
		s.now.Failure.Retry = &at
	}
	return wait, true
}

// set replaces the state by what the program that reads the configuration says.
func (s *configState) set(data []byte) error {
	var now control.ConfigStatus
	if err := json.Unmarshal(data, &now); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	return nil
}

func (s *configState) status() control.ConfigStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.now
	if out.Failure != nil {
		f := *out.Failure
		out.Failure = &f
	}
	return out
}

// configStatus is the state of this process's configuration.
func (g *gateway) configStatus() control.ConfigStatus {
	s := g.conf.status()
	if g.control {
		s.Refusals = g.server.Refusals()
	}
	s.AtStart = g.atStart()
	return s
}

// atStart are the keys of the configuration in force whose values take effect at the next start.
func (g *gateway) atStart() []string {
	if g.startedWith == nil {
		return nil
	}
	return config.AtStart(g.startedWith, g.cfg.Load())
}
