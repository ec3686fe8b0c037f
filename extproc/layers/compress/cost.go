package compress

import (
	"bytes"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
)

// A change of what was sent before makes the provider's prompt cache useless from there on: the rest of the prompt is written to it again, at its price. So
// changes wait until the requests to come save more than that.

// prices are those of an input token at the first candidate.
type prices struct {
	plain, read, write float64 // not cached; read from the prompt cache; written to it
	window             int     // tokens of a prompt that fit; 0: unknown
	relative           bool    // they are not amounts of money
}

// pricesOf are the prices of the first candidate. Without a prompt cache all are the same. Where there are no prices, as on a user's own key, those of
// Anthropic stand in: the caller pays as much to the vendor.
func pricesOf(x *pipeline.Exchange) prices {
	if len(x.Found) == 0 {
		return prices{plain: 1, read: usualRead, write: usualWrite, relative: true}
	}
	first := &x.Found[0]
	p := first.Prices.At(x.Request.InputTokens)
	out := prices{plain: float64(p.Input), read: float64(p.CachedInput), write: max(float64(p.CacheWrite), float64(p.Input)), window: first.Context}
	if out.plain <= 0 {
		out.plain, out.read, out.write, out.relative = 1, usualRead, usualWrite, true
	}
	if first.MinCache <= 0 || out.read <= 0 || out.read >= out.plain {
		out.read, out.write = out.plain, out.plain
	}
	return out
}

const (
	usualRead  = 0.1
	usualWrite = 1.25
)

// expected is how many more requests a conversation is expected to have that has had so many: half as many again. It errs on the side of short
// conversations, in which rewriting a prompt would never pay.
func expected(requests int) float64 { return min(float64(requests)/2, maxExpected) }

const maxExpected = 20

// margin is what it saves to make a prompt shorter by some bytes, if the rest from the first change on has to be written to the provider's cache again; below
// zero where that costs more. It is in the price of a token times bytes.
func (p *prices) margin(saves, again float64, requests int) float64 {
	return p.read*(1+expected(requests))*saves - (p.write-p.read)*again
}

// lifetimes of what a provider's cache holds, after it was last read: the usual one, and the one that a client may ask for.
const (
	lifetime     = 5 * time.Minute
	longLifetime = time.Hour
)

var longMark = []byte(`"1h"`)

// lifetimeOf is how long a request's prompt stays in its provider's cache.
func lifetimeOf(r *chat.Request) time.Duration {
	if bytes.Contains(r.Doc.Bytes, longMark) {
		return longLifetime
	}
	return lifetime
}

// bytesPerToken is about how long a token is.
const bytesPerToken = 3.5

// tokens is about how many tokens so many bytes are.
func tokens(n int) int64 { return int64(float64(n) / bytesPerToken) }

// lastTurns is where the last turns of the request that ended with turn k begin: those of its last answers of the model, so many as are kept.
func lastTurns(t *transcript.Transcript, k, keep int) int {
	answers := 0
	for i := k; i >= 0; i-- {
		if !beginsAnswer(t, i) {
			continue
		}
		if answers++; answers == keep {
			return i
		}
	}
	return 0
}

// beginsAnswer reports whether a turn is the first item of an answer of the model.
func beginsAnswer(t *transcript.Transcript, i int) bool {
	return t.Turns[i].Role == chat.RoleAssistant && (i == 0 || t.Turns[i-1].Role != chat.RoleAssistant)
}

// answersUpTo is how many answers of the model there are up to each turn.
func answersUpTo(t *transcript.Transcript) []int {
	out, n := make([]int, len(t.Turns)), 0
	for i := range t.Turns {
		if beginsAnswer(t, i) {
			n++
		}
		out[i] = n
	}
	return out
}
