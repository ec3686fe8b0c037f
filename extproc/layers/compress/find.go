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
	stepDedup     step = iota // a result that is equal to that of the previous same call
	stepStale                 // a result that was outdated by a later call
	stepJSON                  // white space between JSON values
	stepFormat                // what a terminal would not show
	stepNear                  // a result that is nearly contained in a later one of another call
	stepRelevance             // a result that is irrelevant to everything since
	stepSummary               // a summary in place of old turns
	stepCount
)

var stepNames = [stepCount]string{"dedup", "stale", "json", "format", "near", "relevance", "summary"}

// steps is a set of steps.
type steps uint16

func (s steps) has(one step) bool { return s&(1<<one) != 0 }

// change replaces a text when the horizon is beyond a turn. A text may have several, of which later ones replace earlier ones.
type change struct {
	text        int // index in Transcript.Texts
	from        int // the turn that the horizon must be beyond
	replacement string
	saves       int // bytes, in addition to the text's earlier changes; negative only for a change that must be made
	step        step
	id          string // by which the text can be recalled; "" if the conversation has it elsewhere, or it cannot be recalled
	refers      int    // the turn that the replacement refers to; none for none
	must        bool   // set if the target of an earlier replacement becomes outdated
}

// immediately is the turn of changes that are made when the text appears: it was in no earlier prompt, and so in no cache.
const immediately = -1

// none is no turn.
const none = -1

// maxResults bounds the results that are examined in one request.
const maxResults = 4000

// result is the result of a call that may be changed.
type result struct {
	text, turn int
	value      string   // as received from the client
	sent       string   // as sent to the provider before any later change
	call       string   // its id
	invocation string   // tool and arguments of the call; "" if unknown
	lines      []uint64 // hashes of the lines of sent; nil until near needs them
	id         string   // by which it can be recalled: the same in each request of the conversation

	irrelevantFrom int     // the turn from which it is irrelevant (stepRelevance); none for never
	base           *result // the later result whose difference replaces it (stepNear); nil for none
	dependents     int     // results whose base it is: while there are any, it is not changed
	needed         bool    // it was ever a base, or another result refers to it
	outdated       bool
	changes        changes
}

// find returns the possible changes of a conversation, those of one text in the order of their turns. Each depends only on the turns up to its own, so that
// later requests of the conversation find the same ones. Requests of fewer than minBody bytes were sent unchanged.
func find(t *transcript.Transcript, without steps, recall bool, minBody int) (out []change) {
	f := finder{without: without, recall: recall, lastWhole: sentWhole(t, minBody), runs: map[string][]*result{}}
	results := resultsOf(t)
	if len(results) == 0 {
		return nil
	}
	if !without.has(stepRelevance) {
		markIrrelevant(t, results)
	}
	for i := range results {
		if r := &results[i]; r.invocation != "" {
			f.add(r)
		}
	}
	for i := range results {
		if r := &results[i]; r.irrelevantFrom >= 0 && !r.needed {
			r.changes.add(change{from: r.irrelevantFrom, replacement: omittedText(r, recall), step: stepRelevance, refers: none, id: r.recallID(recall)})
		}
		out = append(out, results[i].changes.resolved(without)...)
	}
	return out
}

// finder processes results in their order.
type finder struct {
	without   steps
	recall    bool                 // what is left out can be recalled
	lastWhole int                  // the last turn of requests that were sent unchanged; none for none
	runs      map[string][]*result // by invocation: the last equal results in a row
	latest    []*result            // the latest results that do not repeat another
	work      int                  // bytes compared so far, see near
}

// add finds the changes that a result causes: of equal results of the same call in a row the first is kept, and a different one makes all of them outdated.
func (f *finder) add(r *result) {
	run := f.runs[r.invocation]
	if len(run) > 0 && run[0].value == r.value && !run[0].isOmitted(r.turn) && !f.without.has(stepDedup) {
		run[0].needed = true
		r.changes.add(change{from: f.earliest(r), replacement: fmt.Sprintf("[The same as the result of %s above.]", reference(run[0])), step: stepDedup, refers: run[0].turn})
		f.runs[r.invocation] = append(run, r)
		return
	}
	f.compact(r)
	f.near(r)
	f.runs[r.invocation] = []*result{r}
	for _, old := range run {
		if old.dependents == 0 && !f.without.has(stepStale) {
			old.outdate()
			old.changes.add(change{from: r.turn, replacement: "[Out of date: the same call was made again later." + old.hint(f.recall) + "]", step: stepStale, refers: none, id: old.recallID(f.recall)})
		}
	}
}

// recallID is the id of a result for its recall, "" if it cannot be recalled.
func (r *result) recallID(recall bool) string {
	if !recall {
		return ""
	}
	return r.id
}

// hint tells the model how to recall a result, "" if it cannot be recalled.
func (r *result) hint(recall bool) string {
	if !recall {
		return ""
	}
	return " " + recallTool + " shows it: " + r.id
}

// isOmitted reports whether a result may have been left out as irrelevant before a turn.
func (r *result) isOmitted(before int) bool {
	return r.irrelevantFrom >= 0 && r.irrelevantFrom < before && !r.needed
}

// outdate marks a result as outdated, so that its base may be changed.
func (r *result) outdate() {
	r.outdated = true
	if r.base != nil {
		r.base.dependents--
	}
}

// earliest is the turn of a change that need not wait: immediately, unless an earlier prompt had the result.
func (f *finder) earliest(r *result) int {
	if r.turn <= f.lastWhole {
		return r.turn
	}
	return immediately
}

// sentWhole is the last turn of the conversation's requests of fewer than minBody bytes; none for none.
func sentWhole(t *transcript.Transcript, minBody int) int {
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
		if size >= minBody {
			break
		}
		whole = k
	}
	return whole
}

// compact removes formatting without meaning from a new result, but not from one that an earlier prompt had.
func (f *finder) compact(r *result) {
	if r.turn <= f.lastWhole {
		return
	}
	if shortened := compacted(r); shortened != "" && !f.without.has(stepJSON) {
		r.sent = shortened
		r.changes.add(change{from: immediately, replacement: shortened, step: stepJSON, refers: none})
	}
	if shortened := displayed(r); shortened != "" && !f.without.has(stepFormat) {
		r.sent = shortened
		r.changes.add(change{from: immediately, replacement: shortened, step: stepFormat, refers: none})
	}
}

// changes are those of one text.
type changes struct {
	text, size int // bytes of the text in the document
	list       []change
}

func (w *changes) add(c change) { w.list = append(w.list, c) }

// resolved are the changes in the order of their turns, without those that save nothing in addition to the previous ones.
func (w *changes) resolved(without steps) (out []change) {
	slices.SortStableFunc(w.list, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	left := w.size
	for _, c := range w.list {
		n := size(c.replacement)
		if c.replacement == "" || n >= left && !c.must || without.has(c.step) {
			continue
		}
		c.text, c.saves, left = w.text, left-n, n
		out = append(out, c)
	}
	return out
}

// reference is the name of a result in replacements.
func reference(r *result) string {
	if r.call == "" {
		return "an earlier call"
	}
	return "call " + r.call
}

// size is the length in bytes of a text in a document.
func size(s string) int { return jsonx.EscapedLen(s) }

// resultsOf are the results that are long enough to be changed, in their order.
func resultsOf(t *transcript.Transcript) (out []result) {
	if !slices.ContainsFunc(t.Texts, func(at transcript.Text) bool { return isLong(&at) }) {
		return nil
	}
	invocations := invocationsOf(t)
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
		r := result{text: i, turn: at.Turn, value: t.String(i), call: at.Call, invocation: invocations[at.Call], irrelevantFrom: none, id: "r" + strconv.Itoa(n)}
		r.sent, r.changes = r.value, changes{text: i, size: len(at.Value.Raw) - len(`""`)}
		if n := len(out); n > 0 && out[n-1].call == r.call && out[n-1].turn == r.turn { // a result of several parts is not compared
			r.invocation, out[n-1].invocation = "", ""
		}
		out = append(out, r)
	}
	return out
}

// isLong reports whether a text is a result that is long enough to be changed.
func isLong(at *transcript.Text) bool {
	return at.Kind == transcript.Result && !at.ProviderDefined && at.Turn >= 0 && len(at.Value.Raw) >= minResult && at.Value.Kind() == jsonx.String
}

// invocationsOf are tool and arguments of calls, by their ids.
func invocationsOf(t *transcript.Transcript) map[string]string {
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
