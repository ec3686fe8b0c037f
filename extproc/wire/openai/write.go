package openai

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// writer writes a conversation of another dialect as a Chat Completions request. The order of members is fixed, so that
// the same request gives the same bytes and keeps a provider's prompt cache.
type writer struct {
	wire.Writer

	req   *chat.Request
	opts  RequestOptions
	shown []chat.Part // results of tools that hold more than text, waiting for the next turn of the user
	turn  bool        // a tool was called in the turn that is written
	same  bool        // the conversation was read from a request of this format

	settled settled
	thought thought
	system  []chat.Part
	offered []chat.Tool
}

func (w *writer) request() error {
	w.prepare()
	w.Raw(`{"model":`)
	w.Str(w.opts.Model)
	if err := w.messages(); err != nil {
		return err
	}
	w.tools()
	w.params()
	if w.req.Stream {
		w.Raw(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.Raw("}")
	for _, name := range w.Conv.Unmapped {
		w.Name(name)
	}
	return nil
}

func (w *writer) messages() error {
	w.Key("messages")
	w.Raw("[")
	start := len(w.Dst)
	system := w.system
	if system == nil {
		system = w.Conv.System
	}
	if len(system) > 0 {
		w.message("system")
		w.text(system, "\n\n")
		w.Raw("}")
	}
	w.turns(w.slashed())
	if len(w.Dst) == start {
		return wire.Invalid("messages", "messages say nothing that this provider can be told")
	}
	w.Dst = slices.Delete(w.Dst, start, start+1) // every message begins with a comma; the first must not
	w.Raw("]")
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
			w.Lose("prefill") // the answer begins anew here, and does not go on
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
			w.Raw("}")
		default:
			w.userTurn(rest)
		}
	}
	w.userTurn(nil)
}

func isResult(p chat.Part) bool { return p.Kind == chat.PartToolResult }

// message opens a message up to its content.
func (w *writer) message(role string) {
	w.Raw(`,{"role":"`)
	w.Raw(role)
	w.Raw(`","content":`)
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
		case chat.PartImage, chat.PartDocument, chat.PartAudio, chat.PartVideo, chat.PartFile, chat.PartToolResult, chat.PartOther:
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
		w.Raw("null")
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
	w.Raw("}")
	return true
}

// reasoningDetails writes thinking as readDetails reads it.
func (w *writer) reasoningDetails(thoughts []chat.Part) {
	if len(thoughts) == 0 {
		return
	}
	w.Key(keyDetails)
	w.OpenArray()
	for i := range thoughts {
		w.Element()
		p := &thoughts[i]
		format := cmp.Or(p.SignedBy(), "unknown")
		if p.Kind == chat.PartRedacted {
			_, data := chat.Signer(p.Data)
			w.Raw(`{"type":"reasoning.encrypted","data":`)
			w.Str(data)
		} else {
			w.Raw(`{"type":"reasoning.text","text":`)
			w.Str(p.Text)
		}
		if p.Signature != "" {
			_, signature := chat.Signer(p.Signature)
			w.Key("signature")
			w.Str(signature)
		}
		w.Key("format")
		w.Str(format)
		w.Key("index")
		w.Integer(i)
		w.Raw("}")
	}
	w.Raw("]")
}

func (w *writer) refusal(parts []chat.Part) {
	w.Key("refusal")
	w.Raw(`"`)
	for i := range parts {
		if parts[i].Kind == chat.PartRefusal {
			w.Dst = jsonx.AppendEscaped(w.Dst, parts[i].Text)
		}
	}
	w.Raw(`"`)
}

func (w *writer) toolCalls(parts []chat.Part) {
	w.Key("tool_calls")
	w.OpenArray()
	for i := range parts {
		if parts[i].Kind != chat.PartToolUse {
			continue
		}
		call := &parts[i].Tool
		w.Element()
		w.Raw(`{"id":`)
		w.Str(call.ID)
		w.Raw(`,"type":"function","function":{"name":`)
		w.Str(wire.ToolName(call.Name))
		w.Raw(`,"arguments":`)
		w.Str(call.Args)
		w.Raw("}")
		w.mark(parts[i].CacheControl)
		w.Raw("}")
	}
	w.Raw("]")
}
