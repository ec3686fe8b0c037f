// Package compress is layer L5: it shortens the results of tool calls in a conversation (D-34). A result that is the same as that of the call before with the
// same tool and arguments becomes a reference to it, at once. Further back than the last turns, results that a later call of the same tool with the same
// arguments made stale are dropped, and JSON loses its white space. Nothing else changes: no system prompt, nothing that the user or the model said,
// and no call loses its result.
//
// A change of what was sent before makes the provider's prompt cache useless from there on. So these changes are made together, when they save more than it
// costs to write the prompt's rest to the cache again. When that is follows from the conversation alone: each turn finds the same changes as the turn before,
// and needs no memory.
package compress

import (
	"context"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l5"

const (
	minBody   = 16 << 10 // bytes of a request below which there is nothing to gain
	minResult = 300      // bytes of a result that is worth replacing
	keepTurns = 4        // answers of the model at the end whose turns stay as they are
)

// Layer shortens histories. Stateless.
type Layer struct {
	Off bool
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
)

// Name is "l5".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Applies reports whether the request may have a history that is worth shortening.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return !l.Off && x.Request.Op == chat.Generate && len(x.Request.Doc.Bytes) >= minBody
}

// Request shortens the history.
func (Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	list := find(t)
	if len(list) == 0 {
		return nil
	}
	upTo := horizon(t, list, caches(x))
	saved := 0
	for i := range list {
		if c := &list[i]; c.from < upTo {
			t.Set(c.text, c.becomes)
			saved += c.saves
		}
	}
	x.Log = append(x.Log, pipeline.Entry{Layer: Name, Saved: int64(2*saved) / 7})
	if saved == 0 {
		return nil
	}
	return x.Change(t)
}

// caches reports whether the first candidate has a prompt cache.
func caches(x *pipeline.Exchange) bool { return len(x.Found) == 0 || x.Found[0].MinCache > 0 }

// horizon is the turn before which changes are made, for the last of the requests that the conversation consists of.
func horizon(t *transcript.Transcript, list []change, cached bool) int {
	upTo := 0
	for k := range t.Turns {
		if t.Turns[k].Role == chat.RoleAssistant || k+1 < len(t.Turns) && t.Turns[k+1].Role != chat.RoleAssistant {
			continue // no request ended here
		}
		if end := lastTurns(t, k); end > upTo && pays(t, list, upTo, end, k, cached) {
			upTo = end
		}
	}
	return upTo
}

// lastTurns is where the last turns of the request that ended with turn k begin.
func lastTurns(t *transcript.Transcript, k int) int {
	answers := 0
	for i := k; i >= 0; i-- {
		if t.Turns[i].Role != chat.RoleAssistant || i > 0 && t.Turns[i-1].Role == chat.RoleAssistant { // items of one answer
			continue
		}
		if answers++; answers == keepTurns {
			return i
		}
	}
	return 0
}

// What the provider's cache costs, as shares of the price of input: writing again, and what the tokens that are saved would cost in each of the requests to
// come, of which so many are expected.
const (
	writeAgain = 1.15
	readAgain  = 0.1
	expected   = 10
)

// pays reports whether moving the horizon from one turn to another saves more than the part of the prompt costs that has to be written to the cache again: from
// the first change to turn k.
func pays(t *transcript.Transcript, list []change, from, to, k int, cached bool) bool {
	saves, first := 0, -1
	for i := range list {
		c := &list[i]
		if c.from < from || c.from >= to {
			continue
		}
		saves += c.saves
		if turn := t.Texts[c.text].Turn; first < 0 || turn < first {
			first = turn
		}
	}
	if saves == 0 || !cached {
		return saves > 0
	}
	again := 0
	for i := first; i <= k; i++ {
		again += t.Size(i)
	}
	for i := range list {
		c := &list[i]
		if turn := t.Texts[c.text].Turn; c.from < to && turn >= first && turn <= k {
			again -= c.saves
		}
	}
	return readAgain*expected*float64(saves) >= writeAgain*float64(again)
}
