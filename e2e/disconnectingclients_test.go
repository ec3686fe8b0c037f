package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/seedtest"
)

// disconnectingClient is a client with a random request that closes its connection or resets its stream at a random moment.
type disconnectingClient struct {
	*randomRequest
	healthy bool          // both providers answer, if the client stays
	sent    int           // >= 0: after so many bytes of the request (over a plain connection: of its head, too)
	read    int           // >= 0: after so many bytes of the answer
	after   time.Duration // at the latest
	reset   bool          // a plain connection is reset
	plain   bool          // over a connection of its own, in HTTP/1.1

	id     string // the answer's X-Request-Id
	status int    // of the answer; 0: none was read
	whole  bool   // the answer was read to its end
}

func (c *disconnectingClient) String() string {
	return fmt.Sprintf("%s, left after %d bytes sent, %d read, %s, plain %v, reset %v, TLS %v: saw %s, %d, whole %v", c.randomRequest, c.sent, c.read, c.after, c.plain, c.reset, c.call.TLS, c.id, c.status, c.whole)
}

// newDisconnectingClient has providers that answer slowly.
func newDisconnectingClient(r *rand.Rand, n int) *disconnectingClient {
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most*1000)) * time.Microsecond }
	c := &disconnectingClient{randomRequest: newRandomRequest(r, n), healthy: r.IntN(3) > 0}
	for i := range c.behaviour {
		b := &c.behaviour[i]
		if c.healthy {
			*b = fake.Behaviour{Text: strings.Repeat("some words of an answer ", r.IntN(30)), Usage: &fake.Usage{Input: r.IntN(5000), Output: r.IntN(2000)}}
		}
		b.HeaderDelay, b.FirstToken, b.Gap, b.UsageDelay = ms(60), ms(60), ms(8), ms(20)
	}
	c.plan(r)
	return c
}

// plan chooses when the client leaves.
func (c *disconnectingClient) plan(r *rand.Rand) {
	c.sent, c.read, c.after = -1, -1, 10*time.Second
	c.plain, c.reset, c.call.TLS = r.IntN(3) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	c.id, c.status, c.whole = "", 0, false
	switch r.IntN(5) {
	case 0:
		c.sent = r.IntN(len(c.call.Body) + 1)
	case 1, 2:
		c.after = time.Duration(r.IntN(250_000)) * time.Microsecond
	case 3:
		c.read = r.IntN(2000)
	}
}

// run sends the request, and leaves as planned. What it returns is the gateway's fault.
func (c *disconnectingClient) run(ctx context.Context, g *gateway.Gateway) error {
	ctx, leave := context.WithTimeout(ctx, c.after)
	defer leave()
	var err error
	if c.plain {
		err = c.runPlain(ctx, g)
	} else {
		err = c.runClient(ctx, leave, g)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) && c.healthy {
		return err
	}
	return nil
}

// cutBody is the beginning of a request's body; the client leaves at its end.
type cutBody struct {
	io.Reader
	leave context.CancelFunc
	ctx   context.Context //nolint:containedctx // of the one request whose body this is
}

func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n == 0 && err != nil {
		b.leave()
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	return n, nil
}

func (c *disconnectingClient) runClient(ctx context.Context, leave context.CancelFunc, g *gateway.Gateway) error {
	req, err := g.Request(ctx, c.call)
	if err != nil {
		return err
	}
	if c.sent >= 0 {
		req.Body, req.GetBody = io.NopCloser(&cutBody{strings.NewReader(c.call.Body[:c.sent]), leave, ctx}), nil
	}
	res, err := g.Send(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return c.readAnswer(res)
}

// readAnswer reads as much of an answer as planned.
func (c *disconnectingClient) readAnswer(res *http.Response) error {
	c.id, c.status = res.Header.Get("X-Request-Id"), res.StatusCode
	from := io.Reader(res.Body)
	if c.read >= 0 {
		from = io.LimitReader(from, int64(c.read))
	}
	n, err := io.Copy(io.Discard, from)
	c.whole = err == nil && (c.read < 0 || n < int64(c.read))
	return err
}

// runPlain is runClient over a connection of its own, which may be closed inside the request's head, and reset.
func (c *disconnectingClient) runPlain(ctx context.Context, g *gateway.Gateway) error {
	at, err := url.Parse(g.URL)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("%T is no TCP connection", conn)
	}
	defer func() {
		if c.reset {
			_ = tcp.SetLinger(0)
		}
		_ = tcp.Close()
	}()
	end, _ := ctx.Deadline()
	if err := tcp.SetDeadline(end); err != nil {
		return err
	}
	call := c.call
	call.TLS = false
	req, err := g.Request(ctx, call)
	if err != nil {
		return err
	}
	var raw bytes.Buffer
	if err := req.Write(&raw); err != nil {
		return err
	}
	if c.sent >= 0 {
		_, err := tcp.Write(raw.Bytes()[:raw.Len()*c.sent/(len(c.call.Body)+1)])
		return err
	}
	if _, err := raw.WriteTo(tcp); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(tcp), req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return c.readAnswer(res)
}

// leavings is a gateway that leavers call with one prepaid key.
type leavings struct {
	*testing.T
	g       *gateway.Gateway
	key     gateway.NewKey
	leavers []*disconnectingClient
	known   map[string]bool // requests of earlier rounds
}

// leftRecord is a request's record as the operator sees it.
type leftRecord struct {
	Key            string
	ID             string `json:"request_id"`
	Status         string
	HTTPStatus     int `json:"http_status"`
	Error          string
	RequestedModel string                               `json:"requested_model"`
	Charged        json.Number                          `json:"charged_usd"`
	Attempts       []struct{ Provider, Outcome string } `json:"attempt_log"`
}

// TestK34RandomRequestsWhoseClientsLeave: random requests to providers that answer slowly, of clients that leave at a random moment, over HTTP/1.1 and HTTP/2. No
// provider goes on or counts as faulty, each request has its record, nothing stays held, and the money adds up. BARDO_SOAK=1 makes it longer; BARDO_SEED is the
// one seed to repeat.
func TestK34RandomRequestsWhoseClientsLeave(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(30) {
		for _, shape := range []string{"extproc", "module"} {
			t.Run(fmt.Sprintf("seed=%d/%s", seed, shape), func(t *testing.T) { leaveAtRandom(t, shape, rand.New(rand.NewPCG(seed, 1))) })
		}
	}
}

func leaveAtRandom(t *testing.T, shape string, r *rand.Rand) {
	t.Helper()
	q := &leavings{T: t, leavers: make([]*disconnectingClient, 100), known: map[string]bool{}}
	requests := make([]*randomRequest, len(q.leavers))
	for i := range q.leavers {
		q.leavers[i] = newDisconnectingClient(r, i)
		requests[i] = q.leavers[i].randomRequest
	}
	q.g = gatewayOfShape(t, shape, hasty+pick(r, shapeConfigs...), requests)
	q.key = q.g.CreateKey(t, "--name", "leavers", "--balance-usd", "1000")
	for _, c := range q.leavers {
		if c.call.Key == "" {
			c.call.Key = q.key.Key
		}
	}
	eventually(t, "a first look at each provider, over a connection that is kept", func() bool {
		return !slices.ContainsFunc(q.leavers, func(c *disconnectingClient) bool {
			return len(c.providers[0].Requests()) == 0 || len(c.providers[1].Requests()) == 0
		})
	})
	q.round()
	before := settled(t, q.g)
	for _, c := range q.leavers {
		c.plan(r)
	}
	q.round()
	after := settled(t, q.g)
	t.Logf("\nbefore  %s\nafter   %s", before, after)
	const leeway = 24 // connections that are kept
	if after.goroutines > before.goroutines+leeway || after.bardoMemory > before.bardoMemory+64*mib || after.envoyMemory > before.envoyMemory+64*mib {
		t.Errorf("something is left: before %s, after %s", before, after)
	}
	q.checkHealth()
	q.g.AssertSound(t)
	if lines := errorsIn(q.g.Log(), "the provider refuses the gateway's credential"); len(lines) > 0 { // as some do
		t.Errorf("the log has %s", lines)
	}
}

// errorsIn are the lines of a log about errors, all but those with an expected text.
func errorsIn(log, expected string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "panic") || strings.Contains(line, `"level":"ERROR"`) && !strings.Contains(line, expected) {
			lines = append(lines, line)
		}
	}
	return lines
}

// round has all clients send their requests, some at a time, and leave.
func (q *leavings) round() {
	q.Helper()
	const atOnce = 12
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, c := range q.leavers {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := c.run(q.Context(), q.g); err != nil {
				q.Errorf("%v: %s", err, c)
			}
		})
	}
	wait.Wait()
	eventually(q, "the end of every provider's answer", func() bool {
		return q.g.Metrics(q).Sum("bardo_active_exchanges") == 0 && len(q.unfinished()) == 0
	})
	q.checkRecords()
}

// unfinished are the requests that providers still answer.
func (q *leavings) unfinished() (all []fake.Request) {
	for _, c := range q.leavers {
		for _, p := range c.providers {
			all = append(all, slices.DeleteFunc(p.Generations(), func(r fake.Request) bool { return r.Done })...)
		}
	}
	return all
}

// records are those of all requests so far.
func (q *leavings) records() (all []leftRecord) {
	q.Helper()
	var page struct{ Data []leftRecord }
	operatorOf(q.T, q.g).must(http.StatusOK, http.MethodGet, "/requests?limit=1000", "", &page)
	return page.Data
}

// charged is what the records say that the key was charged.
func (q *leavings) charged(all []leftRecord) (sum int64) {
	q.Helper()
	for _, r := range all {
		if r.Key == q.key.ID {
			sum += micro(q, r.Charged)
		}
	}
	return sum
}

// checkRecords compares the records of a round with what clients and providers have seen.
func (q *leavings) checkRecords() {
	q.Helper()
	const deposited = 1_000_000_000
	var all []leftRecord
	eventually(q, "records of the money that was charged", func() bool {
		f := fundsOf(q, q.g, q.key.Key)
		all = q.records()
		return f.Held == "0.000000" && micro(q, *f.Balance)+q.charged(all) == deposited
	})
	byModel, byID := map[string][]leftRecord{}, map[string]leftRecord{}
	for _, r := range all {
		if !q.known[r.ID] {
			q.known[r.ID] = true
			byModel[r.RequestedModel], byID[r.ID] = append(byModel[r.RequestedModel], r), r
		}
	}
	for _, c := range q.leavers {
		if r, ok := byID[c.id]; c.id != "" && ok {
			c.checkAnswered(q.T, r)
		} else if c.status == http.StatusOK && c.ask.call().Path == c.call.Path {
			q.Errorf("no record: %s", c)
		}
		c.checkRecord(q.T, byModel[c.ask.model])
		for _, p := range c.providers {
			p.Forget()
		}
	}
}

// checkAnswered compares a record with the answer that its client has seen.
func (c *disconnectingClient) checkAnswered(t *testing.T, r leftRecord) {
	t.Helper()
	left := r.Status == "cancelled" || r.Status == "left"
	if r.HTTPStatus != c.status || c.whole && c.status == http.StatusOK && left {
		t.Errorf("record %+v of %s", r, c)
	}
}

// checkRecord compares the records of a client's requests with what its providers have seen.
func (c *disconnectingClient) checkRecord(t *testing.T, rs []leftRecord) {
	t.Helper()
	asked, cancelled := 0, false
	for _, p := range c.providers {
		for _, r := range p.Generations() {
			asked++
			cancelled = cancelled || r.Cancelled
		}
	}
	if asked > 0 && len(rs) != 1 || len(rs) > 1 {
		t.Errorf("%d records, providers were asked %d times: %s", len(rs), asked, c)
	}
	for _, r := range rs {
		left := r.Status == "cancelled" || r.Status == "left"
		switch {
		case r.HTTPStatus == http.StatusInternalServerError || r.Status == "":
			t.Errorf("record %+v of %s", r, c)
		case c.healthy && (cancelled && !left || slices.Contains([]string{"upstream_error", "upstream_timeout", "internal", "gateway_unavailable", "overloaded"}, r.Error)):
			t.Errorf("providers are healthy, record %+v of %s", r, c)
		}
	}
}

// checkHealth wants no failure of a provider that does what it should, and that clients left before an answer and within one.
func (q *leavings) checkHealth() {
	q.Helper()
	for name, n := range q.g.Metrics(q) {
		for i, c := range q.leavers {
			if !c.healthy || !strings.Contains(name, fmt.Sprintf(`provider="p%d-`, i)) {
				continue
			}
			failed := strings.HasPrefix(name, "bardo_attempts_total{") && !strings.Contains(name, `outcome="served"`) && !strings.Contains(name, `outcome="rejected"`) &&
				!strings.Contains(name, `outcome="client_closed"`)
			if failed && n > 0 || strings.HasPrefix(name, "bardo_provider_healthy{") && n != 1 {
				q.Errorf("%s is %v", name, n)
			}
		}
	}
	ends := map[string]int{}
	for _, r := range q.records() {
		ends[r.Status]++
	}
	if q.Logf("requests ended: %v", ends); ends["left"] == 0 || ends["cancelled"] == 0 {
		q.Error("clients did not leave at every stage")
	}
}
