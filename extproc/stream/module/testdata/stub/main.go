// Command stub is a library for Envoy with a handler that is controlled by a request's path.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/extproc/stream/module"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

func main() {}

func init() {
	module.Register(func(conf string) (module.App, error) {
		if strings.HasSuffix(conf, " fail") {
			return (*app)(nil), errors.New("told to fail") // a typed nil pointer, as the gateway returns it
		}
		marks, engine, _ := strings.Cut(conf, " ")
		return &app{marks: marks, leaves: engine == "goroutines"}, nil
	})
}

// app counts events, and serves.
type app struct {
	marks                           string // directory of files that inform the test of the process's end
	leaves                          bool   // every request leaves its thread immediately
	opened, closed, panics, disconn atomic.Int64
	holds                           atomic.Int64
	bodies                          sync.Map // of retries, by exchange
	next                            atomic.Int64
}

func (a *app) Opened()      { a.opened.Add(1) }
func (a *app) Closed()      { a.closed.Add(1) }
func (a *app) Panicked(any) { a.panics.Add(1) }
func (a *app) Drain()       { a.mark("drain") }
func (a *app) Shutdown()    { a.mark("shutdown") }

func (a *app) Held(h coroutine.Hold) {
	a.holds.Add(1)
	fmt.Fprintln(os.Stderr, h.Thread, "is held:", h.Stacks)
}

func (a *app) mark(name string) {
	_ = os.WriteFile(a.marks+"/"+name, nil, 0o600)
}

type served func(context.Context, *request) error

type request struct {
	*app
	stream.Client
	head  stream.Head
	query map[string]string
	body  []byte
}

// Serve implements stream.Handler.
func (a *app) Serve(ctx context.Context, c stream.Client, hd stream.Head, bodyless bool) error {
	if a.leaves {
		return c.Leave(func() error { return a.serve(ctx, c, hd, bodyless) })
	}
	return a.serve(ctx, c, hd, bodyless)
}

func (a *app) serve(ctx context.Context, c stream.Client, hd stream.Head, bodyless bool) error {
	r := &request{app: a, Client: c, head: hd, query: map[string]string{}}
	for _, pair := range strings.Split(hd.Query, "&") {
		k, v, _ := strings.Cut(pair, "=")
		r.query[k] = v
	}
	if err := r.read(bodyless); err != nil {
		if errors.Is(err, stream.ErrDisconnected) {
			a.disconn.Add(1)
		}
		if errors.Is(err, stream.ErrAnswered) {
			return nil
		}
		return err
	}
	if hd.Path == "/call" || hd.Path == "/wait" {
		return r.Leave(func() error { return r.run(ctx) })
	}
	return r.run(ctx)
}

func (r *request) run(ctx context.Context) error {
	err := r.served()(ctx, r)
	if errors.Is(err, stream.ErrDisconnected) || ctx.Err() != nil {
		r.disconn.Add(1)
	}
	return err
}

func (r *request) served() served {
	return map[string]served{
		"/echo": echo, "/state": stateOf, "/forward": forward, "/stream": streamed, "/panic": panics, "/goroutine": panicsBeside, "/error": fails, "/nothing": nothing,
		"/truncate": truncates, "/call": calls, "/local": callsLocally, "/wait": waits, "/deny": denies, "/slow": slow,
	}[r.head.Path]
}

// read implements stream.RequestBody over a request.
func (r *request) read(bodyless bool) error {
	if bodyless || r.head.Path == "/deny" {
		return nil
	}
	return r.RequestBody(r)
}

func (r *request) Add(piece []byte) error {
	r.body = append(r.body, piece...)
	if most, _ := strconv.Atoi(r.query["most"]); most > 0 && len(r.body) > most {
		_ = r.Reply(stream.Reply{Status: 413, Body: []byte("too large")})
		return stream.ErrAnswered
	}
	return nil
}

func (r *request) Wait() time.Duration {
	d, _ := time.ParseDuration(r.query["idle"])
	return d
}

func (r *request) TimedOut(reply func(stream.Reply) error) {
	_ = reply(stream.Reply{Status: 408, Body: []byte("too slow")})
}

func echo(_ context.Context, r *request) error {
	h := header.List{{Name: "content-type", Value: "text/x-echo"}, {Name: "x-headers", Value: strconv.Itoa(len(r.head.Header))}, {Name: "x-peer", Value: r.head.Peer.String()}}
	return r.Reply(stream.Reply{Status: 201, Header: h, Body: r.body})
}

// slow occupies a worker's thread, which a handler must not do.
func slow(_ context.Context, r *request) error {
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
		runtime.Gosched()
	}
	return r.Reply(stream.Reply{Status: 200, Body: []byte("late")})
}

func denies(_ context.Context, r *request) error {
	return r.Reply(stream.Reply{Status: 401, Body: []byte("who?")})
}

func stateOf(_ context.Context, r *request) error {
	body := fmt.Sprintf(`{"open":%d,"panics":%d,"disconnected":%d,"goroutines":%d,"holds":%d}`, r.opened.Load()-r.closed.Load(), r.panics.Load(), r.disconn.Load(), runtime.NumGoroutine(), r.holds.Load())
	return r.Reply(stream.Reply{Status: 200, Body: []byte(body)})
}

func panics(context.Context, *request) error { panic("told to") }

func panicsBeside(_ context.Context, r *request) error {
	_ = r.StreamHead(200, nil)
	_ = r.StreamBody([]byte("part"), false)
	panic("told to")
}

func fails(context.Context, *request) error { return errors.New("told to fail") }

func nothing(context.Context, *request) error { return nil }

func truncates(_ context.Context, r *request) error {
	_ = r.StreamHead(200, nil)
	_ = r.StreamBody([]byte("part"), false)
	return stream.ErrTruncated
}

func streamed(_ context.Context, r *request) error {
	if err := r.StreamHead(200, header.List{{Name: "content-type", Value: "text/event-stream"}, {Name: "trailer", Value: "x-end"}}); err != nil {
		return err
	}
	n, _ := strconv.Atoi(r.query["n"])
	size, _ := strconv.Atoi(r.query["size"])
	piece := bytes.Repeat([]byte("s"), size)
	for range n {
		if err := r.StreamBody(piece, false); err != nil {
			return err
		}
	}
	if r.query["trailers"] == "" {
		return r.StreamBody(nil, true)
	}
	return r.StreamTrailers(header.List{{Name: "x-end", Value: "reached"}})
}

func waits(ctx context.Context, r *request) error {
	if r.query["begin"] != "" {
		_ = r.StreamHead(200, nil)
		_ = r.StreamBody([]byte("begun"), false)
	}
	<-ctx.Done()
	return ctx.Err()
}

// forward sends the request to the named clusters, with a body that contains the attempt's number.
func forward(_ context.Context, r *request) error {
	id := fmt.Sprint("x", r.next.Add(1))
	r.bodies.Store(id, r.body)
	defer r.bodies.Delete(id)
	body := append([]byte("1:"), r.body...)
	clusters := strings.Split(r.query["to"], ",")
	err := r.Forward(stream.Forward{
		Set: header.List{
			{Name: state.HeaderPath, Value: state.PathJSON}, {Name: "x-attempt", Value: "1"}, {Name: "x-envoy-max-retries", Value: strconv.Itoa(len(clusters) - 1)},
			{Name: ":path", Value: "/provider" + r.query["path"]}, {Name: "content-type", Value: "application/json"},
			{Name: "x-pair", Value: "first"}, {Name: "x-pair", Value: "second"}, {Name: "x-once", Value: "1"},
		},
		Remove: []string{"x-secret", "x-absent"}, Body: body, Clusters: clusters, Exchange: id,
	})
	if err != nil {
		return err
	}
	var head *stream.AnswerHead
	var answer []byte
	for {
		p, err := r.Next()
		if err != nil {
			return err
		}
		if p.Head != nil {
			head = p.Head
		}
		if answer = append(answer, p.Body...); p.End {
			break
		}
	}
	return r.finish(head, answer)
}

func (r *request) finish(head *stream.AnswerHead, answer []byte) error {
	if r.query["replace"] != "" {
		h := header.List{{Name: "x-was", Value: head.Details}, {Name: "x-outcomes", Value: strings.Join(head.Outcomes, "|")}}
		return r.Reply(stream.Reply{Status: 502, Header: h, Body: []byte("replaced")})
	}
	set := header.List{
		{Name: "x-cluster", Value: head.Cluster}, {Name: "x-details", Value: head.Details}, {Name: "x-attempts", Value: strconv.Itoa(head.Attempts)},
		{Name: "x-outcomes", Value: strings.Join(head.Outcomes, "|")}, {Name: "x-status", Value: strconv.Itoa(head.Status)},
		{Name: "content-length", Value: strconv.Itoa(len(answer) + 2)},
	}
	return r.Answer(stream.Reply{Status: 203, Header: set, Body: append([]byte("A:"), answer...)}, []string{"x-provider"})
}

// Attempt implements stream.Handler.
func (a *app) Attempt(t *stream.Attempt) (stream.AttemptRequest, error) {
	body, ok := a.bodies.Load(t.Exchange)
	if !ok {
		return stream.AttemptRequest{}, errors.New("no such exchange")
	}
	if bytes.Contains(body.([]byte), []byte("unwritable")) {
		return stream.AttemptRequest{}, errors.New("told to fail")
	}
	if bytes.Contains(body.([]byte), []byte("panic")) {
		panic("in an attempt")
	}
	n := strconv.Itoa(t.Number)
	return stream.AttemptRequest{
		Set: header.List{{Name: "x-attempt", Value: n}, {Name: "x-cluster", Value: t.Cluster}}, Remove: []string{"authorization"},
		Body: append([]byte(n+": "), body.([]byte)...),
	}, nil
}

// calls makes a call and streams the answer.
func calls(ctx context.Context, r *request) error {
	if r.query["cancel"] != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://egress/provider"+r.query["path"], bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Host = "provider.test"
	req.Header.Set(state.HeaderCluster, r.query["to"])
	req.Header.Set("X-Attempt", "own")
	resp, err := (&http.Client{Transport: module.Transport()}).Do(req)
	if err != nil {
		return r.Reply(stream.Reply{Status: 502, Body: []byte(err.Error())})
	}
	defer resp.Body.Close()
	err = r.StreamHead(resp.StatusCode, header.List{{Name: "x-failure", Value: resp.Header.Get(state.HeaderFailure)}, {Name: "x-provider", Value: resp.Header.Get("X-Provider")}})
	if err != nil {
		return err
	}
	return r.copyBody(resp.Body)
}

func (r *request) copyBody(body io.Reader) error {
	b := make([]byte, 32<<10)
	for {
		n, err := body.Read(b)
		if e := r.StreamBody(b[:n], errors.Is(err, io.EOF)); e != nil {
			return e
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", stream.ErrTruncated, err)
		}
	}
}

// callsLocally is calls without leaving the worker's thread, if the request runs on it.
func callsLocally(ctx context.Context, r *request) error {
	c := r.Caller()
	if c == nil {
		return calls(ctx, r)
	}
	var until time.Time
	if r.query["cancel"] != "" {
		until = time.Now().Add(100 * time.Millisecond)
	}
	k := c.Call(r.query["to"], header.List{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/provider" + r.query["path"]}, {Name: ":authority", Value: "provider.test"},
		{Name: "content-length", Value: strconv.Itoa(len(r.body))}, {Name: "x-attempt", Value: "own"},
	}, r.body)
	defer k.Close()
	h, err := k.Head()
	for ; h == nil && err == nil; h, err = k.Head() {
		switch err := c.Wait(until); {
		case err != nil:
			return err
		case !until.IsZero() && !time.Now().Before(until):
			return r.Reply(stream.Reply{Status: 502, Body: []byte("nothing came in time")})
		}
	}
	if err != nil {
		return r.Reply(stream.Reply{Status: 502, Body: []byte(err.Error())})
	}
	if err := r.StreamHead(h.Status, header.List{{Name: "x-failure", Value: h.Failure}, {Name: "x-provider", Value: h.Header.Get("x-provider")}}); err != nil {
		return err
	}
	return r.pass(c, k)
}

// pass streams the answer of a call.
func (r *request) pass(c stream.Caller, k stream.Call) error {
	for {
		b, end, ok, err := k.Next()
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", stream.ErrTruncated, err)
		case ok:
			err = r.StreamBody(b, end)
		default:
			err = c.Wait(time.Time{})
		}
		if err != nil || end {
			return err
		}
	}
}
