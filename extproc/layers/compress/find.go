package compress

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// step is a way to shorten a history. They are reported and can be left out one by one.
type step uint8

const (
	stepDedup     step = iota // a result that the call before had, too
	stepStale                 // a result that a later call made out of date
	stepJSON                  // white space between JSON values
	stepFormat                // what a terminal would not show
	stepNear                  // a result that a later one of another call nearly has
	stepRelevance             // a result that nothing asked since concerns
	stepSummary               // a summary in place of old turns
	stepCount
)

var stepNames = [stepCount]string{"dedup", "stale", "json", "format", "near", "relevance", "summary"}

// steps is a set of steps.
type steps uint16

func (s steps) has(one step) bool { return s&(1<<one) != 0 }

// change is what a text becomes when the horizon is beyond a turn. A text may have several, the later of which replace the earlier ones.
type change struct {
	text    int // index in Transcript.Texts
	from    int // the turn that the horizon must be beyond
	becomes string
	saves   int // bytes, besides those of the text's earlier changes; below zero only for a change that must be made
	step    step
	id      string // by which the text can be recalled; "" where the conversation shows it elsewhere, or it cannot
	refers  int    // the turn that the new text refers to; none for none
	must    bool   // what an earlier change of the text refers to goes out of date
}

// atOnce is the turn of changes that are made as soon as the text appears: it never stood in a prompt, and no cache has it.
const atOnce = -1

// none is no turn.
const none = -1

// maxResults bounds the work for one request.
const maxResults = 4000

// result is the result of a call that may be changed.
type result struct {
	text, turn int
	value      string   // as the client sent it
	sent       string   // as it is sent before any later change
	call       string   // its id
	made       string   // what was called: tool and arguments; "" if that is not known
	lines      []uint64 // hashes of the lines of sent; nil until near needs them
	id         string   // by which it can be recalled: the same in each request of the conversation

	decided int     // the turn from which nothing asked concerns it (stepRelevance); none for never
	target  *result // the later result that it is told apart from (stepNear)
	pins    int     // results that are told apart from it: while there are any, it stays whole
	needed  bool    // another result was ever told apart from it, or refers to it
	gone    bool    // it is out of date
	changes changes
}

// find returns the changes of a conversation, those of one text in the order of their turns. What they are depends on the turns up to their own alone, so
// that later turns of the conversation find the same ones. A request of fewer than least bytes was sent as it is.
func find(t *transcript.Transcript, without steps, recall bool, least int) (out []change) {
	f := finder{without: without, recall: recall, whole: sentWhole(t, least), runs: map[string][]*result{}}
	results := resultsOf(t)
	if len(results) == 0 {
		return nil
	}
	if !without.has(stepRelevance) {
		decide(t, results)
	}
	for i := range results {
		if r := &results[i]; r.made != "" {
			f.add(r)
		}
	}
	for i := range results {
		if r := &results[i]; r.decided >= 0 && !r.needed {
			r.changes.add(change{from: r.decided, becomes: omitted(r, recall), step: stepRelevance, refers: none, id: r.lostID(recall)})
		}
		out = append(out, results[i].changes.settled(without)...)
	}
	return out
}

// finder goes through results in their order.
type finder struct {
	without steps
	recall  bool                 // what is lost can be fetched back
	whole   int                  // the last turn of requests that were sent as they are; none for none
	runs    map[string][]*result // by what was called: the last equal results in a row
	latest  []*result            // the latest results that are no repetitions
	work    int                  // bytes compared so far, see near
}

// add finds the changes that a result brings: of equal results of one call in a row the first is kept, and all of them are out of date when there is another
// one.
func (f *finder) add(r *result) {
	run := f.runs[r.made]
	if len(run) > 0 && run[0].value == r.value && !run[0].leftOut(r.turn) && !f.without.has(stepDedup) {
		run[0].needed = true
		r.changes.add(change{from: f.soonest(r), becomes: fmt.Sprintf("[The same as the result of %s above.]", nameOf(run[0])), step: stepDedup, refers: run[0].turn})
		f.runs[r.made] = append(run, r)
		return
	}
	f.lossless(r)
	f.near(r)
	f.runs[r.made] = []*result{r}
	for _, old := range run {
		if old.pins == 0 && !f.without.has(stepStale) {
			old.outdate()
			old.changes.add(change{from: r.turn, becomes: "[Out of date: the same call was made again later." + old.hint(f.recall) + "]", step: stepStale, refers: none, id: old.lostID(f.recall)})
		}
	}
}

// lostID is the id of a result that is lost, if it can be recalled.
func (r *result) lostID(recall bool) string {
	if !recall {
		return ""
	}
	return r.id
}

// hint says how a result can be recalled, if it can.
func (r *result) hint(recall bool) string {
	if !recall {
		return ""
	}
	return " " + recallTool + " shows it: " + r.id
}

// leftOut reports whether a result may be left out as irrelevant before a turn.
func (r *result) leftOut(before int) bool { return r.decided >= 0 && r.decided < before && !r.needed }

// outdate notes that a result is out of date: none has to be told apart from another for it.
func (r *result) outdate() {
	r.gone = true
	if r.target != nil {
		r.target.pins--
	}
}

// soonest is the turn of a change of a result that has no meaning to wait: at once, unless a prompt had the result before.
func (f *finder) soonest(r *result) int {
	if r.turn <= f.whole {
		return r.turn
	}
	return atOnce
}

// sentWhole is the last turn of the conversation's requests that had fewer than least bytes; none for none.
func sentWhole(t *transcript.Transcript, least int) int {
	whole, size, last := none, len(t.Doc().Bytes), len(t.Turns)-1
	for k := range t.Turns {
		if !isPrompt(t, k) {
			size -= t.Size(k)
		}
	}
	for k := range last {
		if !isPrompt(t, k) {
			size += t.Size(k)
		}
		if t.Turns[k].Role == chat.RoleAssistant || t.Turns[k+1].Role != chat.RoleAssistant {
			continue // no request ended here
		}
		if size >= least {
			break
		}
		whole = k
	}
	return whole
}

// lossless takes off what has no meaning, as soon as the result appears: not of one that a prompt had before.
func (f *finder) lossless(r *result) {
	if r.turn <= f.whole {
		return
	}
	if again := compacted(r); again != "" && !f.without.has(stepJSON) {
		r.sent = again
		r.changes.add(change{from: atOnce, becomes: again, step: stepJSON, refers: none})
	}
	if again := displayed(r); again != "" && !f.without.has(stepFormat) {
		r.sent = again
		r.changes.add(change{from: atOnce, becomes: again, step: stepFormat, refers: none})
	}
}

// changes collects those of one text.
type changes struct {
	text, size int // bytes of the text in the document
	list       []change
}

func (w *changes) add(c change) { w.list = append(w.list, c) }

// settled are the changes in the order of their turns, without those that save nothing besides the ones before them.
func (w *changes) settled(without steps) (out []change) {
	slices.SortStableFunc(w.list, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	left := w.size
	for _, c := range w.list {
		n := size(c.becomes)
		if c.becomes == "" || n >= left && !c.must || without.has(c.step) {
			continue
		}
		c.text, c.saves, left = w.text, left-n, n
		out = append(out, c)
	}
	return out
}

// nameOf is how a result is referred to.
func nameOf(r *result) string {
	if r.call == "" {
		return "an earlier call"
	}
	return "call " + r.call
}

// size is how long a text is in a document.
func size(s string) int { return jsonx.EscapedLen(s) }

// resultsOf are the results that are long enough, in their order.
func resultsOf(t *transcript.Transcript) (out []result) {
	if !slices.ContainsFunc(t.Texts, func(at transcript.Text) bool { return isLong(&at) }) {
		return nil
	}
	made := callsOf(t)
	n := 0
	for i := range t.Texts {
		at := &t.Texts[i]
		if at.Kind == transcript.Result {
			n++
		}
		if !isLong(at) {
			continue
		}
		if len(out) == maxResults {
			break
		}
		r := result{text: i, turn: at.Turn, value: t.String(i), call: at.Call, made: made[at.Call], decided: none, id: "r" + strconv.Itoa(n)}
		r.sent, r.changes = r.value, changes{text: i, size: len(at.Value.Raw) - len(`""`)}
		if n := len(out); n > 0 && out[n-1].call == r.call && out[n-1].turn == r.turn { // a result of several parts is known by all of them
			r.made, out[n-1].made = "", ""
		}
		out = append(out, r)
	}
	return out
}

// isLong reports whether a text is a result that is long enough.
func isLong(at *transcript.Text) bool {
	return at.Kind == transcript.Result && !at.ProviderDefined && at.Turn >= 0 && len(at.Value.Raw) >= minResult && at.Value.Kind() == jsonx.String
}

// callsOf is what was called, by the calls' ids: a tool with arguments.
func callsOf(t *transcript.Transcript) map[string]string {
	names, out := map[string]string{}, map[string]string{}
	for i := range t.Turns {
		if t.Turns[i].Role != chat.RoleAssistant {
			continue
		}
		for _, c := range t.Turns[i].Calls {
			if c.ID != "" {
				names[c.ID] = c.Name
			}
		}
	}
	for i := range t.Texts {
		at := &t.Texts[i]
		if name := names[at.Call]; at.Kind == transcript.Arguments && name != "" {
			out[at.Call] = name + "\x00" + t.String(i)
		}
	}
	return out
}
