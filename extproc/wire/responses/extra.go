package responses

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Extras of this dialect, by their names in chat.Extra. Any other name with an object is a whole item of that type.
const (
	itemID        = chat.ItemID
	reasoningText = chat.ReasoningText
	phase         = chat.MessagePhase

	encryptedContent = "encrypted_content" // of the previous reasoning: a JSON string
	annotation       = "annotations"       // of the previous text
	logprobs         = "logprobs"          // of the previous text: an array

	oversized     = "oversized_event"  // an event of the stream above the maximum size
	unreadable    = "unreadable_event" // an event of the stream that is not JSON
	unknownMember = "unknown_member"   // a member of an item that this package does not know
)

// extra handles an extra of this dialect, and names those of other dialects as degraded.
func (e *encoder) extra(dst []byte, ev *chat.Event) []byte {
	switch {
	case ev.ID == chat.ServiceTier && e.setTier(ev.Text):
		return dst
	case len(ev.Cites) > 0 && !e.opts.Same:
		return e.cite(dst, ev)
	}
	switch {
	case ev.ID == itemID && len(ev.Text) == 0:
		e.next = blockAttributes{}
		return dst
	case !e.opts.Same && len(wire.PicturesIn(ev)) > 0:
		return e.pictures(dst, ev)
	case !e.opts.Same, len(ev.Text) == 0 && ev.ID != reasoningText:
		if !ev.Redundant {
			e.Degrade(ev.ID)
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

// pictures writes another format's images as items of OpenAI's image generation.
func (e *encoder) pictures(dst []byte, ev *chat.Event) []byte {
	for _, p := range wire.PicturesIn(ev) {
		var it *item
		dst, it = e.add(dst, &item{kind: picture, image: p, stopped: true})
		dst = e.itemAdded(dst, it)
		dst = e.pictureEvent(dst, "response.image_generation_call.in_progress", it)
	}
	return dst
}

// openAITiers are OpenAI's service tiers.
var openAITiers = map[string]bool{`"default"`: true, `"flex"`: true, `"priority"`: true, `"scale"`: true}

// setTier sets the service tier, translated into OpenAI's; false if there is no equivalent.
func (e *encoder) setTier(tier []byte) bool {
	switch {
	case e.opts.Same:
	case string(tier) == `"standard"`:
		tier = []byte(`"default"`)
	case !openAITiers[string(tier)]:
		return false
	}
	e.tier = bytes.Clone(tier)
	return true
}

// encrypted sets the provider's encrypted content of a reasoning item.
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
