package wire

import "bytes"

// Attacher is implemented by encoders of dialects whose clients take an object of the gateway's own beside an answer: the member
// HintKey, which all of their SDKs keep or pass over.
type Attacher interface {
	// Attach puts the object's JSON, on one line, beside the answer. It is called once at most, right before the End event. What a
	// stream's client gets of it before the terminator is appended to dst; the rest comes with the End. own must not change until then.
	Attach(dst, own []byte) []byte
}

// AppendBeside appends a JSON object, or the frame of a stream that holds one, with the gateway's own member as its last. All other bytes
// stay. Without a member, or an object, nothing is changed.
func AppendBeside(dst, object, own []byte) []byte {
	end := bytes.LastIndexByte(object, '}')
	if own == nil || end < 0 {
		return append(dst, object...)
	}
	head := bytes.TrimRight(object[:end], " \t\r\n")
	dst = append(dst, object[:end]...)
	if len(head) > 0 && head[len(head)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendOwn(dst, own), object[end:]...)
}

// AppendBehind appends the gateway's own member as one that follows another: behind a comma. Without a member it appends nothing.
func AppendBehind(dst, own []byte) []byte {
	if own == nil {
		return dst
	}
	return appendOwn(append(dst, ','), own)
}

func appendOwn(dst, own []byte) []byte {
	return append(append(dst, `"`+HintKey+`":`...), own...)
}
