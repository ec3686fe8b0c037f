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

// handleConfig serves the state of the configuration, and reloads.
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

// reloadNow triggers a reload of the configuration file and returns its outcome.
func (c *configuration) reloadNow(ctx context.Context, problems io.Writer) error {
	done := make(chan error, 1)
	select {
	case c.reloads <- reloadRequest{problems, done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-done
}

// configState holds a control.ConfigStatus. Safe for concurrent use.
type configState struct {
	mu       sync.Mutex
	now      control.ConfigStatus
	failures int // consecutive rejections by Envoy
}

// setReloaded records that a configuration is in force.
func (s *configState) setReloaded(version string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Version, s.now.Since, s.now.Failure = version, at, nil
}

// setFailed records that a configuration could not be put in force.
func (s *configState) setFailed(version string, err error, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Failure = &control.ConfigFailure{Version: version, Reason: err.Error(), At: at}
}

// setWaiting records the providers that the configuration in force waits for; nil: none.
func (s *configState) setWaiting(providers []policy.ProviderID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Waiting = providers
}

const (
	firstReloadRetry = 2 * time.Second // after Envoy rejected a configuration; doubled each time
	maxReloadRetry   = 5 * time.Minute
)

// retryAfter returns when to read a file again that Envoy rejected, since the cause may be outside of the file. ok is false if there is no need to.
func (s *configState) retryAfter(err error, now time.Time) (wait time.Duration, ok bool) {
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

// set replaces the state with that of the program that reads the configuration.
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

// configStatus returns the state of this process's configuration.
func (g *gateway) configStatus() control.ConfigStatus {
	s := g.conf.status()
	if g.control {
		s.Refusals = g.server.Refusals()
	}
	s.AtStart = g.atStart()
	return s
}

// atStart are the keys whose values in the configuration in force take effect only at the next start.
func (g *gateway) atStart() []string {
	if g.startConfig == nil {
		return nil
	}
	return config.AtStart(g.startConfig, g.cfg.Load())
}
