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

// longestLine bounds one line of a gateway's stream.
const longestLine = 1 << 20

// reconnectEvery is the time between two looks for a gateway that has gone.
const reconnectEvery = 250 * time.Millisecond

// sight is one thing that a watcher sees: exactly one of its pointers is set.
type sight struct {
	raw     []byte // the line, where there is one
	gateway *control.GatewayLine
	request *requestSeen
	status  *statusSeen
	gone    *string // the gateway has gone, and why
}

// usd is an amount of dollars in a JSON number with at most six decimals; more of them are cut.
type usd policy.Micro

// UnmarshalJSON reads an amount.
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

// requestSeen is a control.RequestLine as a watcher reads it.
type requestSeen struct {
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

// statusSeen is a control.StatusLine as a watcher reads it.
type statusSeen struct {
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

// note is what a sight says about the connection, for people.
func (s sight) note() string {
	switch {
	case s.gateway != nil:
		return fmt.Sprintf("watching the gateway on %s (pid %d)", s.gateway.Home, s.gateway.PID)
	case s.gone != nil:
		return "the gateway has gone (" + *s.gone + "); waiting for it to come back"
	}
	return ""
}

// follow shows see what happens on a gateway, and on the next one when it has ended, until ctx is done. Where none answers in
// the first place, that is the error.
func follow(ctx context.Context, h home.Dir, see func(sight)) error {
	err := watchGateway(ctx, h, see)
	if ctx.Err() == nil && errors.Is(err, errNotWatched) {
		return err
	}
	tick := time.NewTicker(reconnectEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if !errors.Is(err, errNotWatched) {
			why := err.Error()
			see(sight{gone: &why})
		}
		select {
		case <-tick.C:
			err = watchGateway(ctx, h, see)
		case <-ctx.Done():
		}
	}
	return nil
}

// errNotWatched means that there was no stream to begin with.
var errNotWatched = errors.New("no gateway runs")

// watchGateway reads one gateway's stream to its end, which always has a reason.
func watchGateway(ctx context.Context, h home.Dir, see func(sight)) error {
	r, err := h.Running()
	if err != nil {
		return fmt.Errorf("%w on %s%s", errNotWatched, h, control.Instead(ctx, h))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control/watch", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := control.Client(r.Control).Do(req)
	if err != nil {
		return fmt.Errorf("%w on %s: %w", errNotWatched, h, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w on %s that can be watched: it answered %s", errNotWatched, h, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		s, err := readSight(lines.Bytes())
		if err != nil {
			return err
		}
		see(s)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the connection broke: %w", err)
	}
	return errors.New("it ended")
}

// readSight reads one line of a stream. Lines of types that are not known are kept as they are.
func readSight(line []byte) (sight, error) {
	s := sight{raw: bytes.Clone(line)}
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
		s.request = &requestSeen{}
		into = s.request
	case control.LineStatus:
		s.status = &statusSeen{}
		into = s.status
	default:
		return s, nil
	}
	if err := json.Unmarshal(line, into); err != nil {
		return s, fmt.Errorf("a %s line: %w", kind.Type, err)
	}
	return s, nil
}
