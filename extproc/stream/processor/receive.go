package processor

import (
	"google.golang.org/protobuf/encoding/protowire"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// Messages are parsed by hand: the generated code allocates a struct and strings for everything that Envoy sends, most of which is unused. That took
// a sixth of a request's time.

// message is a ProcessingRequest. Its slices refer to the receive buffer and are valid until the next message is read into it.
type message struct {
	kind       kind
	end        bool        // of the stream, for headers and bodies
	headers    header.List // copied: valid longer than the message
	body       []byte
	attributes []byte // an encoded Struct: the attributes of the filter
	metadata   []byte // an encoded Struct: the gateway's namespace
}

// kind is the content of a message: its field in ProcessingRequest.
type kind tag

// The kinds.
const (
	kindRequestHeaders   kind = 2<<3 | bytesType
	kindResponseHeaders  kind = 3<<3 | bytesType
	kindRequestBody      kind = 4<<3 | bytesType
	kindResponseBody     kind = 5<<3 | bytesType
	kindRequestTrailers  kind = 6<<3 | bytesType
	kindResponseTrailers kind = 7<<3 | bytesType
)

// String returns the name in errors.
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

// tag is a field's number and wire type.
type tag = uint64

const (
	varint    = 0 // protowire.VarintType
	bytesType = 2 // protowire.BytesType

	// Of ProcessingRequest.
	tagMetadata   tag = 8<<3 | bytesType
	tagAttributes tag = 9<<3 | bytesType
	// Of HttpHeaders, and HttpTrailers.
	tagHeaders    tag = 1<<3 | bytesType
	tagHeadersEnd tag = 3<<3 | varint
	// Of HttpBody.
	tagBody    tag = 1<<3 | bytesType
	tagBodyEnd tag = 2<<3 | varint
	// Of HeaderMap, and HeaderValue.
	tagHeader   tag = 1<<3 | bytesType
	tagName     tag = 1<<3 | bytesType
	tagValue    tag = 2<<3 | bytesType
	tagRawValue tag = 3<<3 | bytesType
	// Of Metadata: a map of Structs.
	tagFilter tag = 1<<3 | bytesType
	// Of a map's entry, Struct, and Value.
	tagEntryKey   tag = 1<<3 | bytesType
	tagEntryValue tag = 2<<3 | bytesType
	tagFields     tag = 1<<3 | bytesType
	tagText       tag = 3<<3 | bytesType
)

// filterName is the name under which Envoy sends a filter's attributes.
const filterName = "envoy.filters.http.ext_proc"

// read parses the message in b, to which m refers afterwards.
func (m *message) read(b []byte) error {
	*m = message{}
	var metadata []byte
	f := fields{rest: b}
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
	f.check(m.readMetadata(metadata))
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

// readMetadata finds the gateway's namespace in the request's metadata.
func (m *message) readMetadata(metadata []byte) error {
	f := fields{rest: metadata}
	for f.next() {
		if f.tag != tagFilter {
			continue
		}
		if key, value := entry(f.bytes); string(key) == state.Metadata || string(key) == state.MetadataAttempts { // a filter sends one of them
			m.metadata = value
		}
	}
	return f.err
}

// headerList copies a HeaderMap into one string that all fields share.
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

// attribute returns a string attribute of Envoy's, or "".
func (m *message) attribute(name string) string { return textOf(m.attributes, name) }

// metadataValue returns a string in the gateway's metadata, or "".
func (m *message) metadataValue(name string) string { return textOf(m.metadata, name) }

// textOf returns a string field of an encoded Struct.
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

// entry parses a map entry.
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

// fields iterates over the fields of an encoded message.
type fields struct {
	rest   []byte
	base   int // offset of the message in its outer message, if needed
	tag    tag
	bytes  []byte // value of a length-delimited field
	at     int    // offset of bytes, counted from base
	varint uint64 // value of a varint field
	err    error
	read   int
}

// next reads a field; it returns false at the end and after an error.
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
