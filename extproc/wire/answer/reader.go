// Package answer is the common part of the decoders of all formats: it distinguishes streams, JSON answers and errors, collects them within
// limits, and attaches the provider's bytes to events. It does not know what a frame means.
package answer

import (
	"iter"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// maxBody is the maximum size of a JSON answer in bytes.
const maxBody = 64 << 20

// initialEvents is the initial capacity for events: enough for a simple JSON answer, or a few frames of a stream.
const initialEvents = 8

// Format describes the provider's format to a Reader.
type Format struct {
	Dialect    chat.Dialect
	MaxEvent   int    // maximum size of a stream's event in bytes
	Terminator string // data of a stream's last event if they are not JSON; "" if the format has none
}

// Reader is the outer part of a provider.Decoder, which embeds it. Not safe for concurrent use.
type Reader struct {
	Events []chat.Event // of the current piece
	Arena  []byte       // unescaped text of the events
	Body   []byte       // of a JSON answer or an error, so far
	Stream bool         // the body is an event stream
	Passes bool         // the client speaks this dialect, and the body has the requested form: bytes may pass unchanged
	Ended  bool         // End or Error was emitted
	Blocks int          // number of content blocks so far, which is the index of the next one

	status     int
	header     header.List
	frames     sse.Scanner
	parser     jsonx.Parser
	terminator string
	overflow   bool
}

// NewReader returns a reader of the answer to req. The content type determines whether the body is a stream; without one, the request does.
func NewReader(f Format, req *chat.Request, status int, h header.List) Reader {
	r := Reader{
		Events: make([]chat.Event, 0, initialEvents), Stream: req.Stream,
		status: status, header: h, frames: sse.Scanner{Max: f.MaxEvent}, terminator: f.Terminator,
	}
	switch media, _, _ := strings.Cut(h.Get("content-type"), ";"); strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		r.Stream = true
	case "application/json":
		r.Stream = false
	}
	r.Stream = r.Stream && r.succeeded()
	r.Passes = r.Stream == req.Stream && req.Dialect == f.Dialect
	return r
}

func (r *Reader) succeeded() bool { return r.status >= 200 && r.status < 300 }

// Take reads the next piece of the body, and drops the events of the previous one. It yields the complete frames of a stream until the
// answer is over. Other bodies are collected for JSON.
func (r *Reader) Take(chunk []byte, end bool) iter.Seq[*sse.Frame] {
	return func(yield func(*sse.Frame) bool) { r.take(chunk, end, yield) }
}

func (r *Reader) take(chunk []byte, end bool, yield func(*sse.Frame) bool) {
	r.Events, r.Arena = r.Events[:0], r.Arena[:0]
	switch {
	case r.Ended:
	case !r.Stream:
		r.collect(chunk)
	case r.each(r.frames.Next(chunk), yield) && end:
		r.each(r.last(), yield)
	}
}

// each yields frames, and reports whether the answer continues.
func (r *Reader) each(frames []sse.Frame, yield func(*sse.Frame) bool) bool {
	r.Events = slices.Grow(r.Events, len(frames)) // almost every frame is one event
	for i := range frames {
		if r.Ended || !yield(&frames[i]) {
			return false
		}
	}
	return !r.Ended
}

// last returns the last frame of a stream. It may be unterminated; then it counts only if its data are a whole object.
func (r *Reader) last() []sse.Frame {
	frames := r.frames.End()
	for i := range frames {
		if !r.isWhole(frames[i].Data) {
			return nil
		}
		frames[i].Raw = terminated(frames[i].Raw)
	}
	return frames
}

// Parse reads the data of a frame. The Values must be read before the next frame is parsed.
func (r *Reader) Parse(data []byte) (jsonx.Value, error) { return r.parser.Parse(data) }

// isWhole reports whether data that may have been truncated are complete.
func (r *Reader) isWhole(data []byte) bool {
	if r.terminator != "" && string(data) == r.terminator {
		return true
	}
	v, err := jsonx.Parse(data)
	return err == nil && v.Kind() == jsonx.Object
}

// terminated completes a frame, so that what is written after it is not parsed as a part of it.
func terminated(raw []byte) []byte {
	n := len(raw)
	raw = append(raw[:n:n], '\n')
	if raw[n-1] != '\n' { // also after a CR, which the line feed above completes
		raw = append(raw, '\n')
	}
	return raw
}

// collect keeps the body up to its limit.
func (r *Reader) collect(chunk []byte) {
	limit := maxBody
	if !r.succeeded() {
		limit = errbody.MaxBody
	}
	if room := limit - len(r.Body); len(chunk) > room {
		r.overflow = true
		chunk = chunk[:room]
	}
	r.Body = append(r.Body, chunk...)
}

// JSON returns a complete JSON answer, or the error that it contains.
func (r *Reader) JSON() (jsonx.Value, *chat.ProviderError) {
	if !r.succeeded() {
		return jsonx.Value{}, errbody.Parse(r.status, r.header, r.Body)
	}
	if r.overflow {
		return jsonx.Value{}, invalid("too_large", "the provider's answer is too large")
	}
	v, err := r.parser.Parse(r.Body)
	if err != nil {
		return jsonx.Value{}, invalid("invalid_response", "the provider's answer is not valid JSON")
	}
	return v, nil
}

func invalid(kind, message string) *chat.ProviderError {
	return &chat.ProviderError{Status: http.StatusBadGateway, Type: kind, Message: message, Unusable: true}
}
