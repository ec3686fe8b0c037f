package compress

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
)

// A result is left out as irrelevant if the user has asked for something else since, and no message or call from then on has a word of it. This is
// conservative, since the conversation may return to the result. Lines that state a rule or a limit are kept.

const (
	minOmitted      = 2 << 10 // bytes of the shortest result that is left out
	minAnswersSince = 6       // answers of the model since the user asked for something else
	minWordsSince   = 24      // different words since, without which the absence of a result's words is not significant
	maxKeptRules    = 400     // bytes of the lines that are kept of a result
)

// markIrrelevant sets the turns from which results are irrelevant. Each is decided once, by the turns up to the one with enough answers since.
func markIrrelevant(t *transcript.Transcript, results []result) {
	at := newTurnIndex(t)
	for i := range results {
		r := &results[i]
		if r.invocation == "" || r.changes.size < minOmitted {
			continue
		}
		if question, decided := at.decisionTurns(r.turn); decided >= 0 && at.unrelated(r, question, decided) {
			r.irrelevantFrom = decided
		}
	}
}

// turnIndex indexes the turns of a conversation and their words.
type turnIndex struct {
	t      *transcript.Transcript
	users  []int // turns with a text of the user
	models []int // turns that begin an answer of the model

	words map[int]map[string]bool // by a turn of the user: the words from it to the turn that decisionTurns returns for it
}

func newTurnIndex(t *transcript.Transcript) *turnIndex {
	s := &turnIndex{t: t, words: map[int]map[string]bool{}}
	for i := range t.Turns {
		turn := &t.Turns[i]
		if turn.Role == chat.RoleAssistant && (i == 0 || t.Turns[i-1].Role != chat.RoleAssistant) {
			s.models = append(s.models, i)
		}
		for k := turn.First; k < turn.End; k++ {
			if t.Texts[k].Kind == transcript.User {
				s.users = append(s.users, i)
				break
			}
		}
	}
	return s
}

// wordsOf are the words of users' and the model's texts, and of calls, in some turns.
func (s *turnIndex) wordsOf(from, to int) map[string]bool {
	all, known := s.words[from]
	if known {
		return all
	}
	all = map[string]bool{}
	for i := from; i <= to; i++ {
		turn := &s.t.Turns[i]
		for k := turn.First; k < turn.End; k++ {
			switch s.t.Texts[k].Kind {
			case transcript.User, transcript.Assistant, transcript.Arguments, transcript.Document:
				addWords(all, s.t.String(k))
			default:
			}
		}
	}
	s.words[from] = all
	return all
}

// decisionTurns returns the first turn of the user after a result, and the turn of the answer with which enough have followed; decided is none until then.
func (s *turnIndex) decisionTurns(turn int) (question, decided int) {
	i := after(s.users, turn)
	if i == len(s.users) {
		return none, none
	}
	question = s.users[i]
	if k := after(s.models, question) + minAnswersSince - 1; k < len(s.models) {
		return question, s.models[k]
	}
	return question, none
}

// after is the index of the first of sorted turns that is after a turn.
func after(turns []int, turn int) int {
	i, _ := slices.BinarySearch(turns, turn+1)
	return i
}

// unrelated reports whether no word of a result occurs in messages and calls from one turn to another.
func (s *turnIndex) unrelated(r *result, from, to int) bool {
	all := s.wordsOf(from, to)
	return len(all) >= minWordsSince && !hasWord(all, r.value)
}

// omittedText replaces an irrelevant result: a note, and the lines that state a rule.
func omittedText(r *result, recall bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[Left out: %d bytes that nothing asked since concerns.%s]", len(r.value), r.hint(recall))
	left := maxKeptRules
	for line := range strings.SplitSeq(r.value, "\n") {
		if line = strings.TrimSpace(line); line == "" || len(line) > left || !rule.MatchString(line) {
			continue
		}
		left -= len(line)
		b.WriteString("\n" + line)
	}
	return b.String()
}

// rule matches what states a constraint or a decision.
var rule = regexp.MustCompile(`(?i)\b(?:must|never|always|only|do not|don't|shall|may not|cannot|required?|forbidden|prohibited|limit(?:ed)?|at (?:most|least)|maximum|minimum|deadline|` +
	`decid(?:e|ed|ing)|decision|chose|chosen|agreed|approved?|rejected|confirmed|instead of|warning)\b`)

// minWord is the minimum length in bytes of a significant word; minNumber is that of one with digits.
const (
	minWord   = 4
	minNumber = 3
)

// addWords adds the significant words of a text, in lower case.
func addWords(to map[string]bool, text string) {
	for w := range words(text) {
		if !stopWords[string(w)] && !to[string(w)] {
			to[string(w)] = true
		}
	}
}

// hasWord reports whether a text has one of some significant words.
func hasWord(some map[string]bool, text string) bool {
	for w := range words(text) {
		if some[string(w)] {
			return true
		}
	}
	return false
}

// words yields the words of a text that are long enough, in lower case. A word is valid until the next one.
func words(text string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var buf [64]byte
		for i := 0; i < len(text); {
			end, numbers := wordAt(text, i)
			if long := minWord - numbers*(minWord-minNumber); end-i >= long && !yield(lowered(buf[:0], text[i:end])) {
				return
			}
			if i = end; i < len(text) {
				_, n := utf8.DecodeRuneInString(text[i:])
				i += n
			}
		}
	}
}

// wordAt is the end of the letters and digits at i; numbers is 1 if there are ASCII digits among them, otherwise 0.
func wordAt(text string, i int) (end, numbers int) {
	for i < len(text) {
		c := text[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(text[i:])
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				return i, numbers
			}
			i += n
			continue
		case c >= '0' && c <= '9':
			numbers = 1
		case (c|0x20) < 'a' || (c|0x20) > 'z':
			return i, numbers
		}
		i++
	}
	return i, numbers
}

// lowered appends a word in lower case.
func lowered(to []byte, word string) []byte {
	for i := range len(word) {
		c := word[i]
		switch {
		case c >= utf8.RuneSelf:
			return append(to[:0], strings.ToLower(word)...)
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

// stopWords are words of at least minWord letters that are common to all texts.
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
