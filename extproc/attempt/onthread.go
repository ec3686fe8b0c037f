package attempt

import (
	"context"
	"errors"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// RunsOnThread reports whether a stream.Caller can make an attempt: it needs only its answer, and can use Envoy's clusters.
func (w *Writer) RunsOnThread(v *request.View, to *policy.Resolution) bool {
	return !w.needsListener(v, to) && len(v.Seals(to)) == 0 && !v.PaysFor([]policy.Resolution{*to})
}

// errNotOnThread is the failure of an attempt that must not be made on a thread.
var errNotOnThread = errors.New("the attempt needs more than a call on the thread")

// doOnThread is Do by a Caller. It does what the goroutines of call do, but waits only in pause, and does not recover panics: its caller does, in the
// same goroutine.
func (w *Writer) doOnThread(ctx context.Context, t *Attempt, open func(int, header.List) Sink, wait Wait) (*upstream.Failure, error) {
	c := &call{w: w, t: t, wait: wait, client: ctx, ctx: ctx}
	c.restartLimit(t.View.AttemptTimeout(t.To))
	k, err := c.start()
	if err != nil {
		return c.failure(upstream.NotEncoded, err), nil
	}
	defer k.Close()
	h, f, err := c.awaitHead(k)
	switch {
	case f != nil || err != nil:
		return f, err
	case h.Failure != "":
		return upstream.Local(t.To.Provider, h.Status, h.Failure), nil
	case h.Status/100 != 2:
		return c.awaitRefusal(k, h, open)
	}
	if f := t.View.Unconfirmed(t.To.Provider, h.Header); f != nil {
		return f, nil
	}
	return c.readOnThread(k, open(h.Status, h.Header))
}

// start sends the attempt.
func (c *call) start() (stream.Call, error) {
	call, err := c.w.Write(nil, c.t)
	if err != nil {
		return nil, err
	}
	v := c.t.View
	if c.t.Sealed != nil || !c.w.RunsOnThread(v, &c.t.To) {
		return nil, errNotOnThread
	}
	h, _ := call.Headers(nil)
	h = append(h, header.Field{Name: ":scheme", Value: "http"})
	if agent := v.Head.Header.Get("user-agent"); agent != "" {
		h = append(h, header.Field{Name: "user-agent", Value: agent})
	}
	return c.wait.Caller.Call(state.Cluster(v.Config.Provider(c.t.To.Provider).Cluster), h, call.Body), nil
}

// pause waits until an event may have arrived. A failure or an error ends the attempt.
func (c *call) pause(hasContent bool) (*upstream.Failure, error) {
	until := c.limitAt
	if !c.wait.Until.IsZero() && c.wait.Until.Before(until) {
		until = c.wait.Until
	}
	beat := c.wait.Beat
	if beat != nil && beat.due.Before(until) {
		until = beat.due
	}
	err := c.wait.Caller.Wait(until)
	switch {
	case c.client.Err() != nil:
		return c.interrupted(c.client, hasContent)
	case err != nil:
		return nil, err
	}
	now := time.Now()
	switch {
	case now.Before(until):
	case !c.wait.Until.IsZero() && !now.Before(c.wait.Until):
		return c.failure(upstream.TimedOut, upstream.ErrTotalTimeout), nil
	case !now.Before(c.limitAt) && hasContent:
		return c.failure(upstream.TimedOut, ErrIdle), nil
	case !now.Before(c.limitAt):
		return c.failure(upstream.TimedOut, ErrFirstToken), nil
	case beat != nil && !now.Before(beat.due):
		return nil, c.wait.OnHeartbeat()
	}
	return nil, nil
}

func (c *call) awaitHead(k stream.Call) (*stream.CallHead, *upstream.Failure, error) {
	for {
		h, err := k.Head()
		switch {
		case err != nil:
			f, err := c.broken(err, false)
			return nil, f, err
		case h != nil:
			return h, nil, nil
		}
		if f, err := c.pause(false); f != nil || err != nil {
			return nil, f, err
		}
	}
}

// broken maps the error that ended a call: a failure of the provider, or the client's disconnect, which ends its calls.
func (c *call) broken(cause error, hasContent bool) (*upstream.Failure, error) {
	if c.client.Err() != nil {
		return c.interrupted(c.client, hasContent)
	}
	return c.failure(upstream.Reset, cause), nil
}

// awaitRefusal is refusal for a Caller's call.
func (c *call) awaitRefusal(k stream.Call, h *stream.CallHead, open func(int, header.List) Sink) (*upstream.Failure, error) {
	var body []byte
	for end := h.Status < http.StatusOK; !end && len(body) < MaxErrorBody; { // a lower status has no body
		piece, last, ok, err := k.Next()
		switch {
		case err != nil:
			return c.broken(err, false)
		case ok:
			body, end = append(body, piece...), last
			continue
		}
		if f, err := c.pause(false); f != nil || err != nil {
			return f, err
		}
	}
	sink := open(h.Status, h.Header)
	sink.Feed(c.client, body[:min(len(body), MaxErrorBody)], true)
	return upstream.Stated(c.t.To.Provider, sink.Refusal(h.Status)), nil
}

// readOnThread is read for a Caller's call.
func (c *call) readOnThread(k stream.Call, sink Sink) (*upstream.Failure, error) {
	for {
		p := chunk{}
		var ok bool
		p.b, p.end, ok, p.err = k.Next()
		if p.err != nil {
			p.end, ok = true, true
		}
		if !ok {
			f, err := c.pause(sink.HasContent())
			if err != nil {
				c.feedRest(k, sink)
			}
			if f != nil || err != nil {
				return f, err
			}
			continue
		}
		if p.err != nil && c.client.Err() != nil {
			return c.broken(p.err, sink.HasContent())
		}
		done, f, err := c.chunk(p, sink)
		if done && err == nil && !p.end {
			c.readEnd(k)
		}
		if done || f != nil || err != nil {
			return f, err
		}
	}
}

// feedRest reads what arrived before a client disconnect, if only the usage is missing: see awaitUsage.
func (c *call) feedRest(k stream.Call, sink Sink) {
	for sink.LacksUsage() {
		b, end, ok, err := k.Next()
		if !ok || err != nil {
			return
		}
		sink.Feed(context.WithoutCancel(c.client), b, end)
	}
}

// readEnd is reader.finish for a Caller's call.
func (c *call) readEnd(k stream.Call) {
	late := time.Now().Add(maxEndLag)
	for {
		_, end, ok, err := k.Next()
		switch {
		case end || err != nil || !ok && !time.Now().Before(late):
			return
		case ok:
			continue
		}
		if c.wait.Caller.Wait(late) != nil {
			return
		}
	}
}
