package mcp

import (
	"strconv"

	"bardo.money/gateway/internal/jsonx"
)

// The codes of errors that clients get: JSON-RPC's, those of the protocol, and three of this gateway, from the range for implementations.
const (
	codeParse          = -32700
	codeInvalid        = -32600
	codeNoMethod       = -32601
	codeParams         = -32602
	codeRefused        = -32010 // a rule of the operator
	codeUpstream       = -32011 // the server did not answer as it should
	codeLimited        = -32012 // the key has too many calls under way
	codeSession        = -32001 // as the official SDKs write it
	codeHeaderMismatch = -32020
	codeVersion        = -32022
)

// maxID limits a request's id, in bytes.
const maxID = 512

// form rejects messages that readers interpret differently. The names of arguments are the tool's; rules check them.
var form = func() *jsonx.Form {
	params := jsonx.NewForm("name", "uri", "cursor", "requestId", "protocolVersion").Add(jsonx.Unique, "_meta").Add(nil, "arguments")
	return jsonx.NewForm("jsonrpc", "id", "method").Add(params, "params").Add(nil, "result", "error")
}()

// message is a client's message.
type message struct {
	id     jsonx.Raw // nil for a notification
	method string    // "" for a response
	params jsonx.Value
}

// rpcError is an error of JSON-RPC.
type rpcError struct {
	status  int // of HTTP; 0 means 200
	code    int
	message string
	data    jsonx.Raw // nil for none
}

// parse reads a message. The text must not change while the message is used.
func parse(b []byte) (m message, f *rpcError) {
	doc, err := form.Scan(b)
	if err != nil {
		return m, &rpcError{status: 400, code: codeParse, message: "the body is not one JSON-RPC message: " + err.Error()}
	}
	invalid := func(why string) (message, *rpcError) {
		return message{}, &rpcError{status: 400, code: codeInvalid, message: why}
	}
	if !doc.Get("jsonrpc").Equal("2.0") {
		return invalid(`jsonrpc must be "2.0"`)
	}
	if id := doc.Get("id"); id.Exists() {
		if m.id = id.Raw; !isID(id) {
			return invalid("id must be a string or an integer")
		}
	}
	if v := doc.Get("method"); v.Exists() {
		if m.method, _ = v.Str(); m.method == "" {
			return invalid("method must be a string")
		}
	} else if m.id == nil || !doc.Get("result").Exists() && !doc.Get("error").Exists() {
		return invalid("method is missing")
	}
	if m.params = doc.Get("params"); m.params.Exists() && m.params.Kind() != jsonx.Object {
		return invalid("params must be an object")
	}
	return m, nil
}

// isID reports whether a value can be a request's id.
func isID(v jsonx.Value) bool {
	if len(v.Raw) > maxID {
		return false
	}
	if v.Kind() == jsonx.Number {
		_, ok := v.Int()
		return ok
	}
	return v.Kind() == jsonx.String
}

// responseOf is the response with a result.
func responseOf(id, result jsonx.Raw) []byte {
	return append(append(appendHead(nil, id, "result"), result...), '}')
}

// appendError appends the response with an error. Without an id it has none.
func appendError(b []byte, id jsonx.Raw, f *rpcError) []byte {
	b = strconv.AppendInt(append(appendHead(b, id, "error"), `{"code":`...), int64(f.code), 10)
	b = jsonx.AppendString(append(b, `,"message":`...), f.message)
	if f.data != nil {
		b = append(append(b, `,"data":`...), f.data...)
	}
	return append(b, "}}"...)
}

func appendHead(b []byte, id jsonx.Raw, member string) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != nil {
		b = append(append(append(b, `"id":`...), id...), ',')
	}
	return append(append(append(b, '"'), member...), `":`...)
}

// appendRequest appends a request, or a notification if its id is 0.
func appendRequest(b []byte, id uint64, method string, params jsonx.Raw) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id > 0 {
		b = append(strconv.AppendUint(append(b, `"id":`...), id, 10), ',')
	}
	b = jsonx.AppendString(append(b, `"method":`...), method)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// reply is a message of a server.
type reply struct {
	raw    []byte
	id     jsonx.Raw // nil for a notification
	method string    // of a notification or a request; "" for a response
	result jsonx.Value
	error  jsonx.Value
}

// parseReply reads a server's message; ok is false for anything else.
func parseReply(b []byte) (r reply, ok bool) {
	doc, err := jsonx.Scan(b)
	if err != nil || !doc.Get("jsonrpc").Equal("2.0") {
		return r, false
	}
	r.raw = doc.Bytes
	if id := doc.Get("id"); !id.IsNull() {
		if r.id = id.Raw; !isID(id) {
			return r, false
		}
	}
	if v := doc.Get("method"); v.Exists() {
		r.method, ok = v.Str()
		return r, ok && r.method != ""
	}
	r.result, r.error = doc.Get("result"), doc.Get("error")
	return r, r.id != nil && r.result.Kind() == jsonx.Object && !r.error.Exists() || r.error.Kind() == jsonx.Object && !r.result.Exists()
}

// isOf reports whether the message is the response to a request of this gateway. An error may be without id: the server could not read the request.
func (r *reply) isOf(id uint64) bool {
	return r.method == "" && (string(r.id) == strconv.FormatUint(id, 10) || r.id == nil)
}
