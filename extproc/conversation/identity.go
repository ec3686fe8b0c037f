package conversation

import (
	"hash/maphash"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Identity returns a hash of what the requests of a conversation have in common, and one of this request: neither is 0. session is its id, or "".
func Identity(doc *jsonx.Doc, account policy.Account, session string) (talk, request uint64) {
	var h maphash.Hash
	h.SetSeed(identitySeed)
	write := func(b []byte) {
		_, _ = h.Write(b) // never fails
		_ = h.WriteByte(0)
	}
	write([]byte(account))
	write([]byte(session))
	if session == "" {
		write(doc.Get("system").Raw)
		write(doc.Get("instructions").Raw)
		for _, key := range [...]string{"messages", "input", "contents"} {
			writeOpening(doc.Get(key), write)
		}
	}
	talk = h.Sum64() | 1
	write(doc.Bytes)
	return talk, h.Sum64() | 1
}

// writeOpening writes the messages up to the user's first one, which all requests of a conversation begin with.
func writeOpening(list jsonx.Value, write func([]byte)) {
	for _, m := range list.Each {
		write(m.Raw)
		if m.Get("role").Equal("user") {
			return
		}
	}
}

// identitySeed keeps callers from choosing the hashes of their conversations.
var identitySeed = maphash.MakeSeed()
