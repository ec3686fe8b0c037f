package compress

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
)

// A result is left out as irrelevant where the user has asked for something else since, and nothing that was said or called from then on has a word of it:
// conservative, since a result that the conversation returns to later cannot be brought back. Lines that state a rule or a limit stay.

const (
	relevantMin   = 2 << 10 // bytes of a result that may be left out
	relevantTurns = 6       // answers of the model since the user asked for something else
	relevantWords = 24      // different words that must have been said since, for their absence to mean anything
	keptRules     = 400     // bytes of lines that are kept of a result
)

// decide finds the turns from which nothing asked since concerns a result. Each is decided once, when enough was said since, by nothing later.
func decide(t *transcript.Transcript, results []result) {
	at := turnsOf(t)
	for i := range results {
		r := &results[i]
		if r.made == "" || r.changes.size < relevantMin {
			continue
		}
		if asked, decided := at.since(r.turn); decided >= 0 && at.unrelated(r, asked, decided) {
			r.decided = decided
		}
	}
}

// said is what was said and called in a conversation, by turns.
type said struct {
	words  []map[string]bool // of users' and the model's texts, and of calls
	users  []int             // turns with a text of the user
	models []int             // turns that begin an answer of the model
}

func turnsOf(t *transcript.Transcript) *said {
	s := &said{words: make([]map[string]bool, len(t.Turns))}
	for i := range t.Turns {
		turn := &t.Turns[i]
		if turn.Role == chat.RoleAssistant && (i == 0 || t.Turns[i-1].Role != chat.RoleAssistant) {
			s.models = append(s.models, i)
		}
		for k := turn.First; k < turn.End; k++ {
			switch t.Texts[k].Kind {
			case transcript.User:
				if n := len(s.users); n == 0 || s.users[n-1] != i {
					s.users = append(s.users, i)
				}
			case transcript.Assistant, transcript.Arguments, transcript.Document:
			default:
				continue
			}
			s.words[i] = addWords(s.words[i], t.String(k))
		}
	}
	return s
}

// since is the turn in which the user asked for something after a result, and the one when enough answers have followed; decided is negative while that is
// not the case.
func (s *said) since(turn int) (asked, decided int) {
	for _, u := range s.users {
		if u <= turn {
			continue
		}
		answers := 0
		for _, m := range s.models {
			if m > u {
				if answers++; answers == relevantTurns {
					return u, m
				}
			}
		}
		return u, none
	}
	return none, none
}

// unrelated reports whether no word of a result was said or called from a turn to another.
func (s *said) unrelated(r *result, from, to int) bool {
	mine := addWords(nil, r.value)
	all := map[string]bool{}
	for i := from; i <= to; i++ {
		for w := range s.words[i] {
			if mine[w] {
				return false
			}
			all[w] = true
		}
	}
	return len(all) >= relevantWords
}

// omitted is what is left of a result: lines that state a rule.
func omitted(r *result, recall bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[Left out: %d bytes that nothing asked since concerns.%s]", len(r.value), r.hint(recall))
	room := keptRules
	for line := range strings.SplitSeq(r.value, "\n") {
		if line = strings.TrimSpace(line); line == "" || len(line) > room || !rule.MatchString(line) {
			continue
		}
		room -= len(line)
		b.WriteString("\n" + line)
	}
	return b.String()
}

// rule matches what states a constraint or a decision.
var rule = regexp.MustCompile(`(?i)\b(?:must|never|always|only|do not|don't|shall|may not|cannot|required?|forbidden|prohibited|limit(?:ed)?|at (?:most|least)|maximum|minimum|deadline|` +
	`decid(?:e|ed|ing)|decision|chose|chosen|agreed|approved?|rejected|confirmed|instead of|warning)\b`)

// minWord is the length of a word that means something by itself, in bytes; of one with digits, it is minNumber.
const (
	minWord   = 4
	minNumber = 3
)

// addWords adds the words of a text that mean something, in lower case.
func addWords(to map[string]bool, text string) map[string]bool {
	if to == nil {
		to = map[string]bool{}
	}
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		long := minWord
		if strings.ContainsAny(w, "0123456789") {
			long = minNumber
		}
		if len(w) < long {
			continue
		}
		if w = strings.ToLower(w); !stopWords[w] {
			to[w] = true
		}
	}
	return to
}

// stopWords are words of at least minWord letters that are in any text.
var stopWords = func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(`that this with from have been were will would should could what when where which while there their they them then than these those
		your yours into onto over under about after before again also just like more most much many some such very only other each both between because during does
		done doing being here same well please need want make made take took give gave know think look find found good best first last next true false null none
		must shall ever even still yet upon within without through against among since until toward using used uses`) {
		out[w] = true
	}
	return out
}()
