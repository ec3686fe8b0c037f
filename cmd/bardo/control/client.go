// Package control is the client of a running gateway's control socket for the program's own commands: the calls, and the JSON of both sides. Package run serves
// the socket.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"bardo.money/gateway/cmd/bardo/home"
)

// Part is a running process of a gateway on this state directory.
type Part struct {
	Name string
	home.RunInfo
}

// Parts returns the running processes that have a configuration: a gateway or sidecar, and a control plane that runs alone.
func Parts(ctx context.Context, h home.Dir) ([]Part, error) {
	var out []Part
	for _, p := range []Part{{Name: "control plane"}, {Name: "gateway"}} {
		file := home.RunFile
		if p.Name == "control plane" {
			file = home.PlaneFile
		}
		var ok bool
		if p.RunInfo, ok = h.AnsweringAs(ctx, file); ok {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no gateway runs on %s: start one, or set BARDO_HOME to the directory of the one that runs", h)
	}
	return out, nil
}

// Client returns an HTTP client of a control socket.
func Client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
}

// Do sends a request to the running gateway and decodes its answer into out.
func Do(ctx context.Context, h home.Dir, method, path string, out any) error {
	r, err := h.Running()
	if err != nil {
		return fmt.Errorf("no gateway runs on %s%s", h, NotRunningAdvice(ctx, h))
	}
	return DoAt(ctx, h, r, method, path, out)
}

// NotRunningAdvice is the advice if no gateway runs.
func NotRunningAdvice(ctx context.Context, h home.Dir) string {
	if _, ok := h.AnsweringAs(ctx, home.PlaneFile); ok {
		return ", only a control plane: ask beside a sidecar"
	}
	return ": start one, or set BARDO_HOME to the directory of the one that runs"
}

// DoAtPlane sends a request to the process that owns the provider order: a control plane that runs alone on this state directory, else the gateway.
func DoAtPlane(ctx context.Context, h home.Dir, method, path string, out any) error {
	if r, ok := h.AnsweringAs(ctx, home.PlaneFile); ok {
		return DoAt(ctx, h, r, method, path, out)
	}
	return Do(ctx, h, method, path, out)
}

// DoAt is Do for a process with known run information. An error answer is returned with the gateway's message.
func DoAt(ctx context.Context, h home.Dir, r home.RunInfo, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://control"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := Client(r.Control).Do(req)
	if err != nil {
		return fmt.Errorf("no gateway answers on %s: %w", h, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var e struct{ Error string }
		if json.Unmarshal(body, &e) == nil && e.Error != "" {
			return errors.New(e.Error)
		}
		return fmt.Errorf("the gateway answered %s", resp.Status)
	}
	return json.Unmarshal(body, out)
}
