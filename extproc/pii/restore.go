package pii

import (
	"bytes"
	"slices"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Restorer replaces placeholders by their values in a stream of text that is split anywhere. It holds back only a possible prefix of a placeholder of its
// vault. Not safe for concurrent use.
type Restorer struct {
	vault *Vault
	json  bool
	held  []byte // unchanged input: the prefix of a placeholder, then that of an escape
	name  []byte // the prefix of a placeholder, without escapes
	esc   int    // bytes of an escape at the end of held
}

// NewRestorer returns a restorer of one stream. Within a JSON string, < and > may be escaped, and values are escaped. The vault must not change afterwards.
func (v *Vault) NewRestorer(inJSON bool) *Restorer {
	if !v.sorted {
		slices.Sort(v.placeholders)
		v.sorted = true
	}
	return &Restorer{vault: v, json: inJSON}
}

// Holds reports whether something is held back.
func (r *Restorer) Holds() bool { return len(r.held) > 0 }

// Feed appends the restored stream after a chunk, without the part that is held back.
func (r *Restorer) Feed(out, chunk []byte) []byte {
	for i := 0; i < len(chunk); {
		if len(r.held) == 0 {
			n := r.plain(chunk[i:])
			out = append(out, chunk[i:i+n]...)
			if i += n; i == len(chunk) {
				break
			}
		}
		var taken bool
		if out, taken = r.take(out, chunk[i]); taken {
			i++
		}
	}
	return out
}

// Close appends the held part at the end of the stream.
func (r *Restorer) Close(out []byte) []byte { return r.release(out) }

// plain returns the number of bytes before a possible placeholder or escape.
func (r *Restorer) plain(b []byte) int {
	n := bytes.IndexByte(b, '<')
	if n < 0 {
		n = len(b)
	}
	if r.json {
		if esc := bytes.IndexByte(b[:n], '\\'); esc >= 0 {
			n = esc
		}
	}
	return n
}

// release appends the held part.
func (r *Restorer) release(out []byte) []byte {
	out = append(out, r.held...)
	r.held, r.name, r.esc = r.held[:0], r.name[:0], 0
	return out
}

// take handles a byte; taken is false if it has to be handled again, after the held part was released.
func (r *Restorer) take(out []byte, c byte) (_ []byte, taken bool) {
	if r.esc > 0 {
		return r.escaped(out, c)
	}
	if r.json && c == '\\' {
		r.held = append(r.held, c)
		r.esc = 1
		return out, true
	}
	if len(r.name) == 0 && c != '<' {
		return append(r.release(out), c), true
	}
	r.held = append(r.held, c)
	return r.match(out, c, 1)
}

// angle is the common prefix of the escapes of < and >.
const angle = `\u003`

// escaped handles a byte of an escape.
func (r *Restorer) escaped(out []byte, c byte) ([]byte, bool) {
	switch {
	case r.esc == len(angle) && (c == 'c' || c == 'C'):
		r.held = append(r.held, c)
		n := r.esc + 1
		r.esc = 0
		return r.match(out, '<', n)
	case r.esc == len(angle) && (c == 'e' || c == 'E'):
		r.held = append(r.held, c)
		n := r.esc + 1
		r.esc = 0
		return r.match(out, '>', n)
	case r.esc < len(angle) && c == angle[r.esc]:
		r.held = append(r.held, c)
		r.esc++
		return out, true
	case r.esc == 1: // any other escape, such as \" and \\
		return append(r.release(out), c), true
	}
	return r.release(out), false
}

// match handles a character, which is the last n held bytes, and restores a complete placeholder.
func (r *Restorer) match(out []byte, c byte, n int) ([]byte, bool) {
	r.name = append(r.name, c)
	i, complete := slices.BinarySearch(r.vault.placeholders, string(r.name))
	if complete {
		value := r.vault.values[string(r.name)]
		r.held, r.name = r.held[:0], r.name[:0]
		if !r.json {
			return append(out, value...), true
		}
		quoted := jsonx.AppendString(nil, value)
		return append(out, quoted[1:len(quoted)-1]...), true
	}
	if i < len(r.vault.placeholders) && strings.HasPrefix(r.vault.placeholders[i], string(r.name)) {
		return out, true
	}
	last := len(r.held) - n
	if c != '<' || last == 0 {
		return r.release(out), true
	}
	out = append(out, r.held[:last]...) // it may begin another one
	r.held = append(r.held[:0], r.held[last:]...)
	r.name = r.name[:0]
	return r.match(out, c, n)
}
