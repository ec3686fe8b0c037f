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

// plan is how one request's history is shortened.
type plan struct {
	x       *pipeline.Exchange
	t       *transcript.Transcript
	keep    int // last answers of the model whose turns are not changed
	prices  prices
	recall  bool     // what is left out can be recalled by a tool, which is added
	list    []change // possible changes
	answers []int    // number of the model's answers up to each turn

	keys            []key    // empty without a memory
	previous        lastSent // the conversation's previous request
	known           bool     // previous is known
	cold            bool     // the provider's cache of the conversation has expired
	horizon         int      // changes from turns before it are made
	previousHorizon int      // the horizon of the previous request
	note            *note    // replaces its turns; nil for none
	isNew           bool     // the note was made for this request
	retry           int      // see lastSent
}

// newPlan finds the possible changes of a conversation, and its state in the memory.
func (l Layer) newPlan(x *pipeline.Exchange, t *transcript.Transcript) *plan {
	p := &plan{x: x, t: t, keep: l.keep(), prices: pricesOf(x), recall: l.Recall && mayRecall(x, t), answers: answersUpTo(t)}
	p.list = find(t, l.without, p.recall, minBodyOf(x))
	if l.Memory == nil || len(p.list) == 0 && !l.summarises() {
		return p
	}
	p.keys = l.Memory.keysOf(x, t)
	if p.previous, p.known = l.Memory.last(p.keys); p.known {
		p.cold = clock.Since(p.previous.at) > lifetimeOf(x.Request)
		p.retry = p.previous.retry
	}
	return p
}

// replaces reports whether the summary replaces a turn.
func (p *plan) replaces(turn int) bool {
	return p.note != nil && turn >= p.note.from && turn < p.note.to
}

// possible reports whether a change may be made: the summary replaces neither its turn nor the turn that it refers to.
func (p *plan) possible(c *change) bool {
	return !p.replaces(p.t.Texts[c.text].Turn) && (c.refers == none || !p.replaces(c.refers))
}

// find sets the horizon, up to which changes of earlier turns are made: that of the previous request, or further if that pays. If the previous request is
// unknown, the horizon is derived from the conversation alone.
func (p *plan) find() {
	p.list = slices.DeleteFunc(p.list, func(c change) bool { return !p.possible(&c) })
	last := len(p.t.Turns) - 1
	if p.known {
		p.horizon, p.previousHorizon = p.previous.horizon, p.previous.horizon
		p.extend(last)
		return
	}
	for k := sentWhole(p.t, minBodyOf(p.x)) + 1; k <= last; k++ {
		if p.t.Turns[k].Role == chat.RoleAssistant || k < last && p.t.Turns[k+1].Role != chat.RoleAssistant {
			continue // no request ended here
		}
		p.previousHorizon = p.horizon
		p.extend(k)
	}
}

// extend moves the horizon to the beginning of the last turns of the request that ended with turn k, if that pays. The first time that something is left out, a
// tool is added to recall it, so that the whole prompt is written to the cache again.
func (p *plan) extend(k int) {
	end := lastTurns(p.t, k, p.keep)
	if end <= p.horizon {
		return
	}
	saves, first, rewritten := 0, none, 0
	offered, offers := false, false // whether the tool was offered before, and is now
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
		rewritten, first = p.toolSize(), 0
	}
	if saves <= 0 {
		return
	}
	rewritten += p.size(first, k+1, end)
	if p.cold {
		rewritten = 0
	}
	if p.prices.margin(float64(saves), float64(rewritten), p.answers[k]) >= 0 || p.overflows(k) {
		p.horizon = end
	}
}

// toolSize is the size in bytes of the request's tool definitions.
func (p *plan) toolSize() (n int) {
	for i := range p.t.Tools {
		n += len(p.t.Tools[i].Value.Raw)
	}
	return n
}

// size is the number of bytes that are sent of some turns, with the changes before a horizon. A system prompt counts as before the first turn, wherever it is in
// the document.
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

// windowShare is the share of a model's context window from which a prompt's history is shortened at any price: a request that does not fit is refused.
const windowShare = 0.9

// overflows reports whether the request that ended with turn k fills more than windowShare of the model's context window.
func (p *plan) overflows(k int) bool {
	return p.prices.window > 0 && float64(tokens(p.size(0, k+1, p.horizon))) > windowShare*float64(p.prices.window)
}

// apply makes the changes, and returns the bytes that each step saves.
func (l Layer) apply(p *plan) (saved [stepCount]int, err error) {
	changed := false
	var omitted map[string]int
	for i := range p.list {
		c := &p.list[i]
		if c.from >= p.horizon {
			continue
		}
		p.t.Set(c.text, c.replacement)
		saved[c.step] += c.saves
		if changed = true; c.id != "" {
			omitted = with(omitted, c.id, c.text)
		}
	}
	if p.note != nil {
		saved[stepSummary] = p.insertSummary()
		changed = true
	}
	if !changed {
		return saved, nil
	}
	if p.x.Whole == nil {
		p.x.Whole = p.x.Request
	}
	if omitted != nil {
		l.offer(p.x, p.t, omitted)
		if at := stepStale; saved[at] > definitionSize {
			saved[at] -= definitionSize
		} else {
			saved[stepRelevance] -= definitionSize
		}
	}
	return saved, p.x.Change(p.t)
}

// insertSummary replaces turns by their summary, and returns the number of bytes that this saves.
func (p *plan) insertSummary() (saves int) {
	raw := p.summaryMessage()
	saves = p.replacedSize() - len(raw)
	p.t.Replace(p.t.Turns[p.note.from].Value, raw)
	for i := p.note.from + 1; i < p.note.to; i++ {
		p.t.Remove(i)
	}
	return saves
}

// replacedSize is the size in bytes of the turns that the summary replaces, as they would be sent without it.
func (p *plan) replacedSize() (n int) {
	for i := p.note.from; i < p.note.to; i++ {
		n += p.t.Size(i)
	}
	return n
}

// report is the layer's log entry: the tokens saved in total, and by each step.
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

// change describes where in the prompt the changes are, and which of them the previous request did not have.
func (p *plan) change() (out pipeline.Change) {
	t, end, before := p.t, lastPrompt(p.t), p.previousHorizon
	first, changed, fresh := len(t.Turns), len(t.Turns), 0
	offered, offers := false, false // whether the added tool was offered before, and is now
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
		if first = min(first, p.note.from); p.isNew {
			changed = min(changed, p.note.from)
		}
	}
	out.New, out.Before = tokens(fresh), tokens(sizeOf(t, 0, first))
	if offers && !offered { // tools precede everything else
		all := sizeOf(t, 0, len(t.Turns))
		out.Before, out.Again = 0, tokens(max(0, len(t.Doc().Bytes)-all+p.size(0, end, p.horizon)))
		return out
	}
	if changed < end {
		out.Again = tokens(max(0, p.size(changed, end, p.horizon)))
	}
	return out
}

// lastPrompt is the number of turns of the previous request: those before the model's last answer.
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

// sizeOf is the size in bytes of some turns, as the client sent them.
func sizeOf(t *transcript.Transcript, from, to int) (n int) {
	for i := from; i < to; i++ {
		n += t.Size(i)
	}
	return n
}
