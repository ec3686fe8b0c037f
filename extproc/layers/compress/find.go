package compress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// change is what a text becomes when the horizon is beyond a turn. A text may have two, the later of which replaces the earlier one.
type change struct {
	text    int // index in Transcript.Texts
	from    int // the turn that the horizon must be beyond
	becomes string
	saves   int    // bytes, besides those of the text's earlier change
	id      string // by which the text can be recalled; "" where the conversation shows it elsewhere, or it cannot
}

// atOnce is the turn of changes that are made as soon as the text appears: it never stood in a prompt, and no cache has it.
const atOnce = -1

// maxResults bounds the work for one request.
const maxResults = 4000

// result is the result of a call that may be changed.
type result struct {
	text, turn int
	value      string
	call       string // its id
	id         string // by which it can be recalled: the same in each request of the conversation
	made       string // what was called: tool and arguments; "" if that is not known
}

// find returns the changes of a conversation, those of one text in the order of their turns. What they are depends on the turns up to their own alone, so
// that later turns of the conversation find the same ones.
func find(t *transcript.Transcript, recall bool) []change {
	var out []change
	var order []string
	calls := map[string][]result{} // by what was called
	for _, r := range resultsOf(t) {
		if r.made == "" {
			continue
		}
		if calls[r.made] == nil {
			order = append(order, r.made)
		}
		calls[r.made] = append(calls[r.made], r)
	}
	for _, made := range order {
		out = append(out, ofOneCall(calls[made], recall)...)
	}
	return out
}

// ofOneCall finds the changes among the results of calls of one tool with the same arguments: of equal results in a row the first is kept, and all of them are
// out of date when there is another one.
func ofOneCall(results []result, recall bool) (out []change) {
	for i := 0; i < len(results); {
		end := i + 1
		for end < len(results) && results[end].value == results[i].value {
			end++
		}
		for j := i; j < end; j++ {
			r := &results[j]
			w := changes{text: r.text, left: size(r.value)}
			if j == i {
				w.add(r.turn, compacted(r))
			} else {
				w.add(atOnce, fmt.Sprintf("[The same as the result of %s above.]", nameOf(&results[i])))
			}
			switch {
			case end == len(results):
			case recall:
				if w.add(results[end].turn, "[Out of date: the same call was made again later. "+recallTool+" shows it: "+r.id+"]") {
					w.list[len(w.list)-1].id = r.id
				}
			default:
				w.add(results[end].turn, "[Out of date: the same call was made again later.]")
			}
			out = append(out, w.list...)
		}
		i = end
	}
	return out
}

// changes collects those of one text.
type changes struct {
	text, left int // bytes that are left of the text
	list       []change
}

// add adds a change unless it saves nothing.
func (w *changes) add(from int, becomes string) bool {
	n := size(becomes)
	if becomes == "" || n >= w.left {
		return false
	}
	w.list = append(w.list, change{text: w.text, from: from, becomes: becomes, saves: w.left - n})
	w.left = n
	return true
}

// nameOf is how a result is referred to.
func nameOf(r *result) string {
	if r.call == "" {
		return "an earlier call"
	}
	return "call " + r.call
}

// size is how long a text is in a document.
func size(s string) int { return len(jsonx.AppendEscaped(nil, s)) }

// resultsOf are the results that are long enough, in their order.
func resultsOf(t *transcript.Transcript) (out []result) {
	made := callsOf(t)
	n := 0
	for i := range t.Texts {
		at := &t.Texts[i]
		if at.Kind == transcript.Result {
			n++
		}
		if at.Kind != transcript.Result || at.Turn < 0 || len(at.Value.Raw) < minResult || at.Value.Kind() != jsonx.String {
			continue
		}
		if len(out) == maxResults {
			break
		}
		r := result{text: i, turn: at.Turn, value: t.String(i), call: at.Call, made: made[at.Call], id: "r" + strconv.Itoa(n)}
		if n := len(out); n > 0 && out[n-1].call == r.call && out[n-1].turn == r.turn { // a result of several parts is known by all of them
			r.made, out[n-1].made = "", ""
		}
		out = append(out, r)
	}
	return out
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

// readers are words in the names of tools whose results are files: an agent that edits a file must know its white space.
var readers = []string{"read", "cat", "open", "view", "file", "edit", "show", "bash", "shell", "exec"}

// compacted is a result that is JSON without white space between its values; "" if that changes nothing, or must not be.
func compacted(r *result) string {
	text := strings.TrimSpace(r.value)
	if text == "" || text[0] != '{' && text[0] != '[' {
		return ""
	}
	name, _, _ := strings.Cut(strings.ToLower(r.made), "\x00")
	if name == "" || slices.ContainsFunc(readers, func(w string) bool { return strings.Contains(name, w) }) {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil || b.Len() == len(r.value) {
		return ""
	}
	return b.String()
}
