package processor

import (
	"google.golang.org/protobuf/encoding/protowire"

	"bardo.money/gateway/internal/header"
)

// What every request is answered with is written by hand, too: the generated code wants a structure, and a pointer to it, for each
// header and for each of the four messages around a piece of a body. message.go has the rest.

// response is a ProcessingResponse with one thing in it: a piece of a body, headers, or changes of headers.
type response struct {
	around   []tag // the tags of the messages around it, outermost first
	body     []byte
	end      bool
	set      header.List
	remove   []string
	metadata []byte // the fields of a Struct
	what     content
}

type content uint8

const (
	aPiece      content = iota // a StreamedBodyResponse
	someHeaders                // a HeaderMap
	changes                    // a CommonResponse
	rerouting                  // the same, and the route is chosen anew
)

// Around what is sent: the fields of ProcessingResponse, and what follows in each of them.
var (
	inRequestHeaders  = []tag{1<<3 | lengthed, 1<<3 | lengthed}
	inResponseHeaders = []tag{2<<3 | lengthed, 1<<3 | lengthed}
	inRequestBody     = []tag{3<<3 | lengthed, 1<<3 | lengthed, 3<<3 | lengthed, 3<<3 | lengthed}
	inResponseBody    = []tag{4<<3 | lengthed, 1<<3 | lengthed, 3<<3 | lengthed, 3<<3 | lengthed}
	inStreamHead      = []tag{11<<3 | lengthed, 1<<3 | lengthed, 1<<3 | lengthed}
	inStreamBody      = []tag{11<<3 | lengthed, 2<<3 | lengthed}
	inStreamTrailers  = []tag{11<<3 | lengthed, 3<<3 | lengthed}
)

const (
	tagResponseMetadata = 8<<3 | lengthed // of ProcessingResponse
	tagMutation         = 2<<3 | lengthed // of CommonResponse
	tagClearRoute       = 5<<3 | varint
	tagSet              = 1<<3 | lengthed // of HeaderMutation
	tagRemove           = 2<<3 | lengthed
	tagOption           = 1<<3 | lengthed // of HeaderValueOption
	tagAction           = 3<<3 | varint
	overwrite           = 2 // HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
)

// size is how long the message is.
func (r *response) size() int {
	n := r.contentSize()
	for range r.around {
		n = lengthedSize(n)
	}
	if len(r.metadata) > 0 {
		n += lengthedSize(len(r.metadata))
	}
	return n
}

// appendTo writes the message.
func (r *response) appendTo(b []byte) []byte {
	var sizes [4]int
	n := r.contentSize()
	for i := len(r.around) - 1; i >= 0; i-- {
		sizes[i] = n
		n = lengthedSize(n)
	}
	for i, t := range r.around {
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
	case aPiece:
		return pieceSize(r.body, r.end)
	case someHeaders:
		return headerMapSize(r.set)
	case changes:
		return lengthedSize(mutationSize(r.set, r.remove))
	case rerouting:
		return lengthedSize(mutationSize(r.set, r.remove)) + 2
	}
	return 0
}

func (r *response) appendContent(b []byte) []byte {
	switch r.what {
	case aPiece:
		return appendPiece(b, r.body, r.end)
	case someHeaders:
		return appendHeaderMap(b, r.set)
	case changes:
		return appendMutation(appendLength(b, tagMutation, mutationSize(r.set, r.remove)), r.set, r.remove)
	case rerouting:
		b = appendMutation(appendLength(b, tagMutation, mutationSize(r.set, r.remove)), r.set, r.remove)
		return append(b, tagClearRoute, 1)
	}
	return b
}

// Tags are a byte each, since the numbers are small.

func lengthedSize(n int) int { return 1 + protowire.SizeBytes(n) }

func appendLength(b []byte, t tag, n int) []byte {
	return protowire.AppendVarint(append(b, byte(t)), uint64(n)) //nolint:gosec // a length
}

func appendLengthed(b []byte, t tag, s string) []byte {
	return append(appendLength(b, t, len(s)), s...)
}

func pieceSize(body []byte, end bool) (n int) {
	if len(body) > 0 {
		n = lengthedSize(len(body))
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
		n += lengthedSize(fieldSize(f))
	}
	return n
}

func appendHeaderMap(b []byte, l header.List) []byte {
	for _, f := range l {
		b = appendHeader(b, tagHeader, f)
	}
	return b
}

func fieldSize(f header.Field) int { return lengthedSize(len(f.Name)) + lengthedSize(len(f.Value)) }

func appendHeader(b []byte, t tag, f header.Field) []byte {
	b = appendLength(b, t, fieldSize(f))
	return appendLengthed(appendLengthed(b, tagName, f.Name), tagRawValue, f.Value)
}

func mutationSize(set header.List, remove []string) (n int) {
	for _, f := range set {
		n += lengthedSize(lengthedSize(fieldSize(f)) + 2)
	}
	for _, name := range remove {
		n += lengthedSize(len(name))
	}
	return n
}

// appendMutation writes a HeaderMutation. Sets overwrite.
func appendMutation(b []byte, set header.List, remove []string) []byte {
	for _, f := range set {
		b = appendLength(b, tagSet, lengthedSize(fieldSize(f))+2)
		b = append(appendHeader(b, tagOption, f), tagAction, overwrite)
	}
	for _, name := range remove {
		b = appendLengthed(b, tagRemove, name)
	}
	return b
}
