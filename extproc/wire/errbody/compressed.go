package errbody

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"

	"bardo.money/gateway/internal/header"
)

// uncompressed returns the received part of a body without its content encoding, up to MaxBody; nil if the encoding is unknown.
func uncompressed(h header.List, body []byte) []byte {
	var r io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(h.Get("content-encoding"))) {
	case "", "identity":
		return body
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		r, err = zlib.NewReader(bytes.NewReader(body))
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	out, _ := io.ReadAll(io.LimitReader(r, MaxBody)) // a truncated body may still be readable
	return out
}
