// Package control is the control socket of a running gateway as the program's own commands use it: the calls, and the JSON that both sides
// exchange. Package run serves it.
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

// Part is a process of a gateway that runs on this state.
type Part struct {
	Name string
	home.RunInfo
}

// Parts are the processes that have a configuration of their own: a gateway or sidecar, and a control plane that runs alone.
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

// Client calls a running gateway's control socket.
func Client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
}

// Do asks a running gateway for something, and decodes its answer into out.
func Do(ctx context.Context, h home.Dir, method, path string, out any) error {
	r, err := h.Running()
	if err != nil {
		return fmt.Errorf("no gateway runs on %s%s", h, Instead(ctx, h))
	}
	return DoAt(ctx, h, r, method, path, out)
}

// Instead says what to do where no gateway runs.
func Instead(ctx context.Context, h home.Dir) string {
	if _, ok := h.AnsweringAs(ctx, home.PlaneFile); ok {
		return ", only a control plane: ask beside a sidecar"
	}
	return ": start one, or set BARDO_HOME to the directory of the one that runs"
}

// Decide asks who decides on the order of providers: the control plane that runs alone on this state, or else the gateway.
func Decide(ctx context.Context, h home.Dir, method, path string, out any) error {
	if r, ok := h.AnsweringAs(ctx, home.PlaneFile); ok {
		return DoAt(ctx, h, r, method, path, out)
	}
	return Do(ctx, h, method, path, out)
}

// DoAt is Do with a part of the gateway whose run information is known. A refusal is an error in the words of the gateway.
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
