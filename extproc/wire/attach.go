package wire

import "bytes"

// Attacher is implemented by encoders of dialects whose clients accept an object of the gateway in an answer: the member HintKey, which all
// their SDKs keep or ignore.
type Attacher interface {
	// Attach adds own, the gateway's object as JSON on one line, to the answer. It is called at most once, immediately before the End
	// event. The part that a stream sends before its terminator is appended to dst; the rest is written with the End event. own must not
	// change until then.
	Attach(dst, own []byte) []byte
}

// AppendWithOwn appends a JSON object, or a stream frame that holds one, with the gateway's member added as its last. All other bytes stay.
// If own is nil, or there is no object, the bytes are appended unchanged.
func AppendWithOwn(dst, object, own []byte) []byte {
	end := bytes.LastIndexByte(object, '}')
	if own == nil || end < 0 {
		return append(dst, object...)
	}
	head := bytes.TrimRight(object[:end], " \t\r\n")
	dst = append(dst, object[:end]...)
	if len(head) > 0 && head[len(head)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendOwnMember(dst, own), object[end:]...)
}

// AppendOwn appends the gateway's member with a comma before it; nothing if own is nil.
func AppendOwn(dst, own []byte) []byte {
	if own == nil {
		return dst
	}
	return appendOwnMember(append(dst, ','), own)
}

func appendOwnMember(dst, own []byte) []byte {
	return append(append(dst, `"`+HintKey+`":`...), own...)
}
