package compress

import (
	"bytes"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// A change of what was sent before invalidates the provider's prompt cache from there on: the rest of the prompt is written to it again, at its price. So
// changes wait until future requests are expected to save more than that.

// prices are those of an input token at the first candidate.
type prices struct {
	plain, read, write float64 // not cached; read from the prompt cache; written to it
	window             int     // the model's context window in tokens; 0: unknown
	relative           bool    // they are relative to plain, not amounts of money
}

// pricesOf are the prices of the first candidate. Without a prompt cache all are the same. Without prices, as for a user's own key, Anthropic's ratios are used.
func pricesOf(x *pipeline.Exchange) prices {
	if len(x.Found) == 0 {
		return prices{plain: 1, read: defaultRead, write: defaultWrite, relative: true}
	}
	first := &x.Found[0]
	p := first.Prices.At(x.Request.InputTokens)
	out := prices{plain: float64(p.Input), read: float64(p.CachedInput), write: max(float64(p.CacheWrite), float64(p.Input)), window: first.Context}
	if out.plain <= 0 {
		out.plain, out.read, out.write, out.relative = 1, defaultRead, defaultWrite, true
	}
	if first.MinCache <= 0 || out.read <= 0 || out.read >= out.plain {
		out.read, out.write = out.plain, out.plain
	}
	return out
}

const (
	defaultRead  = 0.1
	defaultWrite = 1.25
)

// expected is the number of further requests that a conversation is expected to have: half as many as before. It errs on the side of short conversations, in
// which rewriting a prompt would never pay.
func expected(requests int) float64 { return min(float64(requests)/2, maxExpected) }

const maxExpected = 20

// margin is the net saving of making a prompt shorter by some bytes, if some bytes have to be written to the provider's cache again; negative if that costs
// more. Its unit is the price of a token times bytes.
func (p *prices) margin(saves, rewritten float64, requests int) float64 {
	return p.read*(1+expected(requests))*saves - (p.write-p.read)*rewritten
}

// Lifetimes of entries of a provider's cache after they were last read: the default, and the longer one that a client may request.
const (
	lifetime     = 5 * time.Minute
	longLifetime = time.Hour
)

var (
	longMark  = []byte(`"1h"`)
	markWords = jsonx.WordsOf("cache_control")
)

// lifetimeOf is the lifetime of a request's prompt in the provider's cache. A client requests the longer one with "cache_control": {"ttl": "1h"}.
func lifetimeOf(r *chat.Request) time.Duration {
	if !r.Doc.Stats.Keys.Meets(&markWords) {
		return lifetime
	}
	for b := r.Doc.Bytes; ; {
		at := bytes.LastIndex(b, longMark)
		if at < 0 {
			return lifetime
		}
		const space = " \t\r\n"
		b = bytes.TrimRight(b[:at], space)
		if name, ok := bytes.CutSuffix(b, []byte(":")); ok && bytes.HasSuffix(bytes.TrimRight(name, space), []byte(`"ttl"`)) {
			return longLifetime
		}
	}
}

// bytesPerToken is the estimated length of a token.
const bytesPerToken = 3.5

// tokens estimates the tokens of n bytes.
func tokens(n int) int64 { return int64(float64(n) / bytesPerToken) }

// lastTurns is the first of the last turns of the request that ended with turn k: those from its last keep answers of the model on.
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
