package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/header"
)

// NewEgressClient returns the HTTP client for calls that the gateway makes itself: every connection goes to Envoy's egress socket.
func NewEgressClient(socket string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
			DisableCompression:  true,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 1024, // all providers share one host here
			IdleConnTimeout:     60 * time.Second,
			ReadBufferSize:      16 << 10, // net/http refuses trailers that exceed it, and an enclave's receipt may come in one
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ErrTotalTimeout is the cause of a context whose request has used up its total time.
var ErrTotalTimeout = errors.New("the request's total time is over")

// CloseBody closes an answer's body; resp may be nil.
func CloseBody(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// HeaderList returns net/http's header map as a list, with names in lower case.
func HeaderList(h http.Header) header.List {
	out := make(header.List, 0, len(h))
	for k, vs := range h {
		for _, v := range vs {
			out = append(out, header.Field{Name: strings.ToLower(k), Value: v})
		}
	}
	return out
}

// RetryAfter parses a Retry-After in seconds; it returns 0 for the other form, which a decoder parses because it sees all headers.
func RetryAfter(s string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}
