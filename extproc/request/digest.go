package request

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"bardo.money/gateway/internal/header"
)

// Digest is of what a request asks for, as far as its price depends on it: the path, the query, the body, the headers that say how it is to be served, in any
// order, and the model that was found for it. It is for before layers change the request.
func (v *View) Digest() (d [32]byte) {
	h := sha256.New()
	write := func(s string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	for _, s := range [...]string{v.Head.Path, v.Head.Query} {
		write(s)
	}
	if len(v.Found) > 0 {
		write(string(v.Found[0].Model))
	}
	for _, f := range priced(v.Head.Header) {
		write(f.Name)
		write(f.Value)
	}
	if r := v.Request; r != nil {
		h.Write(r.Doc.Bytes)
	}
	h.Sum(d[:0])
	return d
}

// headerWallet names who will pay. It changes nothing of what is served.
const headerWallet = "x-bardo-wallet"

// priced are the headers that a price may depend on, sorted.
func priced(all header.List) (list header.List) {
	for _, f := range all {
		own := strings.HasPrefix(f.Name, "x-bardo-") && !strings.HasPrefix(f.Name, "x-bardo-internal-") && f.Name != headerWallet
		if own || strings.HasPrefix(f.Name, "anthropic-") {
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b header.Field) int { return strings.Compare(a.Name, b.Name) })
	return list
}
