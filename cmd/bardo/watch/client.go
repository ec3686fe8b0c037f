package watch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy"
)

// maxLine bounds a line of a gateway's stream, in bytes.
const maxLine = 1 << 20

// reconnectInterval is the time between two attempts to reconnect.
const reconnectInterval = 250 * time.Millisecond

// update is one line of the stream, or a disconnection: at most one of its pointers is set.
type update struct {
	raw          []byte // the line; nil for a disconnection
	gateway      *control.GatewayLine
	request      *requestLine
	status       *statusLine
	disconnected *string // the reason of a disconnection
}

// usd is an amount of dollars as a JSON number. Decimals beyond the sixth are truncated.
type usd policy.Micro

// UnmarshalJSON implements json.Unmarshaler.
func (u *usd) UnmarshalJSON(b []byte) error {
	n := 0
	for i, c := range b {
		if c == '.' {
			n = i + 1
		}
	}
	if n > 0 && len(b) > n+6 {
		b = b[:n+6]
	}
	m, err := policy.ParseUSD(string(b))
	*u = usd(m)
	return err
}

func (u usd) String() string { return cli.Dollars(policy.Micro(u)) }

// requestLine is a control.RequestLine as read by a watcher.
type requestLine struct {
	ID             string    `json:"id"`
	At             time.Time `json:"at"`
	Account        string    `json:"account"`
	Operation      string    `json:"operation"`
	Dialect        string    `json:"dialect"`
	Stream         bool      `json:"stream"`
	RequestedModel string    `json:"requested_model"`
	Model          string    `json:"model"`
	Provider       string    `json:"provider"`
	Attempts       []struct {
		Provider string `json:"provider"`
		Outcome  string `json:"outcome"`
	} `json:"attempt_log"`
	Status       int    `json:"status"`
	Code         string `json:"error"`
	Outcome      string `json:"outcome"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	Cost         usd    `json:"cost_usd"`
	Savings      usd    `json:"savings_usd"`
	Cache        string `json:"cache"`
	LatencyMS    int64  `json:"latency_ms"`
	FirstTokenMS int64  `json:"first_token_ms"`
}

// statusLine is a control.StatusLine as read by a watcher.
type statusLine struct {
	At            time.Time          `json:"at"`
	Draining      bool               `json:"draining"`
	Live          int64              `json:"under_way"`
	Served        uint64             `json:"served"`
	RequestsToday int64              `json:"requests_today"`
	CostToday     usd                `json:"cost_today_usd"`
	Holds         int                `json:"holds"`
	Held          usd                `json:"held_usd"`
	Providers     []control.Provider `json:"providers"`
	Lost          uint64             `json:"lost"`
}

// note is a message about the connection; "" for none.
func (s update) note() string {
	switch {
	case s.gateway != nil:
		return fmt.Sprintf("watching the gateway on %s (pid %d)", s.gateway.Home, s.gateway.PID)
	case s.disconnected != nil:
		return "the gateway has gone (" + *s.disconnected + "); waiting for it to come back"
	}
	return ""
}

// follow passes a gateway's updates to emit, and reconnects when the stream ends, until ctx is done. It returns an error only if no gateway answers initially.
func follow(ctx context.Context, h home.Dir, emit func(update)) error {
	err := watchGateway(ctx, h, emit)
	if ctx.Err() == nil && errors.Is(err, errNoGateway) {
		return err
	}
	tick := time.NewTicker(reconnectInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if !errors.Is(err, errNoGateway) {
			why := err.Error()
			emit(update{disconnected: &why})
		}
		select {
		case <-tick.C:
			err = watchGateway(ctx, h, emit)
		case <-ctx.Done():
		}
	}
	return nil
}

// errNoGateway means that no stream could be opened.
var errNoGateway = errors.New("no gateway runs")

// watchGateway reads one gateway's stream to its end. It always returns an error.
func watchGateway(ctx context.Context, h home.Dir, emit func(update)) error {
	r, err := h.Running()
	if err != nil {
		return fmt.Errorf("%w on %s%s", errNoGateway, h, control.NotRunningAdvice(ctx, h))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control/watch", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := control.Client(r.Control).Do(req)
	if err != nil {
		return fmt.Errorf("%w on %s: %w", errNoGateway, h, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w on %s that can be watched: it answered %s", errNoGateway, h, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		s, err := parseUpdate(lines.Bytes())
		if err != nil {
			return err
		}
		emit(s)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the connection broke: %w", err)
	}
	return errors.New("it ended")
}

// parseUpdate parses one line of a stream. Lines of unknown types are kept raw.
func parseUpdate(line []byte) (update, error) {
	s := update{raw: bytes.Clone(line)}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return s, fmt.Errorf("a line that is no JSON object: %w", err)
	}
	var into any
	switch kind.Type {
	case control.LineGateway:
		s.gateway = &control.GatewayLine{}
		into = s.gateway
	case control.LineRequest:
		s.request = &requestLine{}
		into = s.request
	case control.LineStatus:
		s.status = &statusLine{}
		into = s.status
	default:
		return s, nil
	}
	if err := json.Unmarshal(line, into); err != nil {
		return s, fmt.Errorf("a %s line: %w", kind.Type, err)
	}
	return s, nil
}
