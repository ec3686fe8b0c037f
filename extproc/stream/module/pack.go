package module

// #include "abi.h"
import "C"

import (
	"encoding/binary"
	"unsafe"

	"bardo.money/gateway/internal/header"
)

// pack encodes headers for the C side: see abi.h. Those in remove are removed.
func pack(set header.List, remove []string) []byte {
	size := 4
	for _, f := range set {
		size += 8 + len(f.Name) + len(f.Value)
	}
	for _, name := range remove {
		size += 8 + len(name)
	}
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(len(set)+len(remove)))
	for _, f := range set {
		b = binary.NativeEndian.AppendUint32(b, uint32(len(f.Name)))
		b = binary.NativeEndian.AppendUint32(b, uint32(len(f.Value)))
		b = append(append(b, f.Name...), f.Value...)
	}
	for _, name := range remove {
		b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
		b = binary.NativeEndian.AppendUint32(b, C.REMOVE)
		b = append(b, name...)
	}
	return b
}

// buf returns a view of Go's memory for the duration of a call.
func buf(b []byte) C.dm_buf {
	return C.dm_buf{ptr: (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), length: C.size_t(len(b))}
}

func bufOf(s string) C.dm_buf {
	return C.dm_buf{ptr: (*C.char)(unsafe.Pointer(unsafe.StringData(s))), length: C.size_t(len(s))}
}

// text copies a string of Envoy's.
func text(b C.dm_buf) string { return string(view(b.ptr, b.length)) }

// view returns a view of Envoy's memory, valid during the hook.
func view(p *C.char, n C.size_t) []byte {
	if p == nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))
}

// headers copies a list of headers into one string that all fields share.
func headers(p *C.dm_header, n C.size_t) header.List {
	if n == 0 {
		return nil
	}
	all := unsafe.Slice(p, int(n))
	size := 0
	for i := range all {
		size += int(all[i].name_length + all[i].value_length)
	}
	arena := make([]byte, 0, size)
	cut := func(p *C.char, n C.size_t) string {
		at := len(arena)
		arena = append(arena, view(p, n)...)
		return unsafe.String(unsafe.SliceData(arena[at:]), len(arena)-at)
	}
	out := make(header.List, len(all))
	for i := range all {
		out[i] = header.Field{Name: cut(all[i].name, all[i].name_length), Value: cut(all[i].value, all[i].value_length)}
	}
	return out
}

// pieces returns the pieces of a body, valid during the hook.
func pieces(p *C.dm_buf, n C.size_t) []C.dm_buf {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(p, int(n))
}

func sizeOf(all []C.dm_buf) (n int) {
	for i := range all {
		n += int(all[i].length)
	}
	return n
}

// appendPieces appends the pieces of a body, up to maxBytes.
func appendPieces(b []byte, all []C.dm_buf, maxBytes int) []byte {
	for i := range all {
		p := view(all[i].ptr, all[i].length)
		if len(p) >= maxBytes {
			return append(b, p[:maxBytes]...)
		}
		b, maxBytes = append(b, p...), maxBytes-len(p)
	}
	return b
}

// part copies up to n bytes of a body from an offset.
func part(all []C.dm_buf, at, n int) []byte {
	out := make([]byte, 0, n)
	for i := range all {
		p := view(all[i].ptr, all[i].length)
		skip := min(at, len(p))
		p, at = p[skip:], at-skip
		if len(out)+len(p) >= n {
			return append(out, p[:n-len(out)]...)
		}
		out = append(out, p...)
	}
	return out
}
