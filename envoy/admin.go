package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Admin calls an Envoy over its admin socket. Safe for concurrent use.
type Admin struct {
	socket string
	client *http.Client
}

// NewAdmin returns the admin interface of a Unix socket. It makes no call yet.
func NewAdmin(socket string) Admin {
	var d net.Dialer
	return Admin{socket: socket, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // the process behind the socket may be restarted
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// AdminSocket returns the path of the socket.
func (a Admin) AdminSocket() string { return a.socket }

// Alive returns nil if Envoy answers; it may still wait for its configuration.
func (a Admin) Alive(ctx context.Context) error {
	_, err := a.call(ctx, http.MethodGet, "/server_info")
	return err
}

// Ready waits until Envoy has its configuration and serves, or until ctx is done.
func (a Admin) Ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := a.call(ctx, http.MethodGet, "/ready")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("envoy is not ready: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// Drain makes Envoy fail its health check, and close clients' connections after their next answers. Requests in flight continue, and so do the
// sidecar's own calls.
func (a Admin) Drain(ctx context.Context) error {
	_, failing := a.call(ctx, http.MethodPost, "/healthcheck/fail")
	_, draining := a.call(ctx, http.MethodPost, "/drain_listeners?graceful&skip_exit&inboundonly")
	return errors.Join(failing, draining)
}

// idlePoll is the polling interval of Idle.
const idlePoll = 50 * time.Millisecond

// Idle waits until the connection managers with these prefixes have no request in flight and nothing left to send: a complete answer may still be
// buffered in Envoy for a client that reads slowly. The error is the context's, or Envoy's.
func (a Admin) Idle(ctx context.Context, managers ...string) error {
	filter := `^http\.(` + strings.Join(managers, "|") + `)\.downstream_(rq_active|cx_tx_bytes_buffered)$`
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	for {
		body, err := a.call(ctx, http.MethodGet, "/stats?filter="+url.QueryEscape(filter))
		if err != nil {
			return err
		}
		if !busy(string(body)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// busy reports whether any of the statistics, "name: value" a line, is not zero.
func busy(stats string) bool {
	for line := range strings.Lines(stats) {
		if _, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && value != "0" {
			return true
		}
	}
	return false
}

// Stats writes Envoy's statistics in Prometheus' text format.
func (a Admin) Stats(ctx context.Context, w io.Writer) error {
	body, err := a.call(ctx, http.MethodGet, "/stats/prometheus?usedonly")
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// Addresses returns the actual address of each listener, by its name: host:port, or the path of a socket.
func (a Admin) Addresses(ctx context.Context) (map[string]string, error) {
	body, err := a.call(ctx, http.MethodGet, "/listeners?format=json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Statuses []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
				Pipe struct {
					Path string `json:"path"`
				} `json:"pipe"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("envoy's listeners: %w", err)
	}
	out := make(map[string]string, len(list.Statuses))
	for _, l := range list.Statuses {
		out[l.Name] = l.Address.Pipe.Path
		if s := l.Address.Socket; s.Port != 0 {
			out[l.Name] = net.JoinHostPort(s.Address, strconv.Itoa(s.Port))
		}
	}
	return out, nil
}

// maxAdminAnswer limits one answer: statistics of many clusters are several megabytes.
const maxAdminAnswer = 64 << 20

func (a Admin) call(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("envoy admin: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return nil, fmt.Errorf("envoy admin %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("envoy admin %s: %s: %.200s", path, resp.Status, body)
	}
	return body, nil
}
