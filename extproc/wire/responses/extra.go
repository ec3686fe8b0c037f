package responses

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// What this dialect alone says, as chat.Extra names it. Any other name that comes with an object is a whole item of that type.
const (
	itemID           = "item_id"           // of the block that follows: a JSON string
	reasoningText    = "reasoning_text"    // the reasoning that follows is the model's own words
	phase            = "phase"             // of the message that follows: commentary or the final answer
	encryptedContent = "encrypted_content" // of the reasoning before it: a JSON string
	annotation       = "annotations"       // on the text before it
	logprobs         = "logprobs"          // of the text before it: an array

	oversized     = "oversized_event"  // an event of the stream that was too long to keep
	unreadable    = "unreadable_event" // an event of the stream that is not JSON
	unknownMember = "unknown_member"   // a member of an item that this package does not know
)

// extra takes in what the provider says in this dialect, and names what another says in its own.
func (e *encoder) extra(dst []byte, ev *chat.Event) []byte {
	switch {
	case ev.ID == chat.ServiceTier && e.takesTier(ev.Text):
		return dst
	case len(ev.Cites) > 0 && !e.opts.Same:
		return e.cite(dst, ev)
	}
	switch {
	case !e.opts.Same, len(ev.Text) == 0 && ev.ID != reasoningText:
		if !ev.Said {
			e.Lose(ev.ID)
		}
		return dst
	}
	switch ev.ID {
	case itemID:
		e.next.id, _ = jsonx.Value{Raw: ev.Text}.Str()
	case reasoningText:
		e.next.raw = true
	case phase:
		e.next.phase = bytes.Clone(ev.Text)
	case encryptedContent:
		return e.encrypted(dst, ev)
	case annotation:
		return e.annotated(dst, ev)
	case logprobs:
		var p *part
		dst, _, p = e.content(dst, ev)
		p.logprobs = append(p.logprobs, bytes.Clone(ev.Text))
	default:
		var it *item
		dst, it = e.add(dst, &item{kind: foreign, whole: bytes.Clone(ev.Text), stopped: true})
		dst = e.itemAdded(dst, it)
	}
	return dst
}

// ofOpenAI are OpenAI's words for tiers of service.
var ofOpenAI = map[string]bool{`"default"`: true, `"flex"`: true, `"priority"`: true, `"scale"`: true}

// takesTier keeps the service tier, in OpenAI's words.
func (e *encoder) takesTier(said []byte) bool {
	switch {
	case e.opts.Same:
	case string(said) == `"standard"`:
		said = []byte(`"default"`)
	case !ofOpenAI[string(said)]:
		return false
	}
	e.tier = bytes.Clone(said)
	return true
}

// encrypted keeps what the provider calls its reasoning's encrypted content.
func (e *encoder) encrypted(dst []byte, ev *chat.Event) []byte {
	dst, it, _ := e.thought(dst, &chat.Event{Kind: chat.Thought, Index: ev.Index})
	t, _ := jsonx.Value{Raw: ev.Text}.Text(nil)
	it.seal = bytes.Clone(t)
	return dst
}

func (e *encoder) annotated(dst []byte, ev *chat.Event) []byte {
	dst, it, p := e.content(dst, ev)
	p.notes = append(p.notes, bytes.Clone(ev.Text))
	return e.annotationAdded(dst, it, ev.Text)
}
