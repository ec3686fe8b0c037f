package responses

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// writer writes a conversation of another dialect as a request of this one. The order of members is fixed, so that the same request gives
// the same bytes and keeps a provider's prompt cache. The provider stores nothing: reasoning is returned encrypted, and is sent again with
// its turn.
type writer struct {
	wire.Writer

	req  *chat.Request
	opts RequestOptions

	params    chat.Params // the client's and its profile's
	byProfile bool        // the profile, not the client, sets the effort of thinking
	guidance  string      // text before the instructions

	items    bool   // an item of the input was written
	thoughts []byte // reasoning items to be written before the next item: the API refuses them alone
}

func (w *writer) request() error {
	w.resolve()
	w.Raw(`{"model":`)
	w.Str(w.opts.Model)
	if err := w.conversation(); err != nil {
		return err
	}
	w.tools()
	w.writeParams()
	w.Raw(`,"store":false`)
	if w.seals() {
		w.Raw(`,"include":["` + includeSealed + `"]`)
	}
	if w.req.Stream {
		w.Raw(`,"stream":true`)
	}
	w.Raw("}")
	for _, name := range w.Conv.Unmapped {
		w.DegradeAs(name)
	}
	return nil
}

// includeSealed requests reasoning in a form that can be sent back.
const includeSealed = "reasoning.encrypted_content"

// conversation writes the system prompt as the instructions, and the turns as the input. A system prompt alone becomes the input.
func (w *writer) conversation() error {
	system := w.Conv.System
	if w.guidance != "" {
		system = append([]chat.Part{{Kind: chat.PartText, Text: w.guidance}}, system...)
	}
	instructions := len(w.Dst)
	if len(system) > 0 {
		w.Key("instructions")
		w.text(system, "\n\n")
	}
	w.Key("input")
	w.Raw("[")
	w.turns(w.Conv.Messages)
	if !w.items && len(w.Conv.System) > 0 {
		w.Dst = w.Dst[:instructions]
		w.Raw(`,"input":[`)
		w.message("system")
		w.text(system, "\n\n")
		w.Raw("}")
	}
	if !w.items {
		return wire.NoContent(w.Conv)
	}
	w.Raw("]")
	return nil
}

// item writes the comma between items.
func (w *writer) item() {
	if w.items {
		w.Raw(",")
	}
	w.items = true
}

// message starts a message, up to its content.
func (w *writer) message(role string) {
	w.item()
	w.Raw(`{"role":"`)
	w.Raw(role)
	w.Raw(`","content":`)
}

// turns writes the messages. Turns of the assistant alternate with those of the other roles.
func (w *writer) turns(ms []chat.Message) {
	for i := 0; i < len(ms); {
		if ms[i].Role == chat.RoleAssistant {
			if w.assistant(ms[i].Parts) && i == len(ms)-1 {
				w.Degrade("prefill") // the provider begins a new answer instead of continuing this one
			}
			i++
			continue
		}
		end := i + 1
		for end < len(ms) && ms[end].Role != chat.RoleAssistant {
			end++
		}
		w.others(ms[i:end])
		i = end
	}
}

// others writes the messages between two turns of the assistant.
func (w *writer) others(ms []chat.Message) {
	wire.ResultsFirst(ms, w.result, func(role chat.Role, parts []chat.Part) {
		if role != chat.RoleSystem {
			w.user(parts)
			return
		}
		w.message("system")
		w.text(parts, "\n\n")
		w.Raw("}")
	})
}

// assistant writes an assistant turn, item by item, in order. Consecutive text becomes one message without separators, because citations
// split text inside sentences.
func (w *writer) assistant(parts []chat.Part) (written bool) {
	var texts []chat.Part    // text and refusals of one message
	var thoughts []chat.Part // summary parts, of which the last one is signed
	flush := func() {
		w.dropParts(thoughts)
		thoughts = nil
		if len(texts) > 0 {
			w.assistantText(texts)
			texts, written = nil, true
		}
	}
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case chat.PartText, chat.PartRefusal:
			w.dropParts(thoughts)
			thoughts = nil
			texts = append(texts, *p)
		case chat.PartToolUse:
			flush()
			w.call(p)
			written = true
		case chat.PartThinking, chat.PartRedacted:
			if len(texts) > 0 {
				flush()
			}
			if thoughts = append(thoughts, *p); p.SignedBy() != "" {
				w.reasoning(thoughts)
				thoughts = nil
			}
		case chat.PartImage, chat.PartDocument, chat.PartAudio, chat.PartVideo, chat.PartFile, chat.PartToolResult, chat.PartOther:
			w.dropPart(p)
		}
	}
	flush()
	if len(w.thoughts) > 0 {
		w.thoughts = w.thoughts[:0]
		w.Degrade("thinking")
	}
	return written
}

func (w *writer) dropParts(parts []chat.Part) {
	for i := range parts {
		w.dropPart(&parts[i])
	}
}

// writeReasoning writes the pending reasoning before the item that follows it.
func (w *writer) writeReasoning() {
	if len(w.thoughts) > 0 {
		w.item()
		w.Dst = append(w.Dst, w.thoughts...)
		w.thoughts = w.thoughts[:0]
	}
}

// reasoning converts reasoning of a model of this format into an item: the parts of a summary, and the encrypted content, which is the
// signature of the last one. Reasoning that another model signed is dropped, because the provider could not verify it.
func (w *writer) reasoning(parts []chat.Part) {
	last := &parts[len(parts)-1]
	if last.SignedBy() != chat.ResponsesThinking || w.opts.NoThinking {
		w.dropParts(parts)
		return
	}
	signed := last.Signature
	if last.Kind == chat.PartRedacted {
		signed = last.Data
	}
	inner := wire.Writer{Dst: w.thoughts}
	if len(inner.Dst) > 0 {
		inner.Raw(",")
	}
	inner.Raw(`{"type":"reasoning","summary":`)
	inner.OpenArray()
	for i := range parts {
		if parts[i].Text == "" {
			continue
		}
		inner.Element()
		inner.Raw(`{"type":"summary_text","text":`)
		inner.Str(parts[i].Text)
		inner.Raw("}")
	}
	inner.Raw("]")
	_, sealed := chat.Signer(signed)
	inner.Key(encryptedContent)
	inner.Str(sealed)
	inner.Raw("}")
	w.thoughts = inner.Dst
}

// assistantText writes an assistant message.
func (w *writer) assistantText(parts []chat.Part) {
	w.writeReasoning()
	w.message("assistant")
	if !slices.ContainsFunc(parts, func(p chat.Part) bool { return p.Kind == chat.PartRefusal }) {
		w.text(parts, "")
		w.Raw("}")
		return
	}
	w.OpenArray()
	for i := range parts {
		w.Element()
		if parts[i].Kind == chat.PartRefusal {
			w.Raw(`{"type":"refusal","refusal":`)
		} else {
			w.Raw(`{"type":"output_text","text":`)
		}
		w.Str(parts[i].Text)
		w.Raw("}")
		w.unmarked(&parts[i])
	}
	w.Raw("]}")
}

func (w *writer) call(p *chat.Part) {
	w.writeReasoning()
	w.item()
	w.Raw(`{"type":"function_call","call_id":`)
	w.Str(p.Tool.ID)
	w.Key("name")
	w.Str(wire.ToolName(p.Tool.Name, chat.Responses))
	w.Key("arguments")
	w.Str(p.Tool.Args)
	w.Raw("}")
	w.unmarked(p)
}
