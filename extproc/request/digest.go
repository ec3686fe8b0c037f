package request

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"bardo.money/gateway/internal/header"
)

// Digest hashes everything that the request's price depends on: the path, the query, the body, the headers that affect the service (in any order),
// and the selected model. Call it before layers change the request.
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

// headerWallet names the payer. It does not affect the price.
const headerWallet = "x-bardo-wallet"

// priced returns the headers that a price may depend on, sorted.
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
