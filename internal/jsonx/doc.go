// Package jsonx reads JSON in one pass without copying it, and edits it by splicing: bytes outside an edit do not change. So key order, big numbers,
// unknown fields and prompt-cache prefixes stay intact. It does not know the meaning of the JSON.
//
// Scan, Valid and Parse are strict (RFC 8259). The methods of Value require validated text, but are safe on any bytes: on malformed text they end
// early or report an absent value, and never panic, loop or read outside it.
package jsonx

// Raw is the text of one JSON value, without surrounding white space.
type Raw []byte
