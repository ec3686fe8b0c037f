package module

import (
	"context"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// A coroutine makes calls itself: Envoy starts them on its thread, and their results resume it, once for everything that arrived in the same
// iteration of the worker's event loop. No goroutine is involved.

// Caller implements stream.Client.
func (d *client) Caller() stream.Caller {
	if d.co == nil {
		return nil
	}
	return d
}

// Call implements stream.Caller.
func (d *client) Call(cluster string, h header.List, body []byte) stream.Call {
	k := &call{client: d, local: true, named: isNamed(h)}
	set := pack(h, nil)
	if d.do(posted{run: func(int) { d.start(k, cluster, set, body) }}, false, inRequest, inRequestEnd) != nil {
		k.fail(stream.ErrDisconnected)
	}
	return (*localCall)(k)
}

// Wait implements stream.Caller.
func (d *client) Wait(until time.Time) error {
	if d.ended {
		return stream.ErrDisconnected
	}
	d.alarm.set(until, d)
	d.taken = 0
	d.co.Wait()
	if d.ended {
		return stream.ErrDisconnected
	}
	return nil
}

// alarm resumes a coroutine at a time. It is used on the worker's thread only. Moving an alarm to a later time leaves it unchanged: it fires too
// early and is set again, so that a stream does not move it with every chunk.
type alarm struct {
	t  *time.Timer
	at time.Time // zero if not set
}

func (a *alarm) set(at time.Time, d *client) {
	if at.IsZero() || !a.at.IsZero() && !a.at.After(at) {
		return
	}
	a.at = at
	if a.t != nil {
		a.t.Reset(time.Until(at))
		return
	}
	a.t = time.AfterFunc(time.Until(at), guard.Func(func() {
		d.post(posted{run: func(int) { a.at = time.Time{} }})
	}))
}

func (a *alarm) stop() {
	if a.t != nil {
		a.t.Stop()
	}
}

// localCall is a call whose answer is read by a coroutine.
type localCall call

// Head implements stream.Call.
func (k *localCall) Head() (*stream.CallHead, error) {
	if k.head == nil {
		return nil, k.err
	}
	h := &stream.CallHead{Header: make(header.List, 0, len(k.head))}
	own := true
	for _, f := range k.head {
		switch f.Name {
		case ":status":
			h.Status, _ = strconv.Atoi(f.Value)
		case serviceTime:
			own = false
		case state.HeaderFailure: // only valid in Envoy's own answers
		default:
			h.Header = append(h.Header, f)
		}
	}
	switch {
	case !own:
		return h, nil
	case k.end: // the reason is in its body
		h.Failure = (*call)(k).why()
		return h, nil
	}
	return nil, k.err
}

// maxTaken is the maximum number of bytes of calls that a coroutine reads in a row, because the worker's other requests wait meanwhile.
const maxTaken = 64 << 10

// Next implements stream.Call.
func (k *localCall) Next() (piece []byte, end, ok bool, err error) {
	if len(k.chunks) > 0 && k.client.taken >= maxTaken {
		k.client.came() // the rest is read in its next turn
		return nil, false, false, nil
	}
	if len(k.chunks) > 0 {
		piece = (*call)(k).first()
		k.client.taken += len(piece)
		return piece, k.end && len(k.chunks) == 0, true, nil
	}
	switch {
	case k.err != nil:
		return nil, false, false, k.err
	case k.end:
		return nil, true, true, nil
	}
	return nil, false, false, nil
}

// Close implements stream.Call.
func (k *localCall) Close() {
	if k.end || k.err != nil {
		return
	}
	k.err = context.Canceled
	_ = k.client.do(posted{run: (*call)(k).reset}, false)
}
