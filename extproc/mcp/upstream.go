package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/xds/state"
)

// Limits of a server's answer, in bytes: of a message, and of all messages of a stream together.
const (
	maxReply  = 16 << 20
	maxStream = 256 << 20
	maxRefuse = 64 << 10 // of an answer with an error status
)

// The reasons of failures.
const (
	unreachable  = "unreachable"
	timedOut     = "timeout"
	unauthorized = "unauthorized" // the server refuses the gateway's credential
	badStatus    = "bad_status"
	badAnswer    = "bad_answer"
	badVersion   = "unsupported_version"
	brokenOff    = "broken_off"
	tooLarge     = "too_large"
	cancelled    = "cancelled" // by the client
	busy         = "busy"      // it has as many calls under way as it may have
)

// failure is why a server did not answer as it should.
type failure struct {
	why    string
	status int  // of HTTP, for badStatus
	lost   bool // the server does not know the session any more
}

// Error implements error.
func (f failure) Error() string { return "the MCP server did not answer: " + f.why }

// errServer is the failure of a request that a server answers with an error.
var errServer = failure{why: "error"}

// errQuiet is the cause of a call whose server has sent nothing for too long.
var errQuiet = errors.New("the server has sent nothing for too long")

// failureOf is the failure of a call whose context may be over.
func failureOf(ctx context.Context, otherwise string) failure {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return failure{why: otherwise}
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, errQuiet):
		return failure{why: timedOut}
	}
	return failure{why: cancelled}
}

// request is a request to a server.
type request struct {
	method string
	name   string      // of what it is about, which some revisions have in a header
	params jsonx.Raw   // nil for none
	note   bool        // a notification
	id     uint64      // 0: send chooses one
	header http.Header // further headers
}

// send sends a request, and returns its answer.
func (k *call) send(ctx context.Context, l *link, r request) (*answer, error) {
	a := &answer{call: k, link: l, id: r.id}
	if !r.note && a.id == 0 {
		a.id = k.lastID.Add(1)
	}
	var err error
	if r.params, err = k.paramsFor(l, r.params); err != nil {
		return nil, failure{why: badAnswer}
	}
	req, err := k.newRequest(ctx, http.MethodPost, l, appendRequest(nil, a.id, r.method, r.params))
	if err != nil {
		return nil, failure{why: unreachable}
	}
	if l.modern() {
		maps.Copy(req.Header, r.header)
		req.Header.Set(headerMethod, r.method)
		if r.name != "" {
			req.Header.Set(headerName, encodeName(r.name))
		}
	}
	if a.http, err = k.Client.Do(req); err != nil { //nolint:bodyclose // close does it
		return nil, failureOf(ctx, unreachable)
	}
	if err := a.accept(ctx, r.note); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// newRequest returns a request through Envoy's egress listener. It has none of the client's headers: above all not its credential.
func (k *call) newRequest(ctx context.Context, method string, l *link, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://egress"+k.server.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Host = k.server.Host
	req.Header.Set("User-Agent", "bardo-mcp/1")
	if body != nil {
		req.Header.Set("Content-Type", header.JSON)
		req.Header.Set("Accept", header.JSON+", text/event-stream")
	}
	if l.version != "" {
		req.Header.Set(headerVersion, l.version)
	}
	if l.session != "" {
		req.Header.Set(headerSession, l.session)
	}
	if t := k.server.Token; t.IsSet() {
		value := t.Reveal()
		if strings.EqualFold(k.server.Header, "authorization") {
			value = "Bearer " + value
		}
		req.Header.Set(k.server.Header, value)
	}
	req.Header.Set(state.HeaderCluster, k.server.Cluster)
	req.Header.Set(state.HeaderExchange, k.caller.Secret+"."+k.caller.Request)
	return req, nil
}

// The members of _meta that a request of the modern revision has.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServer       = "io.modelcontextprotocol/serverInfo"
)

// paramsFor returns params with what the server's revision requires in _meta, and without what only the client's does. What a client of the modern revision
// has said about itself stays for a server of that revision.
func (k *call) paramsFor(l *link, params jsonx.Raw) (jsonx.Raw, error) {
	if !l.modern() && !bytes.Contains(params, []byte("io.modelcontextprotocol")) {
		return params, nil
	}
	if params == nil {
		params = jsonx.Raw("{}")
	}
	doc, err := jsonx.Scan(params)
	if err != nil {
		return nil, err
	}
	raw := doc.Get("_meta").Raw
	if raw == nil {
		raw = jsonx.Raw("{}")
	}
	meta, err := jsonx.Scan(raw)
	if err != nil {
		return nil, err
	}
	var e jsonx.Edits
	for member, value := range map[string][]byte{metaClient: k.clientInfo(), metaCapabilities: []byte("{}")} {
		switch {
		case !l.modern():
			e.Delete(&meta, member)
		case !meta.Get(member).Exists():
			e.Set(&meta, member, value)
		}
	}
	if l.modern() {
		e.Set(&meta, metaVersion, jsonx.Raw(`"`+modern+`"`))
	} else {
		e.Delete(&meta, metaVersion)
		e.Delete(&meta, metaLogLevel)
	}
	var outer jsonx.Edits
	outer.Set(&doc, "_meta", e.AppendTo(nil, &meta))
	return outer.AppendTo(nil, &doc), nil
}

// The encoding of names that cannot be values of headers as they are.
const base64Start, base64End = "=?base64?", "?="

// encodeName returns a name as a header's value.
func encodeName(name string) string {
	plain := name == strings.TrimSpace(name) && (!strings.HasPrefix(name, base64Start) || !strings.HasSuffix(name, base64End))
	for _, c := range []byte(name) {
		plain = plain && c >= 0x20 && c <= 0x7e
	}
	if plain {
		return name
	}
	return base64Start + base64.StdEncoding.EncodeToString([]byte(name)) + base64End
}

// decodeName is the inverse of encodeName; ok is false for a value that nobody encodes.
func decodeName(value string) (name string, ok bool) {
	for _, c := range []byte(value) {
		if (c < 0x20 || c > 0x7e) && c != '\t' {
			return "", false
		}
	}
	in, ok := strings.CutPrefix(value, base64Start)
	if !ok {
		return value, true
	}
	if in, ok = strings.CutSuffix(in, base64End); !ok {
		return value, true
	}
	b, err := base64.StdEncoding.DecodeString(in)
	return string(b), err == nil
}

// answer is a server's answer to one request.
type answer struct {
	*call

	link    *link
	id      uint64 // of the request
	http    *http.Response
	streams bool   // events; else one message
	refused []byte // the body of an answer with an error status, if it is a response
	heard   func() // called for each piece of a stream that arrives; may be nil
}

func (a *answer) close() { _ = a.http.Body.Close() }

// accept looks at the head of the answer.
func (a *answer) accept(ctx context.Context, note bool) error {
	status := a.http.StatusCode
	kind, _, _ := mime.ParseMediaType(a.http.Header.Get("Content-Type"))
	switch {
	case a.http.Header.Get(state.HeaderFailure) != "":
		return failureOf(ctx, unreachable)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return failure{why: unauthorized}
	case status == http.StatusNotFound && a.link.session != "":
		return failure{why: badStatus, status: status, lost: true}
	case status/100 != 2:
		return a.acceptRefusal(ctx, kind)
	case note:
		return nil
	case kind == "text/event-stream":
		a.streams = true
	case kind != header.JSON:
		return failure{why: badAnswer}
	}
	return nil
}

// acceptRefusal accepts an answer with an error status if it is a response of JSON-RPC.
func (a *answer) acceptRefusal(ctx context.Context, kind string) error {
	if kind == header.JSON {
		b, err := io.ReadAll(io.LimitReader(a.http.Body, maxRefuse))
		if err != nil {
			return failureOf(ctx, brokenOff)
		}
		if r, ok := parseReply(b); ok && r.isOf(a.id) && r.error.Exists() {
			a.refused = b
			return nil
		}
	}
	return failure{why: badStatus, status: a.http.StatusCode}
}

// messages yields the messages of the answer, and why there are no more. A message is valid until the next one.
func (a *answer) messages(ctx context.Context) iter.Seq2[reply, error] {
	return func(yield func(reply, error) bool) {
		if !a.streams {
			yield(a.single(ctx))
			return
		}
		scanner := sse.Scanner{Max: maxReply}
		buf, total := make([]byte, 32<<10), 0
		for {
			n, err := a.http.Body.Read(buf)
			if a.heard != nil {
				a.heard()
			}
			frames := scanner.Next(buf[:n])
			if total += n; total > maxStream {
				yield(reply{}, failure{why: tooLarge})
				return
			}
			if !yieldFrames(frames, yield) {
				return
			}
			if errors.Is(err, io.EOF) {
				if yieldFrames(scanner.End(), yield) {
					yield(reply{}, failure{why: brokenOff})
				}
				return
			}
			if err != nil {
				yield(reply{}, failureOf(ctx, brokenOff))
				return
			}
		}
	}
}

// yieldFrames yields the messages of frames; more is false if no more are wanted.
func yieldFrames(frames []sse.Frame, yield func(reply, error) bool) (more bool) {
	for i := range frames {
		f := &frames[i]
		switch {
		case f.TooLong:
			return yield(reply{}, failure{why: tooLarge}) && false
		case len(bytes.TrimSpace(f.Data)) == 0 || len(f.Event) > 0 && string(f.Event) != "message": // a comment, or the start of a resumable stream
			continue
		}
		r, ok := parseReply(f.Data)
		if !ok {
			return yield(reply{}, failure{why: badAnswer}) && false
		}
		if !yield(r, nil) {
			return false
		}
	}
	return true
}

// single is the message of an answer that is no stream.
func (a *answer) single(ctx context.Context) (reply, error) {
	b := a.refused
	if b == nil {
		var err error
		if b, err = io.ReadAll(io.LimitReader(a.http.Body, maxReply+1)); err != nil {
			return reply{}, failureOf(ctx, brokenOff)
		}
	}
	if len(b) > maxReply {
		return reply{}, failure{why: tooLarge}
	}
	r, ok := parseReply(b)
	if !ok || r.method != "" {
		return reply{}, failure{why: badAnswer}
	}
	return r, nil
}

// response waits for the response, and skips other messages.
func (a *answer) response(ctx context.Context) (reply, error) {
	for r, err := range a.messages(ctx) {
		if err != nil || r.isOf(a.id) {
			return r, err
		}
	}
	return reply{}, failure{why: brokenOff}
}

// refuse answers a request of the server: the gateway has no capabilities of a client.
func (a *answer) refuse(ctx context.Context, r *reply) {
	body := appendError(nil, r.id, &rpcError{code: codeNoMethod, message: "this client does not take " + strconv.Quote(r.method)})
	if r.method == "ping" {
		body = responseOf(r.id, jsonx.Raw("{}"))
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if req, err := a.newRequest(ctx, http.MethodPost, a.link, body); err == nil {
		if resp, err := a.Client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
}

// quietly returns a context that ends when the server has sent nothing for the server's timeout, or after maxCall. heard starts the wait anew.
func (k *call) quietly(ctx context.Context) (own context.Context, heard, stop func()) {
	own, cancel := context.WithCancelCause(ctx)
	quiet := time.AfterFunc(k.server.Timeout, guard.Func(func() { cancel(errQuiet) }))
	whole := time.AfterFunc(maxCall, guard.Func(func() { cancel(errQuiet) }))
	return own, func() { quiet.Reset(k.server.Timeout) }, func() {
		quiet.Stop()
		whole.Stop()
		cancel(nil)
	}
}

// maxCall limits a call that goes on sending messages.
const maxCall = time.Hour

// elements are the elements of an array.
func elements(v jsonx.Value) iter.Seq[jsonx.Value] {
	return func(yield func(jsonx.Value) bool) {
		for _, e := range v.Each {
			if !yield(e) {
				return
			}
		}
	}
}

// describe is a failure as the client reads it.
func (f failure) describe(server string) string {
	switch f.why {
	case unauthorized:
		return fmt.Sprintf("the MCP server %s refuses the gateway's credential", server)
	case timedOut:
		return fmt.Sprintf("the MCP server %s did not answer in time", server)
	case unreachable:
		return fmt.Sprintf("the MCP server %s cannot be reached", server)
	case busy:
		return fmt.Sprintf("the MCP server %s has as many calls under way as it may have (mcp.servers.%[1]s.max_concurrent)", server)
	case badStatus:
		return fmt.Sprintf("the MCP server %s answered with status %d", server, f.status)
	}
	return fmt.Sprintf("the MCP server %s did not answer as it should (%s)", server, f.why)
}
