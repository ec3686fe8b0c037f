package anthropic

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Strip selects the thinking of a history to remove. A signature is valid only for the model family that made it; other models refuse the
// block, or do not support it.
type Strip uint8

// The selections.
const (
	StripNothing    Strip = iota
	StripUnsigned         // thinking without a signature, or with one of another vendor's model: Anthropic's API refuses it
	StripSignatures       // signatures, and thinking without text, for a model family that does not sign; text stays
	StripAll              // all thinking: the provider refused the history's thinking
)

// stripper removes thinking from the history of a request that is spliced. All other bytes stay.
type stripper struct {
	e     *jsonx.Edits
	d     *jsonx.Doc
	which Strip
	cut   bool

	// State of the current turn, which continues after the results of its tools:
	usesTools       bool // the last message has tool results
	begun           bool
	withoutThinking bool // the turn does not start with thinking
	cutInTurn       bool // its thinking was removed, or all thinking is
}

// stripThinking edits the history, and returns the degraded names.
func stripThinking(e *jsonx.Edits, d *jsonx.Doc, which Strip) []string {
	if which == StripNothing || which == StripUnsigned && !mayHoldUnsigned(d) {
		return nil
	}
	s := stripper{e: e, d: d, which: which}
	cutElements(e, d.Get("messages"), s.message)
	switch on := d.Get("thinking").Get("type").Equal("enabled"); {
	case on && s.usesTools && s.withoutThinking && s.cutInTurn && which == StripUnsigned: // the API also refuses signed thinking if thinking is off
		return stripThinking(e, d, StripAll)
	case on && s.usesTools && s.withoutThinking && s.cutInTurn && which == StripAll:
		return s.switchOff()
	case s.cut:
		return []string{"thinking"}
	}
	return nil
}

// message strips one message, and reports whether that leaves it empty.
func (s *stripper) message(m jsonx.Value) bool {
	content := m.Get("content")
	if !m.Get("role").Equal("assistant") {
		s.usesTools = false
		for _, block := range content.Each {
			s.usesTools = s.usesTools || block.Get("type").Equal("tool_result")
		}
		if !s.usesTools {
			s.begun, s.withoutThinking, s.cutInTurn = false, false, s.which == StripAll
		}
		return false
	}
	s.usesTools = false
	seen, thinks := false, false // the first block that stays was seen; it is thinking
	left, cut := cutElements(s.e, content, func(block jsonx.Value) bool {
		removed := s.strips(block)
		if !removed && !seen {
			kind := block.Get("type")
			seen, thinks = true, kind.Equal("thinking") || kind.Equal("redacted_thinking")
		}
		return removed
	})
	if !s.begun {
		s.begun, s.withoutThinking = true, !thinks
	}
	s.cutInTurn = s.cutInTurn || cut > 0 || s.which == StripAll
	if cut == 0 {
		return false
	}
	s.cut = true
	return left == 0
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

// isForeign reports whether a signature, or the data of a redacted block, is of another vendor's model.
func isForeign(v jsonx.Value) bool {
	text, _ := v.Str()
	by, _ := chat.Signer(text)
	return by != chat.ClaudeThinking
}

// unsign empties a block's signature, because some servers require the member. It reports whether that leaves the block empty.
func (s *stripper) unsign(block jsonx.Value) bool {
	signature := block.Get("signature")
	switch {
	case isEmpty(signature):
		return false
	case isEmpty(block.Get("thinking")): // the client requested to omit the text
		return true
	}
	s.e.Replace(signature.At, signature.At+len(signature.Raw), jsonx.Raw(`""`))
	s.cut = true
	return false
}

// mayHoldUnsigned is a quick check: false means that no thinking in a history is unsigned. It counts words: each signed block has
// "thinking" twice and "signature" once. If it is wrong, for example because of a tool's input, the provider refuses the request, and Amend
// strips.
func mayHoldUnsigned(d *jsonx.Doc) bool {
	const key = `"signature"`
	thoughts := bytes.Count(d.Bytes, []byte(`"thinking"`))
	if d.Find("thinking") >= 0 {
		thoughts--
	}
	if bytes.Contains(d.Bytes, []byte(`-v1#`)) { // another vendor's format
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

// switchOff disables thinking for this request: with a budget, a turn that uses tools must start with thinking. Context edits that clear
// thinking require thinking, and are removed as well.
func (s *stripper) switchOff() []string {
	s.e.Delete(s.d, "thinking")
	const key = "context_management"
	edits := s.d.Get(key).Get("edits")
	left, cut := cutElements(s.e, edits, func(edit jsonx.Value) bool {
		kind, _ := edit.Get("type").Str()
		return strings.HasPrefix(kind, "clear_thinking")
	})
	if cut == 0 {
		return []string{"thinking"}
	}
	if left == 0 {
		s.e.Delete(s.d, key)
	}
	return []string{"thinking", key}
}

// cutElements removes elements of an array, each with one comma. It returns how many stay and how many are removed.
func cutElements(e *jsonx.Edits, array jsonx.Value, drop func(jsonx.Value) bool) (left, cut int) {
	head, before := 0, 0 // start of the elements removed at the head; end of the previous element
	for _, v := range array.Each {
		end := v.At + len(v.Raw)
		switch {
		case !drop(v):
			if left == 0 && cut > 0 {
				e.Replace(head, v.At, nil)
			}
			left++
		case left > 0:
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
	if left == 0 && cut > 0 {
		e.Replace(head, before, nil)
	}
	return left, cut
}
