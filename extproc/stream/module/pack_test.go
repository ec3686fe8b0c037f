package module

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"bardo.money/gateway/internal/header"
)

// unpack reads headers as the C side does; ok is false if they are cut, or more follows.
func unpack(b []byte) (set header.List, remove []string, ok bool) {
	number := func() (n uint32) {
		if ok = ok && len(b) >= 4; ok {
			n, b = binary.NativeEndian.Uint32(b), b[4:]
		}
		return n
	}
	text := func(n uint32) (s string) {
		if ok = ok && uint64(len(b)) >= uint64(n); ok {
			s, b = string(b[:n]), b[n:]
		}
		return s
	}
	ok = true
	for range number() {
		name, value := number(), number()
		if value == math.MaxUint32 {
			remove = append(remove, text(name))
			continue
		}
		set = append(set, header.Field{Name: text(name), Value: text(value)})
	}
	return set, remove, ok && len(b) == 0
}

// FuzzHeadersArePacked as the C side reads them.
func FuzzHeadersArePacked(f *testing.F) {
	f.Add("", "", "", "")
	f.Add(":status", "200", "content-type", "x-removed")
	f.Fuzz(func(t *testing.T, name, value, second, removed string) {
		set, remove := header.List{{Name: name, Value: value}, {Name: second}}, []string{removed, name}
		for n := range len(set) + 1 {
			for m := range len(remove) + 1 {
				gotSet, gotRemove, ok := unpack(pack(set[:n], remove[:m]))
				if !ok || !slices.Equal(gotSet, set[:n]) || !slices.Equal(gotRemove, remove[:m]) {
					t.Errorf("%q, %q, %v; want %q, %q", gotSet, gotRemove, ok, set[:n], remove[:m])
				}
			}
		}
	})
}

// FuzzPartsOfABody are those of the whole, wherever it is cut into pieces.
func FuzzPartsOfABody(f *testing.F) {
	f.Add([]byte("0123456789"), uint8(3), uint8(7), uint8(2), uint8(6))
	f.Add([]byte{}, uint8(0), uint8(0), uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, first, second, at, n uint8) {
		i := min(int(first), len(body))
		j := max(i, min(int(second), len(body)))
		all := append(pieces(nil, 0), buf(body[:i]), buf(body[i:j]), buf(body[j:]))
		from := min(int(at), len(body))
		to := min(from+int(n), len(body))
		if got := part(all, int(at), int(n)); !bytes.Equal(got, body[from:to]) {
			t.Errorf("part is %q, want %q", got, body[from:to])
		}
		if got := appendPieces(nil, all, int(n)); !bytes.Equal(got, body[:min(int(n), len(body))]) {
			t.Errorf("appendPieces is %q", got)
		}
		if sizeOf(all) != len(body) {
			t.Errorf("the size is %d, want %d", sizeOf(all), len(body))
		}
	})
}
