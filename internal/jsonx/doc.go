// Package jsonx reads JSON in one pass without copying it, and edits it by splicing: bytes that need no change do not
// change. It is what keeps key order, big numbers, unknown fields and prompt-cache prefixes intact.
package jsonx

// Raw is the text of one JSON value, without surrounding white space.
type Raw []byte
