package feed

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed/feedpb"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/state"
)

// ClientOptions are the options of the sidecar's end. All but Secure and Check are required. The functions are called one at a time and must not
// block.
type ClientOptions struct {
	Node, Version string
	Address       string             // of the control plane: unix:///path, /path or host:port
	Secure        func() *tls.Config // of the next connection; nil for clear text
	Check         func() error       // a local problem that may explain a refused connection
	Log           *slog.Logger
	Viewed        func(View)              // called with each new view of the control plane
	Granted       func(policy.ProviderID) // called when the next request may be a trial of a provider that is down
	Revoke        func(policy.ProviderID) // called when an unused grant expires
	Disconnected  func()                  // called when the control plane disconnects
}

// Client is a sidecar's end of the feed. It queues a bounded number of results while the control plane is disconnected. Safe for concurrent use.
type Client struct {
	o         ClientOptions
	queue     *queue
	connected atomic.Bool
}

var _ health.Trials = (*Client)(nil)

// NewClient returns a client, which starts with Run.
func NewClient(o ClientOptions) *Client { return &Client{o: o, queue: newQueue()} }

// Report queues the outcome of an attempt. It does not block.
func (c *Client) Report(r health.Result) { c.queue.result(time.Now(), r) }

// Ping queues the outcome of a ping; nil means success.
func (c *Client) Ping(p policy.ProviderID, err error) { c.queue.ping(p, err) }

// Want implements health.Trials.
func (c *Client) Want(p policy.ProviderID) { c.queue.requestTrial(p) }

// Return implements health.Trials.
func (c *Client) Return(p policy.ProviderID) { c.queue.returnTrial(p) }

// Connected reports whether the control plane is connected.
func (c *Client) Connected() bool { return c.connected.Load() }

// Dropped returns the number of results and pings that were dropped.
func (c *Client) Dropped() uint64 { return c.queue.droppedCount() }

const (
	firstPause  = 100 * time.Millisecond
	longPause   = 5 * time.Second
	batchTime   = 50 * time.Millisecond // batching delay of results
	grantTime   = 10 * time.Second      // lifetime of an unused grant
	logInterval = 30 * time.Second      // interval of logging that the control plane is disconnected
)

// Run keeps a stream to the control plane open until ctx is done.
func (c *Client) Run(ctx context.Context) {
	var logged time.Time
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := c.runStream(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.connected.Swap(false) {
			pause, logged = firstPause, time.Time{}
			c.o.Disconnected()
		}
		if time.Since(logged) > logInterval {
			logged = time.Now()
			c.o.Log.Warn("the control plane is away; this sidecar goes on with its last order", "address", c.o.Address, "error", c.explain(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter, so that sidecars do not reconnect simultaneously
		}
	}
}

func (c *Client) explain(err error) error {
	if c.o.Check == nil {
		return err
	}
	return errors.Join(c.o.Check(), err)
}

// runStream runs one stream to its end. The error is never nil.
func (c *Client) runStream(ctx context.Context) error {
	target, err := target(c.o.Address)
	if err != nil {
		return err
	}
	secure := insecure.NewCredentials()
	if c.o.Secure != nil {
		secure = credentials.NewTLS(c.o.Secure())
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(secure), grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the stream has ended; its error is reported
	group, ctx := errgroup.WithContext(ctx)
	stream, err := feedpb.NewFeedClient(conn).Connect(ctx)
	if err != nil {
		return err
	}
	c.queue.begin()
	if err := stream.Send(&feedpb.Report{Hello: &feedpb.Hello{Node: c.o.Node, Version: c.o.Version}}); err != nil {
		_, err = stream.Recv() // returns the reason
		return err
	}
	group.Go(guard.Err(func() error { return c.listen(stream) }))
	group.Go(guard.Err(func() error { return c.sendReports(ctx, stream) }))
	return group.Wait()
}

// target returns an address in gRPC's notation.
func target(address string) (string, error) {
	a, err := state.ParseAddress(address)
	if err != nil {
		return "", err
	}
	if a.Pipe != "" {
		return "unix://" + a.Pipe, nil
	}
	return "dns:///" + address, nil
}

func (c *Client) listen(stream feedpb.Feed_ConnectClient) error {
	for {
		u, err := stream.Recv()
		if err != nil {
			return err
		}
		if v := u.GetView(); v != nil {
			c.o.Viewed(decode(time.Now(), v))
			if !c.connected.Swap(true) {
				c.o.Log.Info("connected to the control plane", "address", c.o.Address)
			}
		}
		for _, id := range u.GetGranted() {
			p := policy.ProviderID(id)
			c.o.Granted(p)
			time.AfterFunc(grantTime, guard.Func(func() { c.o.Revoke(p) }))
		}
	}
}

// sendReports sends the queued results in batches.
func (c *Client) sendReports(ctx context.Context, stream feedpb.Feed_ConnectClient) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.queue.wake:
		}
		pause.Reset(batchTime)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
		for more := true; more; {
			var r *feedpb.Report
			if r, more = c.queue.take(time.Now()); stream.Send(r) != nil {
				return nil // listen returns the reason
			}
		}
	}
}
