package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// TraceParent is the header of the W3C trace context.
const TraceParent = "traceparent"

// TraceContext is the place of a request in a distributed trace.
type TraceContext struct {
	TraceID [16]byte
	SpanID  [8]byte // of the request here
	Parent  [8]byte // of the client's span; zero if the client sent none
}

// TraceOf returns the trace context of a request: in the client's trace if it sent a valid traceparent, else in a new one. All other ids are derived
// from the request's id, so that processes agree on them.
func TraceOf(requestID, parent string) (c TraceContext) {
	sum := sha256.Sum256([]byte(requestID))
	copy(c.TraceID[:], sum[:])
	copy(c.SpanID[:], sum[16:])
	if trace, span, ok := parseTraceParent(parent); ok {
		c.TraceID, c.Parent = trace, span
	}
	return c
}

// ChildSpan returns the id of a span below the request's, by its name in the trace.
func (c TraceContext) ChildSpan(name string) (id [8]byte) {
	sum := sha256.Sum256(append(append(c.SpanID[:], '/'), name...))
	copy(id[:], sum[:])
	return id
}

// Header returns the traceparent for a provider: the request is its parent.
func (c TraceContext) Header() string {
	return "00-" + hex.EncodeToString(c.TraceID[:]) + "-" + hex.EncodeToString(c.SpanID[:]) + "-01"
}

// traceParentLength is the length of a traceparent of version 00. Later versions may be longer.
const traceParentLength = 55

// parseTraceParent parses a traceparent: version, trace id, parent id, flags, in lower-case hexadecimal. ok is false for one that W3C calls invalid.
func parseTraceParent(s string) (trace [16]byte, span [8]byte, ok bool) {
	if len(s) < traceParentLength || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" || s[:2] == "00" && len(s) > traceParentLength ||
		len(s) > traceParentLength && s[traceParentLength] != '-' {
		return trace, span, false
	}
	if !lowerHex(s[:2]) || !lowerHex(s[53:55]) || !lowerHex(s[3:35]) || !lowerHex(s[36:52]) {
		return trace, span, false
	}
	_, _ = hex.Decode(trace[:], []byte(s[3:35])) // both are hexadecimal
	_, _ = hex.Decode(span[:], []byte(s[36:52]))
	return trace, span, trace != [16]byte{} && span != [8]byte{}
}

func lowerHex(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}

// ValidTraceParent returns a client's traceparent without the extensions of later versions; "" if it is invalid, so that no client text is passed on.
func ValidTraceParent(s string) string {
	if _, _, ok := parseTraceParent(s); !ok {
		return ""
	}
	return strings.Clone(s[:traceParentLength])
}
