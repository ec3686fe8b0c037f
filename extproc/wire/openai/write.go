package openai

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// writer writes a conversation of another dialect as a Chat Completions request. The order of members is fixed, so that
// the same request gives the same bytes and keeps a provider's prompt cache.
type writer struct {
	dst      []byte
	req      *chat.Request
	conv     *chat.Conversation
	opts     RequestOptions
	degraded []string
	images   []chat.Part // of tool results, waiting for the next turn of the user
	turn     bool        // a tool was called in the turn that is written
	inArray  bool        // an element was written before

	settled settled
	thought thought
	system  []chat.Part
	offered []chat.Tool
}

// lose names what this format cannot say, in the client's own word. name is the canonical one.
func (w *writer) lose(name string) { w.name(w.conv.Word(name)) }

// name names a loss, once.
func (w *writer) name(word string) {
	w.degraded = wire.Named(w.degraded, word)
}

func (w *writer) raw(s string)     { w.dst = append(w.dst, s...) }
func (w *writer) str(s string)     { w.dst = jsonx.AppendString(w.dst, s) }
func (w *writer) json(r jsonx.Raw) { w.dst = append(w.dst, r...) }
func (w *writer) integer(n int)    { w.dst = strconv.AppendInt(w.dst, int64(n), 10) }
func (w *writer) key(name string)  { w.raw(`,"`); w.raw(name); w.raw(`":`) }
func (w *writer) openArray()       { w.raw("["); w.inArray = false }

// element puts the comma between elements of an array whose elements write no arrays themselves in between.
func (w *writer) element() {
	if w.inArray {
		w.dst = append(w.dst, ',')
	}
	w.inArray = true
}

func (w *writer) request() error {
	w.prepare()
	w.raw(`{"model":`)
	w.str(w.opts.Model)
	if err := w.messages(); err != nil {
		return err
	}
	w.tools()
	w.params()
	if w.req.Stream {
		w.raw(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.raw("}")
	for _, name := range w.conv.Unmapped {
		w.name(name)
	}
	return nil
}

func (w *writer) messages() error {
	w.key("messages")
	w.raw("[")
	start := len(w.dst)
	system := w.system
	if system == nil {
		system = w.conv.System
	}
	if len(system) > 0 {
		w.message("system")
		w.text(system, "\n\n")
		w.raw("}")
	}
	w.turns(w.slashed())
	if len(w.dst) == start {
		return invalid("messages", "messages say nothing that this provider can be told")
	}
	w.dst = slices.Delete(w.dst, start, start+1) // every message begins with a comma; the first must not
	w.raw("]")
	return nil
}

// turns writes the messages, where the assistant's alternate with those of the other side.
func (w *writer) turns(ms []chat.Message) {
	var called []bool
	if w.opts.ReasoningContent == ReasoningContentForTools {
		called = toolTurns(ms)
	}
	for i := 0; i < len(ms); {
		w.turn = i < len(called) && called[i]
		end := i + 1
		if ms[i].Role != chat.RoleAssistant {
			for end < len(ms) && ms[end].Role != chat.RoleAssistant {
				end++
			}
			w.others(ms[i:end])
			i = end
			continue
		}
		parts := slices.Clip(ms[i].Parts)
		if calls(parts) { // nothing may stand before the results
			for ; end < len(ms) && ms[end].Role == chat.RoleAssistant; end++ {
				parts = append(parts, ms[end].Parts...)
			}
		}
		if w.assistant(parts) && end == len(ms) {
			w.lose("prefill") // the answer begins anew here, and does not go on
		}
		i = end
	}
}

func calls(parts []chat.Part) bool {
	return slices.ContainsFunc(parts, func(p chat.Part) bool { return p.Kind == chat.PartToolUse })
}

// others writes what stands between two turns of the assistant: first the results of tools, which must follow their
// calls, and then what was said.
func (w *writer) others(ms []chat.Message) {
	for i := range ms {
		for j := range ms[i].Parts {
			if p := &ms[i].Parts[j]; p.Kind == chat.PartToolResult {
				w.toolResult(p)
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
			w.userTurn(nil)
			w.message("system")
			w.text(rest, "\n\n")
			w.raw("}")
		default:
			w.userTurn(rest)
		}
	}
	w.userTurn(nil)
}

func isResult(p chat.Part) bool { return p.Kind == chat.PartToolResult }

// message opens a message up to its content.
func (w *writer) message(role string) {
	w.raw(`,{"role":"`)
	w.raw(role)
	w.raw(`","content":`)
}

// assistant writes a turn of the model. Its text is one string, unseparated: citations cut text inside sentences.
// Thinking is sent back only where signatures have a place. A turn of which nothing is left is left out.
func (w *writer) assistant(parts []chat.Part) (written bool) {
	var said, thoughts []chat.Part
	var calls, refusals int
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case chat.PartThinking, chat.PartRedacted:
			switch {
			case w.opts.ReasoningDetails, w.turn:
				thoughts = append(thoughts, *p)
			case w.opts.ReasoningContent != ReasoningContentForTools: // which ignores other turns' anyway
				w.losePart(p)
			}
		case chat.PartText:
			said = append(said, *p)
		case chat.PartToolUse:
			calls++
		case chat.PartRefusal:
			refusals++
		case chat.PartImage, chat.PartDocument, chat.PartToolResult, chat.PartOther:
			w.losePart(p)
		}
	}
	if len(said)+len(thoughts)+calls+refusals == 0 {
		return false
	}
	w.message("assistant")
	if len(said) > 0 {
		w.text(said, "")
	} else {
		w.raw("null")
	}
	if w.opts.ReasoningDetails {
		w.reasoningDetails(thoughts)
	} else {
		w.reasoningContent(thoughts)
	}
	if refusals > 0 {
		w.refusal(parts)
	}
	if calls > 0 {
		w.toolCalls(parts)
	}
	w.raw("}")
	return true
}

// reasoningDetails writes thinking as readDetails reads it.
func (w *writer) reasoningDetails(thoughts []chat.Part) {
	if len(thoughts) == 0 {
		return
	}
	w.key(keyDetails)
	w.openArray()
	for i := range thoughts {
		w.element()
		p := &thoughts[i]
		format, data := chat.Signer(p.Data)
		if p.Kind == chat.PartRedacted {
			w.raw(`{"type":"reasoning.encrypted","data":`)
			w.str(data)
		} else {
			w.raw(`{"type":"reasoning.text","text":`)
			w.str(p.Text)
		}
		if p.Signature != "" {
			var signature string
			format, signature = chat.Signer(p.Signature)
			w.key("signature")
			w.str(signature)
		}
		w.key("format")
		w.str(format)
		w.key("index")
		w.integer(i)
		w.raw("}")
	}
	w.raw("]")
}

func (w *writer) refusal(parts []chat.Part) {
	w.key("refusal")
	w.raw(`"`)
	for i := range parts {
		if parts[i].Kind == chat.PartRefusal {
			w.dst = jsonx.AppendEscaped(w.dst, parts[i].Text)
		}
	}
	w.raw(`"`)
}

func (w *writer) toolCalls(parts []chat.Part) {
	w.key("tool_calls")
	w.openArray()
	for i := range parts {
		if parts[i].Kind != chat.PartToolUse {
			continue
		}
		call := &parts[i].Tool
		w.element()
		w.raw(`{"id":`)
		w.str(call.ID)
		w.raw(`,"type":"function","function":{"name":`)
		w.str(toolName(call.Name))
		w.raw(`,"arguments":`)
		w.str(call.Args)
		w.raw("}")
		w.mark(parts[i].CacheControl)
		w.raw("}")
	}
	w.raw("]")
}
