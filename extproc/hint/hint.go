// Package hint reads what a client says about itself and its request: X-Bardo-* headers, and the "bardo" object of a body; and what the
// request itself tells of what it needs. It bounds what it takes in, and knows nothing of what is made of it.
package hint

import (
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Said is the set of hints that were read from headers, which the body's do not change.
type Said uint64

const (
	prefix = "x-bardo-"

	longestObject = 1 << 20  // of the body's object in bytes: a predicted output may be long
	longestJSON   = 16 << 10 // of JSON in a header
)

// others are the request headers of this prefix that are no hints.
var others = map[string]bool{"cache": true, "replay": true, "reasoning": true, "route": true, "upstream-key": true}

// FromHeaders reads the hints of a request's headers into h. A value that cannot be read is a fault of kind InvalidRequest that names
// its header; headers that mean nothing are added to h.Unknown. Lists may come in several headers, everything else in one.
func FromHeaders(l header.List, h *policy.Hints) (Said, error) {
	var said Said
	for i := range l {
		if name := l[i].Name; len(name) > len(prefix) && name[:len(prefix)] == prefix {
			if err := said.header(name[len(prefix):], l[i].Value, h); err != nil {
				return said, err
			}
		}
	}
	return said, nil
}

func (s *Said) header(name, text string, h *policy.Hints) error {
	i, ok := byHeader[name]
	if !ok {
		if !others[name] {
			note(&h.Unknown, headerName(name))
		}
		return nil
	}
	k := &keys[i]
	if *s&(1<<i) != 0 && !k.list {
		return fault.Newf(fault.InvalidRequest, "%s is given twice", headerName(name))
	}
	*s |= 1 << i
	if err := k.set(h, value{text: strings.TrimSpace(text)}); err != nil {
		return refused(headerName(name), "", err)
	}
	return nil
}

// FromBody reads the body's object into h, except for what headers said. The object may be absent. Errors are as those of FromHeaders,
// and name the member. h keeps nothing of the body's bytes.
func FromBody(object jsonx.Value, said Said, h *policy.Hints) error {
	if object.IsNull() {
		return nil
	}
	if err := readObject(h, object, keys, uint64(said), longestObject, "bardo", &h.Unknown); err != nil {
		return refused("bardo", "bardo", err)
	}
	return nil
}

// refused is what the client is told about a hint that cannot be read.
func refused(name, param string, err error) error {
	w, ok := err.(*wrong) //nolint:errorlint // it is this package's own, and never wrapped
	if !ok {
		return err
	}
	f := fault.Newf(fault.InvalidRequest, "%s%s: %s", name, w.path, w.problem)
	if param != "" {
		f.Param = param + w.path
	}
	return f
}

// headerName is a header's name as people write it.
func headerName(rest string) string {
	b := append([]byte("X-Bardo-"), rest...)
	for i, c := range b {
		if c >= 'a' && c <= 'z' && b[max(i-1, 0)] == '-' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
