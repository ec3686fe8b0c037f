package main

import (
	"errors"
	"sync"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
)

// configStatus says which configuration is in force, and why the last file that was read is not.
type configStatus struct {
	File     string         `json:"file"`    // "" is the built-in one
	Version  string         `json:"version"` // beginning of the file's SHA-256
	Since    time.Time      `json:"since"`
	Failure  *configFailure `json:"failure,omitempty"`
	Refusals []xds.Refusal  `json:"refused_by,omitempty"` // Envoys that keep the configuration before

	// Waiting are providers that the Envoy of this sidecar does not have yet: until then requests are served by the configuration before.
	Waiting []policy.ProviderID `json:"waiting_for,omitempty"`
}

// configFailure is why a file is not in force.
type configFailure struct {
	Version string     `json:"version"`
	Reason  string     `json:"reason"`
	At      time.Time  `json:"at"`
	Retry   *time.Time `json:"retry_at,omitempty"` // null: when the file changes, or on a command
}

// problem is why this status is not as it should be; "" if it is.
func (s configStatus) problem() string {
	if s.Failure != nil {
		return "the last reload failed: " + s.Failure.Reason
	}
	if len(s.Waiting) > 0 {
		return "waiting until Envoy has the providers " + listed(s.Waiting)
	}
	var errs []error
	for _, r := range s.Refusals {
		errs = append(errs, errors.New("envoy "+r.Node+" refused the configuration: "+r.Reason))
	}
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	return ""
}

// configState keeps a configStatus. Safe for concurrent use.
type configState struct {
	mu       sync.Mutex
	now      configStatus
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
	s.now.Failure = &configFailure{Version: version, Reason: err.Error(), At: at}
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

func (s *configState) status() configStatus {
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
func (g *gateway) configStatus() configStatus {
	s := g.conf.status()
	if g.control {
		s.Refusals = g.server.Refusals()
	}
	return s
}
