// Package hint parses the client's hints, which are X-Bardo-* headers and the "bardo" object in a body, and derives facts for routing from the
// request's content. It limits sizes, and does not know how hints are used.
package hint

import (
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Present is the set of hints that were given in headers, as a bit set over keys. Headers override the body's object.
type Present uint64

const (
	prefix = "x-bardo-"

	maxObject     = 1 << 20  // bytes of the body's object; a predicted output may be long
	maxHeaderJSON = 16 << 10 // bytes of JSON in a header
)

// notHints are the request headers with this prefix that are not hints.
var notHints = map[string]bool{"cache": true, "replay": true, "reasoning": true, "route": true, "upstream-key": true}

// FromHeaders parses the hints in a request's headers into h. An invalid value is a fault of kind InvalidRequest that names the header; unknown
// headers are added to h.Unknown. Only headers with lists may be repeated.
func FromHeaders(l header.List, h *policy.Hints) (Present, error) {
	var present Present
	for i := range l {
		name := l[i].Name
		if len(name) <= len(prefix) || name[:len(prefix)] != prefix {
			continue
		}
		var err error
		if name == header.Forwarded {
			err = present.fromGateway(l[i].Value, h)
		} else {
			err = present.header(name[len(prefix):], l[i].Value, h)
		}
		if err != nil {
			return present, err
		}
	}
	return present, nil
}

func (s *Present) header(name, text string, h *policy.Hints) error {
	i, ok := byHeader[name]
	if !ok {
		if !notHints[name] {
			addUnknown(&h.Unknown, headerName(name))
		}
		return nil
	}
	k := &keys[i]
	if *s&(1<<i) != 0 && !k.list {
		return fault.Newf(fault.InvalidRequest, "%s is given twice", headerName(name))
	}
	*s |= 1 << i
	if err := k.set(h, value{text: strings.TrimSpace(text)}); err != nil {
		return invalidHint(headerName(name), "", err)
	}
	return nil
}

// FromBody parses the body's object into h, except for hints that headers have set. The object may be absent. Errors are as in FromHeaders and
// name the member. h does not refer to the body's bytes.
func FromBody(object jsonx.Value, present Present, h *policy.Hints) error {
	if object.IsNull() {
		return nil
	}
	if err := readObject(h, object, keys, uint64(present), maxObject, "bardo", &h.Unknown); err != nil {
		return invalidHint("bardo", "bardo", err)
	}
	return nil
}

// invalidHint returns the client's error for an invalid hint.
func invalidHint(name, param string, err error) error {
	w, ok := err.(*hintError) //nolint:errorlint // it is this package's own, and never wrapped
	if !ok {
		return err
	}
	f := fault.Newf(fault.InvalidRequest, "%s%s: %s", name, w.path, w.problem)
	if param != "" {
		f.Param = param + w.path
	}
	return f
}

// headerName returns a header's name in canonical case.
func headerName(rest string) string {
	b := append([]byte("X-Bardo-"), rest...)
	for i, c := range b {
		if c >= 'a' && c <= 'z' && b[max(i-1, 0)] == '-' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
