// Package jsonx reads JSON in one pass without copying it, and edits it by splicing: bytes that need no change do not
// change. It is what keeps key order, big numbers, unknown fields and prompt-cache prefixes intact. It knows nothing of
// what the JSON means.
//
// Scan, Valid and Parse are strict (RFC 8259). The methods of Value trust that their text was validated, but are safe on
// any bytes: on malformed text they end early or say "not there", and never panic, loop or read outside it.
package jsonx

// Raw is the text of one JSON value, without surrounding white space.
type Raw []byte
