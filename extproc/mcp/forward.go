package mcp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// callNamed forwards a call of a tool, or the request of a prompt, to the server that its name names.
func (x *exchange) callNamed(ctx context.Context) *rpcError {
	full, _ := x.params.Get("name").Str()
	s, name := x.find(full)
	if s == nil || !isName(name) {
		return &rpcError{code: codeParams, message: "there is no " + kindOf(x.method) + " of this name"}
	}
	k := &call{x.Gateway, x.caller, s, x.session}
	var repeated http.Header
	if x.method == "tools/call" {
		f := x.check(ctx, k, name)
		if f == nil {
			repeated, f = x.repeated(ctx, k, name)
		}
		if f != nil {
			return f
		}
	}
	doc, err := jsonx.Scan(x.params.Raw)
	if err != nil {
		return &rpcError{code: codeParams, message: err.Error()}
	}
	var e jsonx.Edits
	e.Set(&doc, "name", jsonx.AppendString(nil, name))
	return x.forward(ctx, k, request{method: x.method, name: name, params: e.AppendTo(nil, &doc), header: repeated})
}

func kindOf(method string) string {
	if method == "tools/call" {
		return "tool"
	}
	return "prompt"
}

// find returns the server and the server's own name of a tool or prompt; no server if the caller may use none of that name.
func (x *exchange) find(full string) (*Server, string) {
	if s := x.single(); s != nil {
		return s, full
	}
	of, name, ok := strings.Cut(full, separator)
	for _, s := range x.servers() {
		if ok && s.Name == of {
			return s, name
		}
	}
	return nil, ""
}

// check refuses a call that the operator does not allow.
func (x *exchange) check(ctx context.Context, k *call, tool string) *rpcError {
	why := x.caller.Rules.Refuses(k.server, tool, k.knows(tool), x.params.Get("arguments").Raw, func() ([]byte, bool) {
		raw, ok, err := k.schema(ctx, tool)
		return raw, ok && err == nil
	})
	return x.refuse(k, why)
}

// checkParams refuses parameters of any request that may not leave this gateway.
func (x *exchange) checkParams(ctx context.Context, k *call, r *request) *rpcError {
	tool := ""
	if r.method == "tools/call" {
		tool = r.name
	}
	return x.refuse(k, x.caller.Rules.Forbids(ctx, k.server, tool, k.knows(tool), r.params))
}

// refuse returns the error of a request that is refused, and counts it; nil if why is nil.
func (x *exchange) refuse(k *call, why *Refusal) *rpcError {
	if why == nil {
		return nil
	}
	x.Meter.MCPRequest(k.server.Name, x.method, refused, 0)
	f := &rpcError{code: codeRefused, message: "the gateway's rules do not allow this call (" + why.Reason + ")"}
	data := jsonx.AppendString([]byte(`{"reason":`), why.Reason)
	if why.Rule != "" {
		f.message = "the gateway's rule " + why.Rule + " does not allow this call (" + why.Reason + ")"
		data = jsonx.AppendString(append(data, `,"rule":`...), why.Rule)
	}
	data = append(data, '}')
	f.data = data
	return f
}

// repeated returns the headers that repeat arguments of a call, which a server of the modern revision may require. A client of that revision has sent the same.
func (x *exchange) repeated(ctx context.Context, k *call, tool string) (http.Header, *rpcError) {
	began := time.Now()
	l, err := k.link(ctx)
	if err != nil {
		k.measure(x.method, began, err)
		return nil, k.failed502(err)
	}
	var sent http.Header
	if x.modern {
		sent = x.r.Header
	}
	sends := false
	for name := range sent {
		sends = sends || strings.HasPrefix(name, paramPrefix)
	}
	if !sends && !l.modern() {
		return nil, nil
	}
	schema, _, err := k.schema(ctx, tool)
	if err != nil && sends {
		return nil, k.failed502(err)
	}
	p, ok := paramsOf(schema)
	if !ok {
		return nil, &rpcError{code: codeParams, message: "the server defines this tool as the protocol does not allow it (" + paramMember + ")"}
	}
	out, wrong := p.headers(x.params.Get("arguments"), sent)
	if wrong != "" {
		return nil, mismatch(wrong)
	}
	return out, nil
}

// forward sends the request to a server, and passes on what that answers.
func (x *exchange) forward(ctx context.Context, k *call, r request) *rpcError {
	if f := x.checkParams(ctx, k, &r); f != nil {
		return f
	}
	end, f := x.admit(k)
	if f != nil {
		return f
	}
	defer end()
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if x.session != (nonce{}) { // without one, ids are of several clients
		key := flight{x.caller.Account, x.session, string(x.id)}
		x.inFlight.Store(key, cancel)
		defer x.inFlight.Delete(key)
	}
	ctx, heard, stop := k.quietly(ctx)
	defer stop()
	err := x.relay(ctx, k, r, heard)
	k.measure(x.method, began, err)
	if err == nil || err == errServer { //nolint:errorlint // it is never wrapped
		return nil
	}
	if x.streams() {
		x.event(appendError(nil, x.id, k.failed502(err)))
		return nil
	}
	return k.failed502(err)
}

// relay passes a request on, and opens a new session at a server that has lost the old one: it did not process the request.
func (x *exchange) relay(ctx context.Context, k *call, r request, heard func()) error {
	for again := true; ; again = false {
		l, err := k.link(ctx)
		if err != nil {
			return err
		}
		r.id = k.lastID.Add(1)
		err = x.sendAndPass(ctx, k, l, r, heard)
		if f, ok := errors.AsType[failure](err); ok && f.lost && again {
			k.forget(l)
			continue
		}
		if err != nil && !l.modern() && context.Cause(ctx) != nil {
			k.cancel(ctx, l, r.id)
		}
		return err
	}
}

func (x *exchange) sendAndPass(ctx context.Context, k *call, l *link, r request, heard func()) error {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	a, err := k.send(ctx, l, r)
	if err != nil {
		return err
	}
	defer a.close()
	a.heard = heard
	return x.pass(ctx, a)
}

// cancel notifies a server without the modern revision, where the end of a connection means nothing, that nobody waits for a request any more.
func (k *call) cancel(ctx context.Context, l *link, id uint64) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	params := append(strconv.AppendUint([]byte(`{"requestId":`), id, 10), '}')
	if a, err := k.send(own, l, request{method: "notifications/cancelled", params: params, note: true}); err == nil {
		a.close()
	}
}

// pass passes an answer on: notifications as they come, and the response.
func (x *exchange) pass(ctx context.Context, a *answer) error {
	for r, err := range a.messages(ctx) {
		switch {
		case err != nil:
			return err
		case r.isOf(a.id):
			return x.respond(&r)
		case r.method != "" && r.id == nil:
			x.notify(&r)
		case r.method != "":
			a.refuse(ctx, &r)
		}
	}
	return failure{why: brokenOff}
}

// respond answers with a server's response. The error is errServer if that is an error, which the client has then.
func (x *exchange) respond(r *reply) (err error) {
	var b []byte
	if r.error.Exists() {
		b, err = append(append(appendHead(nil, x.id, "error"), r.error.Raw...), '}'), errServer
	} else {
		b = responseOf(x.id, x.complete(r.result.Raw))
	}
	if x.streams() {
		x.event(b)
	} else {
		x.reply(http.StatusOK, b)
	}
	return err
}

// notify passes a notification on, unless the client accepts no stream.
func (x *exchange) notify(r *reply) {
	if !strings.HasPrefix(r.method, "notifications/") || !strings.Contains(x.r.Header.Get("Accept"), "text/event-stream") {
		return
	}
	x.event(r.raw)
}

// streams reports whether the answer is a stream of events.
func (x *exchange) streams() bool { return x.w.Header().Get("Content-Type") == eventStream }

const eventStream = "text/event-stream"

// event sends a message as an event.
func (x *exchange) event(b []byte) {
	if !x.streams() {
		h := x.w.Header()
		h.Set("Content-Type", eventStream)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	_, _ = x.w.Write(sse.AppendEvent(nil, "message", b)) // the request's context is over if the client has disconnected
	_ = http.NewResponseController(x.w).Flush()
}
