package anthropic

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Strip says which thinking of a history a provider must not see. A signature is valid only for the family of models that
// gave it; others refuse the block, or do not know what it is.
type Strip uint8

// What to strip.
const (
	StripNothing    Strip = iota
	StripUnsigned         // thinking that nobody signed, or another maker's model, as models of other families write it: Anthropic's API refuses it
	StripSignatures       // signatures, and thinking that only they hold: the model is of a family that does not sign; words stay
	StripAll              // all thinking: the provider refused the history's
)

// stripper takes thinking out of the history of a request that is spliced. All other bytes stay.
type stripper struct {
	e     *jsonx.Edits
	d     *jsonx.Doc
	which Strip
	cut   bool

	// Of the turn that the model is in the middle of, which goes on over the results of its tools:
	working bool // the last message is of such results
	begun   bool
	bare    bool // it does not begin with thinking
	lost    bool // thinking of it was cut, or all is
}

// stripThinking edits the history, and names what is lost.
func stripThinking(e *jsonx.Edits, d *jsonx.Doc, which Strip) []string {
	if which == StripNothing || which == StripUnsigned && !mayHoldUnsigned(d) {
		return nil
	}
	s := stripper{e: e, d: d, which: which}
	cutElements(e, d.Get("messages"), s.message)
	switch on := d.Get("thinking").Get("type").Equal("enabled"); {
	case on && s.working && s.bare && s.lost && which == StripUnsigned: // what is signed may not stay either, with thinking off
		return stripThinking(e, d, StripAll)
	case on && s.working && s.bare && s.lost && which == StripAll:
		return s.switchOff()
	case s.cut:
		return []string{"thinking"}
	}
	return nil
}

// message strips one message, and reports whether nothing of it is left.
func (s *stripper) message(m jsonx.Value) bool {
	content := m.Get("content")
	if !m.Get("role").Equal("assistant") {
		s.working = false
		for _, block := range content.Each {
			s.working = s.working || block.Get("type").Equal("tool_result")
		}
		if !s.working {
			s.begun, s.bare, s.lost = false, false, s.which == StripAll
		}
		return false
	}
	s.working = false
	seen, thinks := false, false // what is kept of it begins with thinking
	kept, cut := cutElements(s.e, content, func(block jsonx.Value) bool {
		gone := s.strips(block)
		if !gone && !seen {
			kind := block.Get("type")
			seen, thinks = true, kind.Equal("thinking") || kind.Equal("redacted_thinking")
		}
		return gone
	})
	if !s.begun {
		s.begun, s.bare = true, !thinks
	}
	s.lost = s.lost || cut > 0 || s.which == StripAll
	if cut == 0 {
		return false
	}
	s.cut = true
	return kept == 0
}

func (s *stripper) strips(block jsonx.Value) bool {
	kind := block.Get("type")
	isThinking, isRedacted := kind.Equal("thinking"), kind.Equal("redacted_thinking")
	switch s.which {
	case StripUnsigned:
		signature := block.Get("signature")
		return isThinking && (isEmpty(signature) || isForeign(signature)) || isRedacted && isForeign(block.Get("data"))
	case StripSignatures:
		return isRedacted || isThinking && s.unsign(block)
	case StripAll:
		return isThinking || isRedacted
	case StripNothing:
	}
	return false
}

// isForeign reports whether a model of another maker gave a signature, or what a redacted block holds.
func isForeign(v jsonx.Value) bool {
	text, _ := v.Str()
	by, _ := chat.Signer(text)
	return by != chat.ClaudeThinking
}

// unsign empties a block's signature: some servers want the member, whatever it says. It reports whether nothing is left.
func (s *stripper) unsign(block jsonx.Value) bool {
	signature := block.Get("signature")
	switch {
	case isEmpty(signature):
		return false
	case isEmpty(block.Get("thinking")): // the caller asked to omit it, so that the signature alone holds it
		return true
	}
	s.e.Replace(signature.At, signature.At+len(signature.Raw), jsonx.Raw(`""`))
	s.cut = true
	return false
}

// mayHoldUnsigned tells quickly, from the words alone, that nothing in a history is unsigned: each signed block says "thinking"
// twice and "signature" once. What it misses, as it may for a tool's input, the provider refuses, and is asked again.
func mayHoldUnsigned(d *jsonx.Doc) bool {
	const key = `"signature"`
	thoughts := bytes.Count(d.Bytes, []byte(`"thinking"`))
	if d.Find("thinking") >= 0 {
		thoughts--
	}
	if bytes.Contains(d.Bytes, []byte(`-v1#`)) { // another maker's name
		return true
	}
	signatures := 0
	for rest := d.Bytes; ; signatures++ {
		at := bytes.Index(rest, []byte(key))
		if at < 0 {
			return thoughts > 2*signatures
		}
		rest = rest[at+len(key):]
		if value := bytes.TrimLeft(rest, ": \t\r\n"); bytes.HasPrefix(value, []byte(`""`)) || bytes.HasPrefix(value, []byte("null")) {
			return true
		}
	}
}

func isEmpty(v jsonx.Value) bool {
	text, _ := v.Str()
	return text == ""
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
