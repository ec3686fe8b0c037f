package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// exchange is one request of a client.
type exchange struct {
	*Gateway
	message

	w       http.ResponseWriter
	r       *http.Request
	caller  *Caller
	session nonce // of the client; the zero value is none
	modern  bool  // the request names its revision itself
}

// Serve answers a request. Its errors are those of JSON-RPC.
func (g *Gateway) Serve(w http.ResponseWriter, r *http.Request, c *Caller) {
	x := &exchange{Gateway: g, w: w, r: r, caller: c}
	if r.Method == http.MethodDelete {
		x.end()
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		x.fail(&rpcError{status: http.StatusBadRequest, code: codeParse, message: "the body cannot be read"})
		return
	}
	m, f := parse(body)
	if f == nil {
		x.message = m
		f = x.open()
	}
	if f == nil {
		f = x.answer(r.Context())
	}
	if f != nil {
		x.fail(f)
	}
}

// open finds out the revision and the session of the request.
func (x *exchange) open() *rpcError {
	version := x.r.Header.Get(headerVersion)
	named := x.params.Get("_meta").Get(metaVersion)
	if x.modern = named.Exists() || version >= modern && version != ""; x.modern {
		return x.openModern(version, named)
	}
	if version != "" && !slices.Contains(legacy, version) {
		return unsupported(version)
	}
	id := x.r.Header.Get(headerSession)
	if id == "" || x.method == "initialize" {
		return nil
	}
	var ok bool
	if x.session, ok = x.Gateway.session(x.caller.Account, id); !ok {
		return &rpcError{status: http.StatusNotFound, code: codeSession, message: "there is no such session of this key: initialize again"}
	}
	return nil
}

// unsupported is the error of a request of an unknown revision.
func unsupported(version string) *rpcError {
	data := []byte(`{"supported":["` + modern + `","` + strings.Join(legacy, `","`) + `"],"requested":`)
	return &rpcError{
		status: http.StatusBadRequest, code: codeVersion, message: "Unsupported protocol version", data: append(jsonx.AppendString(data, version), '}'),
	}
}

// mismatch is the error of a request whose header does not say what its body says.
func mismatch(header string) *rpcError {
	return &rpcError{status: http.StatusBadRequest, code: codeHeaderMismatch, message: "the header " + header + " is missing, or differs from the body"}
}

// openModern checks that the headers of a request say what its body says, as intermediaries rely on them.
func (x *exchange) openModern(version string, named jsonx.Value) *rpcError {
	switch {
	case !named.Equal(version):
		return mismatch(headerVersion)
	case version != modern:
		return unsupported(version)
	case x.id == nil:
		return nil
	case x.r.Header.Get(headerMethod) != x.method:
		return mismatch(headerMethod)
	}
	if of, ok := nameMembers[x.method]; ok {
		if name, ok := decodeName(x.r.Header.Get(headerName)); !ok || !x.params.Get(of).Equal(name) {
			return mismatch(headerName)
		}
	}
	return nil
}

// nameMembers are the members of params that requests of the modern revision repeat in a header.
var nameMembers = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// answer answers a message.
func (x *exchange) answer(ctx context.Context) *rpcError {
	if x.id == nil || x.method == "" { // there is no request of a server that a client could respond to
		x.notified()
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	switch x.method {
	case "initialize":
		if !x.modern {
			return x.initialize(ctx)
		}
	case "ping":
		if !x.modern {
			return x.result(jsonx.Raw("{}"))
		}
	case "server/discover":
		if x.modern {
			return x.discover(ctx)
		}
	case "tools/call", "prompts/get":
		return x.callNamed(ctx)
	case "resources/read", "completion/complete":
		if s := x.single(); s != nil {
			name := ""
			if of, ok := nameMembers[x.method]; ok {
				name, _ = x.params.Get(of).Str()
			}
			return x.forward(ctx, &call{x.Gateway, x.caller, s, x.session}, request{method: x.method, name: name, params: x.params.Raw})
		}
	}
	if of, ok := listings[x.method]; ok && (of.named || x.caller.Single != "") {
		return x.list(ctx)
	}
	return x.noMethod()
}

func (x *exchange) noMethod() *rpcError {
	f := &rpcError{code: codeNoMethod, message: "Method not found"}
	if x.modern {
		f.status = http.StatusNotFound
	}
	return f
}

// servers are those that the caller may use: all, or the one of the path.
func (x *exchange) servers() (list []*Server) {
	for i := range x.caller.Servers {
		s := &x.caller.Servers[i]
		if s.serves(x.caller) && (x.caller.Single == "" || x.caller.Single == s.Name) {
			list = append(list, s)
		}
	}
	return list
}

// single is the server of the path; nil for all.
func (x *exchange) single() *Server {
	if x.caller.Single == "" {
		return nil
	}
	return x.servers()[0] // Has was asked before
}

// Has reports whether the caller may use the server of its path, or the path is that of all servers.
func (c *Caller) Has() bool {
	return c.Single == "" || slices.ContainsFunc(c.Servers, func(s Server) bool { return s.Name == c.Single && s.serves(c) })
}

// initialize begins a session.
func (x *exchange) initialize(ctx context.Context) *rpcError {
	version, _ := x.params.Get("protocolVersion").Str()
	if !slices.Contains(legacy, version) {
		version = legacy[0]
	}
	id := x.newSession(x.caller.Account)
	x.session, _ = x.Gateway.session(x.caller.Account, id)
	b := jsonx.AppendString([]byte(`{"protocolVersion":`), version)
	b = append(append(b, `,"serverInfo":`...), x.serverInfo()...)
	b, f := x.describe(ctx, append(b, ','))
	if f != nil {
		return f
	}
	x.w.Header().Set(headerSession, id)
	return x.result(append(b, '}'))
}

// discover answers what the gateway can do.
func (x *exchange) discover(ctx context.Context) *rpcError {
	b := []byte(`{"supportedVersions":["` + modern + `","` + strings.Join(legacy, `","`) + `"],"_meta":{"` + metaServer + `":`)
	b = append(append(b, x.serverInfo()...), `},`...)
	b, f := x.describe(ctx, b)
	if f != nil {
		return f
	}
	return x.result(append(b, '}'))
}

func (x *exchange) serverInfo() []byte {
	return append(jsonx.AppendString([]byte(`{"name":"bardo","title":"Bardo MCP gateway","version":`), x.Version), '}')
}

// capabilities are those of servers that the gateway has itself, in the order in which it lists them.
var capabilities = []string{"tools", "prompts", "resources", "completions"}

// describe appends capabilities and instructions: those of the path's server, as far as the gateway has them itself, or its own.
func (x *exchange) describe(ctx context.Context, b []byte) ([]byte, *rpcError) {
	s := x.single()
	if s == nil {
		return append(b, `"capabilities":{"tools":{},"prompts":{}}`...), nil
	}
	k := call{x.Gateway, x.caller, s, x.session}
	began := time.Now()
	l, err := k.link(ctx)
	k.measure(x.method, began, err)
	if err != nil {
		return nil, k.failed502(err)
	}
	b = append(b, `"capabilities":{`...)
	for _, name := range capabilities {
		if l.can(name) {
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			b = append(jsonx.AppendString(b, name), ":{}"...)
		}
	}
	b = append(b, '}')
	if l.instructions != "" {
		b = jsonx.AppendString(append(b, `,"instructions":`...), l.instructions)
	}
	return b, nil
}

// list answers with a list, in one page.
func (x *exchange) list(ctx context.Context) *rpcError {
	if x.params.Get("cursor").Exists() {
		return &rpcError{code: codeParams, message: "this list has one page, and no cursor"}
	}
	servers := x.servers()
	lists := x.listAll(ctx, servers, x.method)
	if x.caller.Single != "" {
		if err := lists[0].err; err != nil {
			return (&call{x.Gateway, x.caller, servers[0], x.session}).failed502(err)
		}
	}
	return x.result(x.listResult(x.method, servers, lists))
}

// cacheable are the methods whose results say for how long they are valid.
var cacheable = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}

// result answers with a result.
func (x *exchange) result(raw jsonx.Raw) *rpcError {
	x.reply(http.StatusOK, responseOf(x.id, x.complete(raw)))
	return nil
}

// complete adds to a result what the client's revision requires.
func (x *exchange) complete(raw jsonx.Raw) jsonx.Raw {
	if !x.modern {
		return raw
	}
	doc, err := jsonx.Scan(raw)
	if err != nil {
		return raw
	}
	var e jsonx.Edits
	if !doc.Get("resultType").Exists() {
		e.Set(&doc, "resultType", jsonx.Raw(`"complete"`))
	}
	if slices.Contains(cacheable, x.method) && !doc.Get("resultType").Equal("input_required") {
		e.Set(&doc, "cacheScope", jsonx.Raw(`"private"`)) // it depends on the caller
		if !doc.Get("ttlMs").Exists() {
			e.Set(&doc, "ttlMs", jsonx.Raw("0"))
		}
	}
	return e.AppendTo(nil, &doc)
}

// fail answers with an error.
func (x *exchange) fail(f *rpcError) {
	status := f.status
	if status == 0 {
		status = http.StatusOK
	}
	x.reply(status, appendError(nil, x.id, f))
}

func (x *exchange) reply(status int, b []byte) {
	x.w.Header().Set("Content-Type", header.JSON)
	x.w.WriteHeader(status)
	_, _ = x.w.Write(b) // a client that has disconnected needs no answer
}

// notified acts on a notification.
func (x *exchange) notified() {
	if x.method != "notifications/cancelled" || x.modern {
		return
	}
	if cancel, ok := x.inFlight.Load(flight{x.caller.Account, x.session, string(x.params.Get("requestId").Raw)}); ok {
		cancel.(context.CancelCauseFunc)(errCancelled) //nolint:forcetypeassert // the only type there
	}
}

// end ends the client's session.
func (x *exchange) end() {
	n, ok := x.Gateway.session(x.caller.Account, x.r.Header.Get(headerSession))
	if !ok {
		x.fail(&rpcError{status: http.StatusNotFound, code: codeSession, message: "there is no such session of this key"})
		return
	}
	x.ended.Add(n, struct{}{})
	x.endLinks(x.r.Context(), x.caller, n)
	x.w.WriteHeader(http.StatusNoContent)
}

// measure counts a request to the server.
func (k *call) measure(method string, began time.Time, err error) {
	result := "ok"
	if f, ok := errors.AsType[failure](err); ok {
		result = f.why
	} else if err != nil { // a panic
		result = badAnswer
	}
	k.Meter.MCPRequest(k.server.Name, method, result, time.Since(began))
	if err != nil && result != cancelled && result != errServer.why { // a server's error is usually its caller's
		k.Log.Warn("an MCP server did not answer as it should", "server", k.server.Name, "method", method, "reason", result, "request", k.caller.Request)
	}
}

// failed502 is the client's error for a server that did not answer as it should.
func (k *call) failed502(err error) *rpcError {
	f, ok := errors.AsType[failure](err)
	if !ok {
		f.why = badAnswer
	}
	data := jsonx.AppendString([]byte(`{"server":`), k.server.Name)
	return &rpcError{code: codeUpstream, message: f.describe(k.server.Name), data: append(jsonx.AppendString(append(data, `,"reason":`...), f.why), '}')}
}
