package responses

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// writer writes a conversation of another dialect as a request of this one. The order of members is fixed, so that the same request gives
// the same bytes and keeps a provider's prompt cache. Nothing is kept by the provider: what the model thought comes back encrypted, and is
// sent again with the turn that it belongs to.
type writer struct {
	wire.Writer

	req  *chat.Request
	opts RequestOptions

	said     chat.Params // by the client, and by its profile
	profiled bool        // the profile says how hard to think, not the client
	words    string      // what the model is told before its instructions

	items    bool   // an item of the input was written
	thoughts []byte // items of reasoning that wait for what they led to: alone, the API refuses them
}

func (w *writer) request() error {
	w.settle()
	w.Raw(`{"model":`)
	w.Str(w.opts.Model)
	if err := w.conversation(); err != nil {
		return err
	}
	w.tools()
	w.params()
	w.Raw(`,"store":false`)
	if w.seals() {
		w.Raw(`,"include":["` + includeSealed + `"]`)
	}
	if w.req.Stream {
		w.Raw(`,"stream":true`)
	}
	w.Raw("}")
	for _, name := range w.Conv.Unmapped {
		w.Name(name)
	}
	return nil
}

// includeSealed asks for reasoning that can be given back.
const includeSealed = "reasoning.encrypted_content"

// conversation writes the system prompt as the instructions, and the turns as the input. A system prompt with no turn beside it is the
// input itself.
func (w *writer) conversation() error {
	system := w.Conv.System
	if w.words != "" {
		system = append([]chat.Part{{Kind: chat.PartText, Text: w.words}}, system...)
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
		return wire.Invalid("messages", "messages say nothing that this provider can be told")
	}
	w.Raw("]")
	return nil
}

// item puts the comma between items.
func (w *writer) item() {
	if w.items {
		w.Raw(",")
	}
	w.items = true
}

// message opens a message up to its content.
func (w *writer) message(role string) {
	w.item()
	w.Raw(`{"role":"`)
	w.Raw(role)
	w.Raw(`","content":`)
}

// turns writes the messages, where the assistant's alternate with those of the other side.
func (w *writer) turns(ms []chat.Message) {
	for i := 0; i < len(ms); {
		if ms[i].Role == chat.RoleAssistant {
			if w.assistant(ms[i].Parts) && i == len(ms)-1 {
				w.Lose("prefill") // the answer begins anew here, and does not go on
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

// others writes what stands between two turns of the assistant: first the results of its calls, and then what was said.
func (w *writer) others(ms []chat.Message) {
	for i := range ms {
		for j := range ms[i].Parts {
			if p := &ms[i].Parts[j]; p.Kind == chat.PartToolResult {
				w.result(p)
			}
		}
	}
	for i := range ms {
		rest := ms[i].Parts
		if slices.ContainsFunc(rest, isResult) {
			rest = slices.DeleteFunc(slices.Clone(rest), isResult)
		}
		switch {
		case len(rest) == 0:
		case ms[i].Role == chat.RoleSystem:
			w.message("system")
			w.text(rest, "\n\n")
			w.Raw("}")
		default:
			w.user(rest)
		}
	}
}

func isResult(p chat.Part) bool { return p.Kind == chat.PartToolResult }

// assistant writes a turn of the model, item by item, in the order in which it was made. Pieces of text that follow each other are one
// message, unseparated: citations cut text inside sentences.
func (w *writer) assistant(parts []chat.Part) (written bool) {
	var said []chat.Part     // text and refusals of one message
	var thoughts []chat.Part // parts of a summary, whose last one is signed
	flush := func() {
		w.losing(thoughts)
		thoughts = nil
		if len(said) > 0 {
			w.spoken(said)
			said, written = nil, true
		}
	}
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case chat.PartText, chat.PartRefusal:
			w.losing(thoughts)
			thoughts = nil
			said = append(said, *p)
		case chat.PartToolUse:
			flush()
			w.call(p)
			written = true
		case chat.PartThinking, chat.PartRedacted:
			if len(said) > 0 {
				flush()
			}
			if thoughts = append(thoughts, *p); p.SignedBy() != "" {
				w.reasoning(thoughts)
				thoughts = nil
			}
		case chat.PartImage, chat.PartDocument, chat.PartAudio, chat.PartVideo, chat.PartFile, chat.PartToolResult, chat.PartOther:
			w.losePart(p)
		}
	}
	flush()
	if len(w.thoughts) > 0 {
		w.thoughts = w.thoughts[:0]
		w.Lose("thinking")
	}
	return written
}

func (w *writer) losing(parts []chat.Part) {
	for i := range parts {
		w.losePart(&parts[i])
	}
}

// led writes the reasoning that led to the item that follows.
func (w *writer) led() {
	if len(w.thoughts) > 0 {
		w.item()
		w.Dst = append(w.Dst, w.thoughts...)
		w.thoughts = w.thoughts[:0]
	}
}

// reasoning keeps what a model of this format thought: parts of a summary, with the encrypted whole behind the last one. What another
// model signed, nobody here can check.
func (w *writer) reasoning(parts []chat.Part) {
	last := &parts[len(parts)-1]
	if last.SignedBy() != chat.ResponsesThinking || w.opts.NoThinking {
		w.losing(parts)
		return
	}
	kept := last.Signature
	if last.Kind == chat.PartRedacted {
		kept = last.Data
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
	_, sealed := chat.Signer(kept)
	inner.Key(encryptedContent)
	inner.Str(sealed)
	inner.Raw("}")
	w.thoughts = inner.Dst
}

// spoken writes a message of the model.
func (w *writer) spoken(parts []chat.Part) {
	w.led()
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
	w.led()
	w.item()
	w.Raw(`{"type":"function_call","call_id":`)
	w.Str(p.Tool.ID)
	w.Key("name")
	w.Str(wire.ToolName(p.Tool.Name))
	w.Key("arguments")
	w.Str(p.Tool.Args)
	w.Raw("}")
	w.unmarked(p)
}
