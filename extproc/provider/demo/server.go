// Package demo is a stand-in provider for trying the gateway without a key: a server with fixed rules, and the adapter that calls it like
// any other provider. There is no model behind it, and every answer states so.
//
// The answer names the requested model, the number of messages and tools, and the last user text. On "call TOOL {json}" it calls that tool
// if the request declares it. For a JSON schema it returns a generated value that the schema allows, for a JSON object the same content as
// an object. Requested thinking is one sentence. A token is counted for every four bytes. At most 1,000 bytes of a text are repeated, n
// sets the number of choices, and a stop sequence ends a text. Equal requests get equal answers. Parameters without effect are named as degraded.
package demo

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Server is the demo provider's HTTP handler for OpenAI Chat Completions and Anthropic Messages. The zero value answers without delay. Safe
// for concurrent use.
type Server struct {
	Gap      time.Duration // between the words of a streamed answer
	MaxBytes int64         // of a request's body; zero means 32 MiB
}

// wordGap makes streaming visible: an answer of twenty words takes a tenth of a second.
const wordGap = 5 * time.Millisecond

// NewServer returns the server that a gateway runs in-process.
func NewServer() Server { return Server{Gap: wordGap} }

const (
	defaultMaxBytes = 32 << 20
	created         = 1767225600 // constant, so that the same request gets the same bytes
)

// ServeHTTP answers one request. Paths may have any prefix before the dialect's own.
func (s Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/models") && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		writeJSON(w, http.StatusOK, []byte(`{"object":"list","data":[{"id":"demo","object":"model","created":1767225600,"owned_by":"bardo"}]}`))
	case r.Method != http.MethodPost:
		writeFault(w, openai.Dialect{}, fault.Newf(fault.MethodNotAllowed, "the demo provider does not take %s %s", r.Method, path))
	case strings.HasSuffix(path, "/chat/completions"):
		s.serve(w, r, openai.Dialect{}, chat.Generate)
	case strings.HasSuffix(path, "/messages"):
		s.serve(w, r, anthropic.Dialect{}, chat.Generate)
	case strings.HasSuffix(path, "/messages/count_tokens"):
		s.serve(w, r, anthropic.Dialect{}, chat.CountTokens)
	default:
		writeFault(w, openai.Dialect{}, fault.Newf(fault.NotFound, "the demo provider has no %s", path))
	}
}

func (s Server) serve(w http.ResponseWriter, r *http.Request, d wire.Dialect, op chat.Op) {
	req, conv, err := s.read(w, r, d, op)
	if err != nil {
		writeFault(w, d, err)
		return
	}
	if op == chat.CountTokens {
		n := strconv.AppendInt([]byte(`{"input_tokens":`), tokens(len(req.Doc.Bytes)), 10)
		writeJSON(w, http.StatusOK, append(n, '}'))
		return
	}
	events := answer(req, conv)
	enc := d.NewEncoder(wire.Options{Stream: req.Stream, Model: req.Model, RequestID: events[0].ID, ShowUsage: true, Created: created})
	if req.Stream {
		s.stream(w, r, enc, events)
		return
	}
	var body []byte
	for i := range events {
		body = enc.Append(body, &events[i])
	}
	writeJSON(w, http.StatusOK, body)
}

func (s Server) read(w http.ResponseWriter, r *http.Request, d wire.Dialect, op chat.Op) (*chat.Request, *chat.Conversation, error) {
	limit := s.MaxBytes
	if limit == 0 {
		limit = defaultMaxBytes
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, nil, fault.New(fault.TooLarge, fmt.Sprintf("the demo provider reads at most %d bytes", limit), err)
	}
	req, err := d.Decode(op, headers(r.Header), r.URL.RawQuery, body)
	if err != nil {
		return nil, nil, err
	}
	conv, err := req.Conversation()
	return req, conv, err
}

func headers(h http.Header) header.List {
	var l header.List
	for name, values := range h {
		for _, v := range values {
			l = append(l, header.Field{Name: strings.ToLower(name), Value: v})
		}
	}
	return l
}

// stream writes the events, with a pause after each word.
func (s Server) stream(w http.ResponseWriter, r *http.Request, enc wire.Encoder, events []chat.Event) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	var buf []byte
	for i := range events {
		buf = enc.Append(buf, &events[i])
		word := events[i].Kind == chat.Text || events[i].Kind == chat.Thought
		if s.Gap == 0 || !word {
			continue
		}
		if _, err := w.Write(buf); err != nil || flush.Flush() != nil || !pause(r, s.Gap) { //nolint:gosec // an event stream, not HTML
			return // the client disconnected
		}
		buf = buf[:0]
	}
	_, _ = w.Write(buf) //nolint:gosec // not HTML; an error means that the client disconnected
}

// pause returns false if the client disconnected.
func pause(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func writeFault(w http.ResponseWriter, d wire.Dialect, err error) {
	f := fault.From(err)
	writeJSON(w, f.HTTPStatus(), d.Error(f, "demo"))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Demo", "true")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON, not HTML; an error means that the client disconnected
}
