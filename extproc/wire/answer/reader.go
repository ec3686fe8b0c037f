// Package answer is what the readers of providers' answers have in common, whatever the format: it tells a stream from one
// JSON text and both from an error, cuts and gathers within limits, and gives events the bytes that they came from. It does
// not know what a frame or a text means.
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

// maxBody is the size in bytes of the longest JSON answer.
const maxBody = 64 << 20

// usualEvents is how many events a plain JSON answer has, or a few frames of a stream.
const usualEvents = 8

// Format is what a Reader must know of the provider's format.
type Format struct {
	Dialect    chat.Dialect
	MaxEvent   int    // bytes of the longest event of a stream
	Terminator string // data of a stream's last event, where that is no JSON; "" if there is none such
}

// Reader is the outer part of a provider.Decoder, which embeds it. Not safe for concurrent use.
type Reader struct {
	Events []chat.Event // of the piece at hand
	Arena  []byte       // their texts that had escapes
	Body   []byte       // of an answer that is no stream, as far as it came
	Stream bool         // the body is an event stream
	Passes bool         // the client reads this format, and the body has the form it asked for: its bytes may pass
	Over   bool         // End or Error was said

	status     int
	header     header.List
	frames     sse.Scanner
	parser     jsonx.Parser
	terminator string
	overflow   bool
}

// NewReader reads the answer to req. Whether the body is a stream is told by its content type, and by the request when
// there is none.
func NewReader(f Format, req *chat.Request, status int, h header.List) Reader {
	r := Reader{
		Events: make([]chat.Event, 0, usualEvents), Stream: req.Stream,
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

// Take takes in the next piece of the body, drops the events of the one before, and gives the frames of a stream that it
// completes, until the answer is over. What is no stream is gathered for JSON.
func (r *Reader) Take(chunk []byte, end bool) iter.Seq[*sse.Frame] {
	return func(yield func(*sse.Frame) bool) { r.take(chunk, end, yield) }
}

func (r *Reader) take(chunk []byte, end bool, yield func(*sse.Frame) bool) {
	r.Events, r.Arena = r.Events[:0], r.Arena[:0]
	switch {
	case r.Over:
	case !r.Stream:
		r.gather(chunk)
	case r.each(r.frames.Next(chunk), yield) && end:
		r.each(r.last(), yield)
	}
}

// each reports whether the answer goes on after frames.
func (r *Reader) each(frames []sse.Frame, yield func(*sse.Frame) bool) bool {
	r.Events = slices.Grow(r.Events, len(frames)) // almost every frame is an event
	for i := range frames {
		if r.Over || !yield(&frames[i]) {
			return false
		}
	}
	return !r.Over
}

// last is the frame that a stream ended in. It may lack its end; then it counts only if it is a whole object nevertheless.
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

// Parse reads the data of a frame. The Values are to be walked before the next frame is read.
func (r *Reader) Parse(data []byte) (jsonx.Value, error) { return r.parser.Parse(data) }

// isWhole reports whether data that may have been cut off was not.
func (r *Reader) isWhole(data []byte) bool {
	if r.terminator != "" && string(data) == r.terminator {
		return true
	}
	v, err := jsonx.Parse(data)
	return err == nil && v.Kind() == jsonx.Object
}

// terminated completes a frame that has data, so that what is written after it is not read as a part of it.
func terminated(raw []byte) []byte {
	n := len(raw)
	raw = append(raw[:n:n], '\n')
	if raw[n-1] != '\n' { // also after a CR, of which the one above made a single line end
		raw = append(raw, '\n')
	}
	return raw
}

// gather keeps what JSON will need.
func (r *Reader) gather(chunk []byte) {
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

// JSON is an answer that came in one text, when all of it is there, or why there is none.
func (r *Reader) JSON() (jsonx.Value, *chat.ProviderError) {
	if !r.succeeded() {
		return jsonx.Value{}, errbody.Parse(r.status, r.header, r.Body)
	}
	if r.overflow {
		return jsonx.Value{}, invalid("too_large", "the provider's answer is too large")
	}
	v, err := jsonx.Parse(r.Body)
	if err != nil {
		return jsonx.Value{}, invalid("invalid_response", "the provider's answer is not valid JSON")
	}
	return v, nil
}

func invalid(kind, message string) *chat.ProviderError {
	return &chat.ProviderError{Status: http.StatusBadGateway, Type: kind, Message: message}
}
