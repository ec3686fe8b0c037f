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

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed/feedpb"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/state"
)

// ClientOptions are what a sidecar's end needs. All but Secure and Check are required. The functions are called one at a time, and must
// return soon.
type ClientOptions struct {
	Node, Version string
	Address       string             // of the control plane: unix:///path, /path or host:port
	Secure        func() *tls.Config // of the next connection; nil for clear text
	Check         func() error       // what is wrong on this side, if anything: what the other side's refusal does not say
	Log           *slog.Logger
	Heard         func(View)              // the control plane has spoken
	Granted       func(policy.ProviderID) // the next request may try a provider out of favour
	Revoke        func(policy.ProviderID) // if it was not used, the grant is over
	Lost          func()                  // the control plane is away
}

// Client is a sidecar's end of the feed. Results wait in it, within bounds, while the control plane is away. Safe for concurrent use.
type Client struct {
	o         ClientOptions
	queue     *queue
	connected atomic.Bool
}

var _ health.Trials = (*Client)(nil)

// NewClient makes a client. Nothing is called until Run.
func NewClient(o ClientOptions) *Client { return &Client{o: o, queue: newQueue()} }

// Report tells the control plane the outcome of an attempt. It does not wait.
func (c *Client) Report(r health.Result) { c.queue.result(time.Now(), r) }

// Ping tells it the outcome of a ping; nil means alive.
func (c *Client) Ping(p policy.ProviderID, err error) { c.queue.ping(p, err) }

// Want implements health.Trials.
func (c *Client) Want(p policy.ProviderID) { c.queue.want(p) }

// Return implements health.Trials.
func (c *Client) Return(p policy.ProviderID) { c.queue.giveBack(p) }

// Connected reports whether the control plane is there.
func (c *Client) Connected() bool { return c.connected.Load() }

// Dropped is how many results and pings were never reported.
func (c *Client) Dropped() uint64 { return c.queue.lost() }

const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
	batchTime  = 50 * time.Millisecond // how long a result waits for others
	grantTime  = 10 * time.Second      // how long a grant waits for a request
	sayEvery   = 30 * time.Second      // that the control plane is away
)

// Run keeps a stream to the control plane until ctx is done.
func (c *Client) Run(ctx context.Context) {
	var said time.Time
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.connected.Swap(false) {
			pause, said = firstPause, time.Time{}
			c.o.Lost()
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			c.o.Log.Warn("the control plane is away; this sidecar goes on with its last order", "address", c.o.Address, "error", c.explain(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // no secret: sidecars must not come back all at once
		}
	}
}

func (c *Client) explain(err error) error {
	if c.o.Check == nil {
		return err
	}
	return errors.Join(c.o.Check(), err)
}

// once is one stream, from its beginning to its end. The error is never nil.
func (c *Client) once(ctx context.Context) error {
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
	defer func() { _ = conn.Close() }() // the stream has said all there is
	group, ctx := errgroup.WithContext(ctx)
	stream, err := feedpb.NewFeedClient(conn).Connect(ctx)
	if err != nil {
		return err
	}
	c.queue.begin()
	if err := stream.Send(&feedpb.Report{Hello: &feedpb.Hello{Node: c.o.Node, Version: c.o.Version}}); err != nil {
		_, err = stream.Recv() // says why
		return err
	}
	group.Go(func() error { return c.listen(stream) })
	group.Go(func() error { return c.speak(ctx, stream) })
	return group.Wait()
}

// target is an address in gRPC's words.
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
			c.o.Heard(decode(time.Now(), v))
			if !c.connected.Swap(true) {
				c.o.Log.Info("connected to the control plane", "address", c.o.Address)
			}
		}
		for _, id := range u.GetGranted() {
			p := policy.ProviderID(id)
			c.o.Granted(p)
			time.AfterFunc(grantTime, func() { c.o.Revoke(p) })
		}
	}
}

// speak reports what has been seen, soon after it was, in batches.
func (c *Client) speak(ctx context.Context, stream feedpb.Feed_ConnectClient) error {
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
				return nil // listen says why
			}
		}
	}
}
