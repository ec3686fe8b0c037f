package compress

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/clock"
)

// plan is what becomes of one request's history.
type plan struct {
	x       *pipeline.Exchange
	t       *transcript.Transcript
	keep    int // answers of the model at the end whose turns stay
	prices  prices
	recall  bool     // what is lost can be fetched back, by a tool that is added to the others
	list    []change // that are possible
	answers []int    // of the model up to each turn

	keys    []key // empty without a memory
	before  talk  // how the conversation was sent before
	known   bool  // that is known
	cold    bool  // the provider's cache has nothing of it any more
	horizon int   // changes from turns before it are made
	prior   int   // the horizon of the request before
	note    *note // stands in place of its turns; nil for none
	fresh   bool  // it was made for this request
	retry   int   // see talk
}

// newPlan reads what is known of a conversation.
func (l Layer) newPlan(x *pipeline.Exchange, t *transcript.Transcript) *plan {
	p := &plan{x: x, t: t, keep: l.keep(), prices: pricesOf(x), recall: l.Recall && mayRecall(x, t), answers: answersUpTo(t)}
	p.list = find(t, l.without, p.recall, bodyOf(x))
	if l.Memory == nil || len(p.list) == 0 && !l.summarises() {
		return p
	}
	p.keys = l.Memory.keysOf(x, t)
	if p.before, p.known = l.Memory.last(p.keys); p.known {
		p.cold = clock.Since(p.before.at) > lifetimeOf(x.Request)
		p.retry = p.before.retry
	}
	return p
}

// replaces reports whether a turn is one of those that the summary stands for.
func (p *plan) replaces(turn int) bool {
	return p.note != nil && turn >= p.note.from && turn < p.note.to
}

// possible reports whether a change may be made: neither its text nor what it refers to is gone.
func (p *plan) possible(c *change) bool {
	return !p.replaces(p.t.Texts[c.text].Turn) && (c.refers == none || !p.replaces(c.refers))
}

// find sets the horizon, beyond which changes of what was sent before are made: that of the conversation's last request, or further where that pays. Where
// the last request is not known, it follows from the conversation alone.
func (p *plan) find() {
	p.list = slices.DeleteFunc(p.list, func(c change) bool { return !p.possible(&c) })
	last := len(p.t.Turns) - 1
	if p.known {
		p.horizon, p.prior = p.before.horizon, p.before.horizon
		p.extend(last)
		return
	}
	for k := sentWhole(p.t, bodyOf(p.x)) + 1; k <= last; k++ {
		if p.t.Turns[k].Role == chat.RoleAssistant || k < last && p.t.Turns[k+1].Role != chat.RoleAssistant {
			continue // no request ended here
		}
		p.prior = p.horizon
		p.extend(k)
	}
}

// extend moves the horizon to where the last turns of the request begin that ended with turn k, if that pays then. The first time that anything is lost, a
// tool is added for it, and the whole prompt is written again.
func (p *plan) extend(k int) {
	end := lastTurns(p.t, k, p.keep)
	if end <= p.horizon {
		return
	}
	saves, first, again := 0, none, 0
	offered, offers := false, false // the tool, before and now
	for i := range p.list {
		c := &p.list[i]
		offered = offered || c.id != "" && c.from < p.horizon
		if c.from < p.horizon || c.from >= end {
			continue
		}
		offers = offers || c.id != ""
		saves += c.saves
		if turn := p.t.Texts[c.text].Turn; first == none || turn < first {
			first = turn
		}
	}
	if offers && !offered {
		saves -= definitionSize
		again, first = p.toolSize(), 0
	}
	if saves <= 0 {
		return
	}
	again += p.size(first, k+1, end)
	if p.cold {
		again = 0
	}
	if p.prices.margin(float64(saves), float64(again), p.answers[k]) >= 0 || p.overflows(k) {
		p.horizon = end
	}
}

// toolSize is how long the definitions of the request's tools are.
func (p *plan) toolSize() (n int) {
	for i := range p.t.Tools {
		n += len(p.t.Tools[i].Value.Raw)
	}
	return n
}

// size is how many bytes are sent of some turns, with the changes before a horizon. A system prompt stands before the first turn, wherever it is in the
// document.
func (p *plan) size(from, to, horizon int) (n int) {
	for i := from; i < to; i++ {
		if !p.replaces(i) && (from == 0 || !isPrompt(p.t, i)) {
			n += p.t.Size(i)
		}
	}
	for i := range p.list {
		if c := &p.list[i]; c.from < horizon {
			if turn := p.t.Texts[c.text].Turn; turn >= from && turn < to {
				n -= c.saves
			}
		}
	}
	if p.note != nil && p.note.from >= from && p.note.from < to {
		n += len(p.note.text)
	}
	return n
}

// windowShare is how much of a model's window a prompt may fill before its history is shortened at any price: a request that does not fit is refused.
const windowShare = 0.9

// overflows reports whether the request that ended with turn k hardly fits into the model's window.
func (p *plan) overflows(k int) bool {
	return p.prices.window > 0 && float64(tokens(p.size(0, k+1, p.horizon))) > windowShare*float64(p.prices.window)
}

// apply makes the changes, and says in bytes what each step saves.
func (l Layer) apply(p *plan) (saved [stepCount]int, err error) {
	made := false
	var lost map[string]int
	for i := range p.list {
		c := &p.list[i]
		if c.from >= p.horizon {
			continue
		}
		p.t.Set(c.text, c.becomes)
		saved[c.step] += c.saves
		if made = true; c.id != "" {
			lost = with(lost, c.id, c.text)
		}
	}
	if p.note != nil {
		saved[stepSummary] = p.replace()
		made = true
	}
	if !made {
		return saved, nil
	}
	if p.x.Whole == nil {
		p.x.Whole = p.x.Request
	}
	if lost != nil {
		l.offer(p.x, p.t, lost)
		if at := stepStale; saved[at] > definitionSize {
			saved[at] -= definitionSize
		} else {
			saved[stepRelevance] -= definitionSize
		}
	}
	return saved, p.x.Change(p.t)
}

// replace puts the summary in the place of its turns, and returns how many bytes that saves.
func (p *plan) replace() (saves int) {
	raw := p.block()
	saves = p.replaced() - len(raw)
	p.t.Replace(p.t.Turns[p.note.from].Value, raw)
	for i := p.note.from + 1; i < p.note.to; i++ {
		p.t.Remove(i)
	}
	return saves
}

// replaced is how many bytes the turns have that the summary stands for, as they would be sent without it.
func (p *plan) replaced() (n int) {
	for i := p.note.from; i < p.note.to; i++ {
		n += p.t.Size(i)
	}
	return n
}

// report is the log of the layer: what was saved in all, and by each step.
func (p *plan) report(saved [stepCount]int, notes []string) pipeline.Entry {
	all := 0
	var parts []string
	for i, n := range saved {
		all += n
		if n > 0 {
			parts = append(parts, stepNames[i]+"="+strconv.FormatInt(tokens(n), 10))
		}
	}
	return pipeline.Entry{Layer: Name, Saved: max(tokens(all), 0), Note: strings.Join(append(parts, notes...), ";"), Change: p.change()}
}

// change says where in the prompt the changes stand, and which the request before did not have.
func (p *plan) change() (out pipeline.Change) {
	t, end, before := p.t, lastPrompt(p.t), p.prior
	first, changed, fresh := len(t.Turns), len(t.Turns), 0
	offered, offers := false, false // the tool that is added, before and now
	for i := range p.list {
		c := &p.list[i]
		if c.from >= p.horizon {
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
	if p.note != nil {
		if first = min(first, p.note.from); p.fresh {
			changed = min(changed, p.note.from)
		}
	}
	out.New, out.Before = tokens(fresh), tokens(sizeOf(t, 0, first))
	if offers && !offered { // tools stand before everything else
		all := sizeOf(t, 0, len(t.Turns))
		out.Before, out.Again = 0, tokens(max(0, len(t.Doc().Bytes)-all+p.size(0, end, p.horizon)))
		return out
	}
	if changed < end {
		out.Again = tokens(max(0, p.size(changed, end, p.horizon)))
	}
	return out
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
