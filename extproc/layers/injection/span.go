package injection

import (
	"fmt"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// minSpan is the length in bytes of JSON below which a text is too short for instructions.
const minSpan = 12

// spansOf lists the texts of a request to judge: those that may be refused or replaced, which clients send again with each turn, and of those that are only
// flagged, the ones after the model's last answer.
func spansOf(t *transcript.Transcript, p Policies) (out []span) {
	fresh := firstNewTurn(t)
	for i := 0; i < len(t.Texts); {
		end := endOfSpan(t, i)
		source, ok := sourceOf(t.Texts[i].Kind)
		if ok && t.Texts[i].Turn >= 0 && p[source] != Off && (p[source].Waits() || t.Texts[i].Turn >= fresh) && sizeOf(t, i, end) >= minSpan {
			out = append(out, span{source: source, policy: p[source], first: i, end: end})
		}
		i = end
	}
	return out
}

// firstNewTurn is the index of the first turn after the model's last answer.
func firstNewTurn(t *transcript.Transcript) int {
	n := len(t.Turns)
	for n > 0 && t.Turns[n-1].Role == chat.RoleAssistant { // a prefill of the next answer
		n--
	}
	for n > 0 && t.Turns[n-1].Role != chat.RoleAssistant {
		n--
	}
	return n
}

// endOfSpan is the index after the texts that belong together: parts of a turn, or of one result. Each text of a document is a span.
func endOfSpan(t *transcript.Transcript, i int) int {
	at := &t.Texts[i]
	end := i + 1
	for at.Kind != transcript.Document && end < len(t.Texts) && t.Texts[end].Kind == at.Kind && t.Texts[end].Turn == at.Turn && t.Texts[end].Call == at.Call {
		end++
	}
	return end
}

func sourceOf(k transcript.Kind) (injection.Source, bool) {
	switch k { //nolint:exhaustive // the others are the operator's, or the model's own
	case transcript.User:
		return injection.User, true
	case transcript.Result:
		return injection.Result, true
	case transcript.Document:
		return injection.Document, true
	}
	return 0, false
}

func sizeOf(t *transcript.Transcript, first, end int) (n int) {
	for i := first; i < end; i++ {
		n += len(t.Texts[i].Value.Raw)
	}
	return n
}

// keyOf is the key of the span's texts, as they are in the document.
func (sp *span) keyOf(d *injection.Detector, t *transcript.Transcript) injection.Key {
	if sp.end > sp.first+1 {
		return d.Key(sp.parts(t))
	}
	return d.KeyOf(t.Texts[sp.first].Value.Raw)
}

// parts are the span's texts.
func (sp *span) parts(t *transcript.Transcript) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for i := sp.first; i < sp.end; i++ {
			if !yield(t.Texts[i].Value.Raw) {
				return
			}
		}
	}
}

// text is a copy of what is judged: the texts, and the strings inside objects and arrays.
func (sp *span) text(t *transcript.Transcript) string {
	var out strings.Builder
	for i := sp.first; i < sp.end; i++ {
		for s, isName := range t.Texts[i].Value.Strings {
			if b, ok := s.Text(nil); ok && !isName {
				if out.Len() > 0 {
					out.WriteByte('\n')
				}
				out.Write(b)
			}
		}
	}
	return out.String()
}

// withheld replaces a text that is quarantined.
const withheld = "[Withheld by the gateway: this text seems to hold instructions for the model.]"

// replace replaces the span's texts by a note. Objects and arrays keep their types.
func (sp *span) replace(t *transcript.Transcript) {
	note := jsonx.AppendString(nil, withheld)
	for i := sp.first; i < sp.end; i++ {
		switch v := t.Texts[i].Value; v.Kind() {
		case jsonx.Object:
			t.Replace(v, append(append([]byte(`{"withheld":`), note...), '}'))
		case jsonx.Array:
			t.Replace(v, append(append([]byte{'['}, note...), ']'))
		default:
			t.Replace(v, note)
		}
	}
}

// location describes for the client where a span is.
func location(t *transcript.Transcript, sp *span) string {
	at := &t.Texts[sp.first]
	return fmt.Sprintf("turn %d, %s", at.Turn, at.Kind)
}
