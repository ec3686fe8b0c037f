package realtime

import (
	"net/http"
	"net/url"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// path is that of sessions, as in the documentation.
const path = "/v1/realtime"

// protocolKey is the prefix of the subprotocol in which browsers send their key: they cannot set headers.
const protocolKey = "openai-insecure-api-key."

// Head returns the head of a handshake that Envoy forwarded. A key in the subprotocols is moved to where other requests have it.
func Head(r *http.Request) stream.Head {
	all := header.List{{Name: ":method", Value: r.Method}, {Name: ":path", Value: r.RequestURI}, {Name: ":authority", Value: r.Host}}
	for _, f := range upstream.HeaderList(r.Header) {
		if f.Name != protocolHeader {
			all = append(all, f)
		}
	}
	for _, protocol := range protocols(r) {
		if key, ok := strings.CutPrefix(protocol, protocolKey); ok && !all.Has("authorization") {
			all = append(all, header.Field{Name: "authorization", Value: "Bearer " + key})
		}
	}
	return stream.NewHead(all, r.Header.Get(state.HeaderPeer))
}

const protocolHeader = "sec-websocket-protocol"

// protocols returns the subprotocols that a client offers.
func protocols(r *http.Request) (list []string) {
	for _, v := range r.Header.Values(protocolHeader) {
		for p := range strings.SplitSeq(v, ",") {
			list = append(list, strings.TrimSpace(p))
		}
	}
	return list
}

// ModelOf returns the model in the query of a session's address. Other parameters, such as the id of a call, are of parts of OpenAI's API that are
// not supported. The error is a fault.
func ModelOf(query string) (string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fault.Newf(fault.InvalidRequest, "the query of the address cannot be parsed")
	}
	for name := range values {
		if name != "model" {
			f := fault.Newf(fault.InvalidRequest, "the parameter %q of realtime sessions is not supported: name a model", fault.Clip(name))
			f.Param = fault.Clip(name)
			return "", f
		}
	}
	if list := values["model"]; len(list) == 1 && list[0] != "" {
		return list[0], nil
	}
	f := fault.Newf(fault.InvalidRequest, "name one model in the address: %s?model=gpt-realtime", path)
	f.Param = "model"
	return "", f
}
