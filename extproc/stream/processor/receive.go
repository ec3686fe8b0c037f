package processor

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// The generated code makes a structure and a string of everything that Envoy sends, most of which nobody looks at: that was a sixth of
// a request's time here. So messages are taken apart by hand.

// message is a ProcessingRequest. It lies in the buffer that it came in: what it holds is valid until the next message is read into it.
type message struct {
	kind       kind
	end        bool        // of the stream, for headers and bodies
	headers    header.List // copied: these outlive the message
	body       []byte
	attributes []byte // a Struct: those of the filter itself
	metadata   []byte // a Struct: the gateway's own namespace
	buffer     mem.Buffer
}

// kind is what a message carries: its field in ProcessingRequest.
type kind tag

// The kinds.
const (
	kindRequestHeaders   kind = 2<<3 | lengthed
	kindResponseHeaders  kind = 3<<3 | lengthed
	kindRequestBody      kind = 4<<3 | lengthed
	kindResponseBody     kind = 5<<3 | lengthed
	kindRequestTrailers  kind = 6<<3 | lengthed
	kindResponseTrailers kind = 7<<3 | lengthed
)

// String is for errors.
func (k kind) String() string {
	switch k {
	case kindRequestHeaders:
		return "request headers"
	case kindResponseHeaders:
		return "response headers"
	case kindRequestBody:
		return "a request body"
	case kindResponseBody:
		return "a response body"
	case kindRequestTrailers:
		return "request trailers"
	case kindResponseTrailers:
		return "response trailers"
	}
	return "a message of no known kind"
}

// tag is a field's number and how it is encoded.
type tag = uint64

const (
	varint   = 0 // protowire.VarintType
	lengthed = 2 // protowire.BytesType

	// Of ProcessingRequest.
	tagMetadata   tag = 8<<3 | lengthed
	tagAttributes tag = 9<<3 | lengthed
	// Of HttpHeaders, and HttpTrailers.
	tagHeaders    tag = 1<<3 | lengthed
	tagHeadersEnd tag = 3<<3 | varint
	// Of HttpBody.
	tagBody    tag = 1<<3 | lengthed
	tagBodyEnd tag = 2<<3 | varint
	// Of HeaderMap, and HeaderValue.
	tagHeader   tag = 1<<3 | lengthed
	tagName     tag = 1<<3 | lengthed
	tagValue    tag = 2<<3 | lengthed
	tagRawValue tag = 3<<3 | lengthed
	// Of Metadata: a map of Structs.
	tagFilter tag = 1<<3 | lengthed
	// Of a map's entry, Struct, and Value.
	tagEntryKey   tag = 1<<3 | lengthed
	tagEntryValue tag = 2<<3 | lengthed
	tagFields     tag = 1<<3 | lengthed
	tagText       tag = 3<<3 | lengthed
)

// filterName is under which name a filter's attributes come.
const filterName = "envoy.filters.http.ext_proc"

// free gives the message's buffer back.
func (m *message) free() {
	if m.buffer != nil {
		m.buffer.Free()
	}
	*m = message{}
}

// read takes the message in b apart, which becomes the message's own.
func (m *message) read(b mem.Buffer) error {
	m.free()
	m.buffer = b
	var metadata []byte
	f := fields{rest: b.ReadOnlyData()}
	for f.next() {
		switch f.tag {
		case tagMetadata:
			metadata = f.bytes
		case tagAttributes:
			if key, value := entry(f.bytes); string(key) == filterName {
				m.attributes = value
			}
		case tag(kindRequestBody), tag(kindResponseBody):
			m.kind = kind(f.tag)
			f.check(m.readBody(f.bytes))
		case tag(kindRequestHeaders), tag(kindResponseHeaders), tag(kindRequestTrailers), tag(kindResponseTrailers):
			m.kind = kind(f.tag)
			f.check(m.readHeaders(f.bytes))
		}
	}
	f.check(m.own(metadata))
	return f.err
}

func (m *message) readBody(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagBody:
			m.body = f.bytes
		case tagBodyEnd:
			m.end = f.varint != 0
		}
	}
	return f.err
}

func (m *message) readHeaders(b []byte) error {
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagHeaders:
			list, err := headerList(f.bytes)
			f.check(err)
			m.headers = list
		case tagHeadersEnd:
			m.end = f.varint != 0
		}
	}
	return f.err
}

// own finds the gateway's namespace in the request's metadata.
func (m *message) own(metadata []byte) error {
	f := fields{rest: metadata}
	for f.next() {
		if f.tag != tagFilter {
			continue
		}
		if key, value := entry(f.bytes); string(key) == state.Metadata {
			m.metadata = value
		}
	}
	return f.err
}

// headerList copies a HeaderMap, all of it into one string.
func headerList(b []byte) (header.List, error) {
	all := string(b)
	n := 0
	f := fields{rest: b}
	for f.next() {
		n++
	}
	out := make(header.List, 0, n)
	f = fields{rest: b}
	for f.next() {
		if f.tag != tagHeader {
			continue
		}
		var h header.Field
		g := fields{rest: f.bytes, base: f.at}
		for g.next() {
			switch text := all[g.at : g.at+len(g.bytes)]; g.tag {
			case tagName:
				h.Name = text
			case tagValue, tagRawValue: // Envoy uses one of them
				if text != "" {
					h.Value = text
				}
			}
		}
		f.check(g.err)
		out = append(out, h)
	}
	return out, f.err
}

// attribute is a string attribute that Envoy sent along, or "".
func (m *message) attribute(name string) string { return textOf(m.attributes, name) }

// note is a string in the gateway's own metadata, or "".
func (m *message) note(name string) string { return textOf(m.metadata, name) }

// textOf is a string of a Struct.
func textOf(object []byte, name string) string {
	f := fields{rest: object}
	for f.next() {
		if f.tag != tagFields {
			continue
		}
		if key, value := entry(f.bytes); string(key) == name {
			v := fields{rest: value}
			for v.next() {
				if v.tag == tagText {
					return string(v.bytes)
				}
			}
		}
	}
	return ""
}

// entry takes a map's entry apart.
func entry(b []byte) (key, value []byte) {
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagEntryKey:
			key = f.bytes
		case tagEntryValue:
			value = f.bytes
		}
	}
	return key, value
}

// fields goes over the fields of an encoded message.
type fields struct {
	rest   []byte
	base   int // where the message begins in an outer one, if that is of interest
	tag    tag
	bytes  []byte // of a field that has a length
	at     int    // where they begin, counted from base
	varint uint64 // of a field that is one
	err    error
	read   int
}

// next reads a field; it is false at the end and at an error.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.err != nil {
		return false
	}
	number, kind, n := protowire.ConsumeTag(f.rest)
	if n < 0 {
		f.err = protowire.ParseError(n)
		return false
	}
	f.skip(n)
	f.tag, f.bytes, f.varint = protowire.EncodeTag(number, kind), nil, 0
	switch kind {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(f.rest)
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(f.rest)
	default:
		n = protowire.ConsumeFieldValue(number, kind, f.rest)
	}
	if n < 0 {
		f.err = protowire.ParseError(n)
		return false
	}
	f.skip(n)
	f.at = f.base + f.read - len(f.bytes)
	return true
}

func (f *fields) skip(n int) { f.rest, f.read = f.rest[n:], f.read+n }

// check keeps the first error.
func (f *fields) check(err error) {
	if f.err == nil {
		f.err = err
	}
}
