package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// reloadOutcome answers a command's reload.
type reloadOutcome struct {
	Error    string       `json:"error,omitempty"`
	Problems string       `json:"problems,omitempty"` // mistakes in the file, a line each
	Status   configStatus `json:"status"`
}

// handleConfig serves the state of the configuration, and reloads it.
func (g *gateway) handleConfig(mux *http.ServeMux) {
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, g.configStatus()) })
	mux.HandleFunc("POST /config/reload", func(w http.ResponseWriter, r *http.Request) {
		var problems bytes.Buffer
		err := g.reloadNow(r.Context(), &problems)
		out := reloadOutcome{Problems: problems.String(), Status: g.configStatus()}
		if err != nil {
			out.Error = err.Error()
		}
		writeJSON(w, http.StatusOK, out)
	})
}

// reloadNow has the configuration file read, and waits for the outcome.
func (g *gateway) reloadNow(ctx context.Context, problems io.Writer) error {
	done := make(chan error, 1)
	select {
	case g.reloads <- reloadRequest{problems, done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-done
}

// part is a process of a gateway that runs on this state.
type part struct {
	name string
	runInfo
}

// partsRunning are the processes that have a configuration of their own: a gateway or sidecar, and a control plane that runs alone.
func (h home) partsRunning(ctx context.Context) ([]part, error) {
	var out []part
	for _, p := range []part{{name: "control plane"}, {name: "gateway"}} {
		file := runFile
		if p.name == "control plane" {
			file = planeFile
		}
		var ok bool
		if p.runInfo, ok = h.answeringAs(ctx, file); ok {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no gateway runs on %s: start one, or set BARDO_HOME to the directory of the one that runs", h)
	}
	return out, nil
}

func configReloadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Args: noArgs,
		Short: "Have the running gateway read its configuration file now: exit status 1 if it is not in force everywhere, 2 if it has mistakes",
		RunE: func(c *cobra.Command, _ []string) error {
			return eachPart(c, func(p part, h home) error {
				var out reloadOutcome
				if err := ask(c.Context(), h, p.runInfo, http.MethodPost, "/config/reload", &out); err != nil {
					return err
				}
				_, _ = io.WriteString(c.ErrOrStderr(), out.Problems) // nowhere to report a broken terminal to
				switch {
				case out.Error == errMistakes.Error():
					return exitError(2)
				case out.Error != "":
					return fmt.Errorf("%s: the configuration was not reloaded: %s", p.name, out.Error)
				}
				_, err := io.WriteString(c.OutOrStdout(), out.Status.text(p.name))
				return err
			})
		},
	}
}

func configStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Args: noArgs,
		Short: "Say which configuration the running gateway has in force, and why a newer one is not: exit status 1 if so",
	}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		failed := false
		err := eachPart(c, func(p part, h home) error {
			var s configStatus
			if err := ask(c.Context(), h, p.runInfo, http.MethodGet, "/config", &s); err != nil {
				return err
			}
			failed = failed || s.problem() != ""
			if *asJSON {
				return printJSON(c, s)
			}
			_, err := io.WriteString(c.OutOrStdout(), s.text(p.name))
			return err
		})
		if err == nil && failed {
			return exitError(1)
		}
		return err
	}
	return c
}

// eachPart does something with every process that runs on this state.
func eachPart(c *cobra.Command, do func(part, home) error) error {
	h, err := openHome()
	if err != nil {
		return err
	}
	parts, err := h.partsRunning(c.Context())
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range parts {
		errs = append(errs, do(p, h))
	}
	return errors.Join(errs...)
}

func builtIn(file string) string {
	if file == "" {
		return "the built-in configuration"
	}
	return file
}

// text is a status for people.
func (s configStatus) text(part string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, version %s, in force since %s\n", part, builtIn(s.File), s.Version, s.Since.UTC().Format(time.RFC3339))
	if f := s.Failure; f != nil {
		again := "; it is read again when it changes"
		if f.Retry != nil {
			again = "; it is read again at " + f.Retry.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "  version %s was not put in force at %s: %s%s\n", f.Version, f.At.UTC().Format(time.RFC3339), printable(f.Reason), again)
	}
	if len(s.Waiting) > 0 {
		fmt.Fprintf(&b, "  requests are served by the one before until Envoy has the providers %s\n", listed(s.Waiting))
	}
	for _, r := range s.Refusals {
		fmt.Fprintf(&b, "  envoy %s refused it and keeps the one before: %s; it is offered again at %s\n", r.Node, printable(r.Reason), r.Retry.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// refusedByEnvoy is why a running gateway does not have a file in force that passes all checks; "" if it does, or if none runs with this file.
func refusedByEnvoy(ctx context.Context, h home, path string) string {
	parts, err := h.partsRunning(ctx)
	if err != nil {
		return ""
	}
	data, err := readConfig(path)
	if err != nil {
		return ""
	}
	for _, p := range parts {
		var s configStatus
		if p.Config != path || ask(ctx, h, p.runInfo, http.MethodGet, "/config", &s) != nil {
			continue
		}
		version := s.Version
		if s.Failure != nil {
			version = s.Failure.Version
		}
		if version == digest(data) && s.problem() != "" {
			return s.problem()
		}
	}
	return ""
}
