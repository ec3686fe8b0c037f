package processor

import (
	"google.golang.org/protobuf/encoding/protowire"

	"bardo.money/gateway/internal/header"
)

// Frequent messages are encoded by hand: the generated code allocates a struct for each header and for each of the four messages around a chunk of a
// body. The other messages are in message.go.

// response is a ProcessingResponse with a piece of a body, headers, or changes of headers.
type response struct {
	envelope []tag // tags of the enclosing messages, outermost first
	body     []byte
	end      bool
	set      header.List
	remove   []string
	metadata []byte // encoded fields of a Struct
	what     content
}

type content uint8

const (
	bodyPiece            content = iota // a StreamedBodyResponse
	headerMap                           // a HeaderMap
	headerChanges                       // a CommonResponse
	headerChangesReroute                // the same with clear_route_cache
)

// Envelopes: a field of ProcessingResponse and the nested fields in it.
var (
	inRequestHeaders  = []tag{1<<3 | bytesType, 1<<3 | bytesType}
	inResponseHeaders = []tag{2<<3 | bytesType, 1<<3 | bytesType}
	inRequestBody     = []tag{3<<3 | bytesType, 1<<3 | bytesType, 3<<3 | bytesType, 3<<3 | bytesType}
	inResponseBody    = []tag{4<<3 | bytesType, 1<<3 | bytesType, 3<<3 | bytesType, 3<<3 | bytesType}
	inStreamHead      = []tag{11<<3 | bytesType, 1<<3 | bytesType, 1<<3 | bytesType}
	inStreamBody      = []tag{11<<3 | bytesType, 2<<3 | bytesType}
	inStreamTrailers  = []tag{11<<3 | bytesType, 3<<3 | bytesType}
)

const (
	tagResponseMetadata = 8<<3 | bytesType // of ProcessingResponse
	tagMutation         = 2<<3 | bytesType // of CommonResponse
	tagClearRoute       = 5<<3 | varint
	tagSet              = 1<<3 | bytesType // of HeaderMutation
	tagRemove           = 2<<3 | bytesType
	tagOption           = 1<<3 | bytesType // of HeaderValueOption
	tagAction           = 3<<3 | varint
	overwrite           = 2 // HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
)

// size returns the encoded length.
func (r *response) size() int {
	n := r.contentSize()
	for range r.envelope {
		n = bytesSize(n)
	}
	if len(r.metadata) > 0 {
		n += bytesSize(len(r.metadata))
	}
	return n
}

// appendTo appends the encoded message.
func (r *response) appendTo(b []byte) []byte {
	var sizes [4]int
	n := r.contentSize()
	for i := len(r.envelope) - 1; i >= 0; i-- {
		sizes[i] = n
		n = bytesSize(n)
	}
	for i, t := range r.envelope {
		b = appendLength(b, t, sizes[i])
	}
	b = r.appendContent(b)
	if len(r.metadata) > 0 {
		b = append(appendLength(b, tagResponseMetadata, len(r.metadata)), r.metadata...)
	}
	return b
}

func (r *response) contentSize() int {
	switch r.what {
	case bodyPiece:
		return pieceSize(r.body, r.end)
	case headerMap:
		return headerMapSize(r.set)
	case headerChanges:
		return bytesSize(mutationSize(r.set, r.remove))
	case headerChangesReroute:
		return bytesSize(mutationSize(r.set, r.remove)) + 2
	}
	return 0
}

func (r *response) appendContent(b []byte) []byte {
	switch r.what {
	case bodyPiece:
		return appendPiece(b, r.body, r.end)
	case headerMap:
		return appendHeaderMap(b, r.set)
	case headerChanges:
		return appendMutation(appendLength(b, tagMutation, mutationSize(r.set, r.remove)), r.set, r.remove)
	case headerChangesReroute:
		b = appendMutation(appendLength(b, tagMutation, mutationSize(r.set, r.remove)), r.set, r.remove)
		return append(b, tagClearRoute, 1)
	}
	return b
}

// Tags take one byte each, because the field numbers are small.

func bytesSize(n int) int { return 1 + protowire.SizeBytes(n) }

func appendLength(b []byte, t tag, n int) []byte {
	return protowire.AppendVarint(append(b, byte(t)), uint64(n)) //nolint:gosec // a length
}

func appendString(b []byte, t tag, s string) []byte {
	return append(appendLength(b, t, len(s)), s...)
}

func pieceSize(body []byte, end bool) (n int) {
	if len(body) > 0 {
		n = bytesSize(len(body))
	}
	if end {
		n += 2
	}
	return n
}

func appendPiece(b, body []byte, end bool) []byte {
	if len(body) > 0 {
		b = append(appendLength(b, tagBody, len(body)), body...)
	}
	if end {
		b = append(b, byte(tagBodyEnd), 1)
	}
	return b
}

func headerMapSize(l header.List) (n int) {
	for _, f := range l {
		n += bytesSize(fieldSize(f))
	}
	return n
}

func appendHeaderMap(b []byte, l header.List) []byte {
	for _, f := range l {
		b = appendHeader(b, tagHeader, f)
	}
	return b
}

func fieldSize(f header.Field) int { return bytesSize(len(f.Name)) + bytesSize(len(f.Value)) }

func appendHeader(b []byte, t tag, f header.Field) []byte {
	b = appendLength(b, t, fieldSize(f))
	return appendString(appendString(b, tagName, f.Name), tagRawValue, f.Value)
}

func mutationSize(set header.List, remove []string) (n int) {
	for _, f := range set {
		n += bytesSize(bytesSize(fieldSize(f)) + 2)
	}
	for _, name := range remove {
		n += bytesSize(len(name))
	}
	return n
}

// appendMutation appends a HeaderMutation. Set headers overwrite.
func appendMutation(b []byte, set header.List, remove []string) []byte {
	for _, f := range set {
		b = appendLength(b, tagSet, bytesSize(fieldSize(f))+2)
		b = append(appendHeader(b, tagOption, f), tagAction, overwrite)
	}
	for _, name := range remove {
		b = appendString(b, tagRemove, name)
	}
	return b
}
