package anthropic

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Strip says which thinking of a history a provider must not see. A signature is valid only for the family of models that
// gave it; others refuse the block, or do not know what it is.
type Strip uint8

// What to strip.
const (
	StripNothing  Strip = iota
	StripUnsigned       // thinking that nobody signed, as models of other families write it: Anthropic's API refuses it
	StripAll            // all thinking: the provider is of another family than the one that signed it
)

// stripper takes thinking out of the history of a request that is spliced. All other bytes stay.
type stripper struct {
	e       *jsonx.Edits
	d       *jsonx.Doc
	which   Strip
	working bool // the last message is of tool results
	midTurn bool // thinking was cut from the turn that the model is in the middle of
	cut     bool
}

// stripThinking edits the history, and names what is lost.
func stripThinking(e *jsonx.Edits, d *jsonx.Doc, which Strip) []string {
	if which == StripNothing {
		return nil
	}
	s := stripper{e: e, d: d, which: which}
	cutElements(e, d.Get("messages"), s.message)
	if !s.cut {
		return nil
	}
	if !s.working || !s.midTurn || !d.Get("thinking").Get("type").Equal("enabled") {
		return []string{"thinking"}
	}
	return s.switchOff()
}

// message strips one message, and reports whether nothing of it is left.
func (s *stripper) message(m jsonx.Value) bool {
	content := m.Get("content")
	if !m.Get("role").Equal("assistant") {
		s.working = false
		for _, block := range content.Each {
			s.working = s.working || block.Get("type").Equal("tool_result")
		}
		s.midTurn = s.midTurn && s.working
		return false
	}
	s.working = false
	kept, cut := cutElements(s.e, content, s.strips)
	if cut == 0 {
		return false
	}
	s.cut, s.midTurn = true, true
	return kept == 0
}

func (s *stripper) strips(block jsonx.Value) bool {
	kind := block.Get("type")
	switch {
	case s.which == StripAll:
		return kind.Equal("thinking") || kind.Equal("redacted_thinking")
	case !kind.Equal("thinking"):
		return false
	}
	signature, _ := block.Get("signature").Str()
	return signature == ""
}

// switchOff turns thinking off for this request: with a budget, a turn in the middle of working with tools must have
// begun with thinking. What clears old thinking from the context needs it on, and goes too.
func (s *stripper) switchOff() []string {
	s.e.Delete(s.d, "thinking")
	const key = "context_management"
	edits := s.d.Get(key).Get("edits")
	kept, cut := cutElements(s.e, edits, func(edit jsonx.Value) bool {
		kind, _ := edit.Get("type").Str()
		return strings.HasPrefix(kind, "clear_thinking")
	})
	if cut == 0 {
		return []string{"thinking"}
	}
	if kept == 0 {
		s.e.Delete(s.d, key)
	}
	return []string{"thinking", key}
}

// cutElements takes elements out of an array, each with one comma. It says how many stay and how many go.
func cutElements(e *jsonx.Edits, array jsonx.Value, drop func(jsonx.Value) bool) (kept, cut int) {
	head, before := 0, 0 // where the elements dropped at the head begin; where the element before ends
	for _, v := range array.Each {
		end := v.At + len(v.Raw)
		switch {
		case !drop(v):
			if kept == 0 && cut > 0 {
				e.Replace(head, v.At, nil)
			}
			kept++
		case kept > 0:
			e.Replace(before, end, nil)
			cut++
		default:
			if cut == 0 {
				head = v.At
			}
			cut++
		}
		before = end
	}
	if kept == 0 && cut > 0 {
		e.Replace(head, before, nil)
	}
	return kept, cut
}
