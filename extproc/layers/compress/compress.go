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
	"bardo.money/gateway/policy"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l5"

// MinBody is how many bytes a request has at least whose history is shortened. A request's Knobs may say another number.
const MinBody = 16 << 10

const (
	leastBody = 4 << 10 // MinBody, whatever the Knobs say
	minResult = 300     // bytes of a result that is worth replacing
	keepTurns = 4       // answers of the model at the end whose turns stay as they are
)

// Layer shortens histories. Stateless.
type Layer struct {
	Off    bool
	Recall bool // the model gets a tool that shows it what was left out, where nothing else in the conversation does
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Caller    = Layer{}
)

// Name is "l5".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Applies reports whether the request may have a history that is worth shortening.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return !l.Off && x.Request.Op == chat.Generate && len(x.Request.Doc.Bytes) >= bodyOf(x) && x.Intent.PrivacyTier < policy.PrivacyTEE
}

// bodyOf is how many bytes a request has at least whose history is shortened.
func bodyOf(x *pipeline.Exchange) int {
	if k := x.Knobs.CompressFrom; k > 0 {
		return max(k, leastBody)
	}
	return MinBody
}

// Request shortens the history.
func (l Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	p := plan{t: t, cached: caches(x), recall: l.Recall && mayRecall(x, t)}
	if p.list = find(t, p.recall); len(p.list) == 0 {
		return nil
	}
	upTo, before := p.horizon()
	if p.unchangedBefore(bodyOf(x)) {
		before = atOnce
	}
	saved := 0
	var lost map[string]int
	for i := range p.list {
		c := &p.list[i]
		if c.from >= upTo {
			continue
		}
		t.Set(c.text, c.becomes)
		saved += c.saves
		if c.id != "" {
			lost = with(lost, c.id, c.text)
		}
	}
	x.Log = append(x.Log, pipeline.Entry{Layer: Name, Saved: tokens(saved), Change: p.changeOf(upTo, before)})
	if saved == 0 {
		return nil
	}
	if lost != nil {
		l.offer(x, t, lost)
	}
	return x.Change(t)
}

// tokens estimates the tokens of so many bytes.
func tokens(bytes int) int64 { return int64(2*bytes) / 7 }

// changeOf says where in the prompt the changes up to a horizon stand; in the request before, the horizon was at before.
func (p *plan) changeOf(upTo, before int) (out pipeline.Change) {
	t, end := p.t, lastPrompt(p.t)
	first, changed, fresh := len(t.Turns), len(t.Turns), 0
	offered, offers := false, false // the tool that is added, before and now
	for i := range p.list {
		c := &p.list[i]
		if c.from >= upTo {
			continue
		}
		offers, offered = offers || c.id != "", offered || c.id != "" && c.from < before
		turn := t.Texts[c.text].Turn
		first = min(first, turn)
		switch {
		case turn >= end:
			fresh += c.saves
		case c.from >= before:
			changed = min(changed, turn)
		}
	}
	out.New, out.Before = tokens(fresh), tokens(sizeOf(t, 0, first))
	if offers && !offered { // tools stand before everything else
		all := sizeOf(t, 0, len(t.Turns))
		out.Before, out.Again = 0, tokens(max(0, len(t.Doc().Bytes)-all+p.size(0, end-1, upTo)))
		return out
	}
	if changed < end {
		out.Again = tokens(max(0, p.size(changed, end-1, upTo)))
	}
	return out
}

// unchangedBefore reports whether the request before was too short for this layer: whatever changes now, it had.
func (p *plan) unchangedBefore(least int) bool {
	return len(p.t.Doc().Bytes)-sizeOf(p.t, lastPrompt(p.t), len(p.t.Turns)) < least
}

// lastPrompt is the number of turns of the request before: those up to the model's last answer.
func lastPrompt(t *transcript.Transcript) int {
	k := len(t.Turns) - 1
	for k >= 0 && t.Turns[k].Role != chat.RoleAssistant {
		k--
	}
	for k > 0 && t.Turns[k-1].Role == chat.RoleAssistant { // items of one answer
		k--
	}
	return max(k, 0)
}

// sizeOf is the length of some turns in bytes, as the client sent them.
func sizeOf(t *transcript.Transcript, from, to int) (n int) {
	for i := from; i < to; i++ {
		n += t.Size(i)
	}
	return n
}

// caches reports whether the first candidate has a prompt cache.
func caches(x *pipeline.Exchange) bool { return len(x.Found) == 0 || x.Found[0].MinCache > 0 }

// plan is which changes of a conversation are made.
type plan struct {
	t      *transcript.Transcript
	list   []change
	cached bool // the provider has a prompt cache
	recall bool // what is lost can be fetched back, by a tool that is added to the others
}

// horizon is the turn before which changes are made, for the last of the requests that the conversation consists of; before is that of the one before it.
func (p *plan) horizon() (upTo, before int) {
	t := p.t
	for k := range t.Turns {
		if t.Turns[k].Role == chat.RoleAssistant || k+1 < len(t.Turns) && t.Turns[k+1].Role != chat.RoleAssistant {
			continue // no request ended here
		}
		before = upTo
		if end := lastTurns(t, k); end > upTo && p.pays(upTo, end, k) {
			upTo = end
		}
	}
	return upTo, before
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
// the first change to turn k. The first time that anything is lost, a tool is added for it, and that is the whole prompt.
func (p *plan) pays(from, to, k int) bool {
	saves, first := 0, -1
	offered, offers := false, false // the tool, before and now
	for i := range p.list {
		c := &p.list[i]
		offered = offered || c.id != "" && c.from < from
		if c.from < from || c.from >= to {
			continue
		}
		offers = offers || c.id != ""
		saves += c.saves
		if turn := p.t.Texts[c.text].Turn; first < 0 || turn < first {
			first = turn
		}
	}
	again := 0
	if offers && !offered {
		saves -= definitionSize
		first = 0
		for i := range p.t.Tools {
			again += len(p.t.Tools[i].Value.Raw)
		}
	}
	if saves <= 0 || !p.cached {
		return saves > 0
	}
	return readAgain*expected*float64(saves) >= writeAgain*float64(again+p.size(first, k, to))
}

// size is how long the turns from first to last are with the changes before a horizon, in bytes.
func (p *plan) size(first, last, horizon int) (n int) {
	for i := first; i <= last; i++ {
		n += p.t.Size(i)
	}
	for i := range p.list {
		c := &p.list[i]
		if turn := p.t.Texts[c.text].Turn; c.from < horizon && turn >= first && turn <= last {
			n -= c.saves
		}
	}
	return n
}
