package control

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
)

// ErrMistakes means that a configuration file is invalid.
var ErrMistakes = errors.New("the file has mistakes")

// ReloadOutcome is the answer to a reload command.
type ReloadOutcome struct {
	Error    string       `json:"error,omitempty"`
	Problems string       `json:"problems,omitempty"` // mistakes in the file, a line each
	Status   ConfigStatus `json:"status"`
}

// RefusedByEnvoy is why a running gateway does not have a valid file in force; "" if it does, or if none runs with this file.
func RefusedByEnvoy(ctx context.Context, h home.Dir, path string) string {
	parts, err := Parts(ctx, h)
	if err != nil {
		return ""
	}
	data, err := settings.Read(path)
	if err != nil {
		return ""
	}
	for _, p := range parts {
		var s ConfigStatus
		if p.Config != path || DoAt(ctx, h, p.RunInfo, http.MethodGet, "/config", &s) != nil {
			continue
		}
		version := s.Version
		if s.Failure != nil {
			version = s.Failure.Version
		}
		if version == settings.Digest(data) && s.Problem() != "" {
			return s.Problem()
		}
	}
	return ""
}

// WaitingForStart are the keys of a file whose values take effect at the running gateway's next start; none if none runs with this file.
func WaitingForStart(ctx context.Context, h home.Dir, path string) (keys []string) {
	parts, err := Parts(ctx, h)
	if err != nil {
		return nil
	}
	for _, p := range parts {
		var s ConfigStatus
		if p.Config != path || DoAt(ctx, h, p.RunInfo, http.MethodGet, "/config", &s) != nil {
			continue
		}
		for _, key := range s.AtStart {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// ConfigStatus is which configuration is in force, and why the last file that was read is not.
type ConfigStatus struct {
	File     string         `json:"file"`    // "" is the built-in one
	Version  string         `json:"version"` // a prefix of the file's SHA-256
	Since    time.Time      `json:"since"`
	Failure  *ConfigFailure `json:"failure,omitempty"`
	Refusals []xds.Refusal  `json:"refused_by,omitempty"` // Envoys that keep the previous configuration

	AtStart []string `json:"at_next_start,omitempty"` // keys whose values in the file take effect at the next start

	// Waiting are providers that this sidecar's Envoy lacks: until it has them, requests are served with the previous configuration.
	Waiting []policy.ProviderID `json:"waiting_for,omitempty"`
}

// ConfigFailure is why a file is not in force.
type ConfigFailure struct {
	Version string     `json:"version"`
	Reason  string     `json:"reason"`
	At      time.Time  `json:"at"`
	Retry   *time.Time `json:"retry_at,omitempty"` // null: when the file changes, or on a command
}

// Problem describes what is wrong; "" if nothing is.
func (s ConfigStatus) Problem() string {
	if s.Failure != nil {
		return "the last reload failed: " + s.Failure.Reason
	}
	if len(s.Waiting) > 0 {
		return "waiting until Envoy has the providers " + cli.List(s.Waiting)
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
