package openai

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// writer writes a conversation of another dialect as a Chat Completions request. The order of members is fixed, so that the same request
// gives the same bytes and keeps a provider's prompt cache.
type writer struct {
	wire.Writer

	req          *chat.Request
	opts         RequestOptions
	pendingMedia []chat.Part // media of tool results, to be written in the next user turn
	inToolTurn   bool        // a tool was called in the turn that is being written
	same         bool        // the conversation was parsed from a request of this format

	resolved resolvedParams
	control  thinkingControl
	system   []chat.Part
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
		w.DegradeAs(name)
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
	w.turns(w.withSwitch())
	if len(w.Dst) == start {
		return wire.NoContent(w.Conv)
	}
	w.Dst = slices.Delete(w.Dst, start, start+1) // every message starts with a comma, which is removed from the first
	w.Raw("]")
	return nil
}

// turns writes the messages. Turns of the assistant alternate with those of the other roles.
func (w *writer) turns(ms []chat.Message) {
	var called []bool
	if w.opts.ReasoningContent == ReasoningContentForTools {
		called = toolTurns(ms)
	}
	for i := 0; i < len(ms); {
		w.inToolTurn = i < len(called) && called[i]
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
		if calls(parts) { // the results must follow immediately
			for ; end < len(ms) && ms[end].Role == chat.RoleAssistant; end++ {
				parts = append(parts, ms[end].Parts...)
			}
		}
		if w.assistant(parts) && end == len(ms) {
			w.Degrade("prefill") // the provider begins a new answer instead of continuing this one
		}
		i = end
	}
}

func calls(parts []chat.Part) bool {
	return slices.ContainsFunc(parts, func(p chat.Part) bool { return p.Kind == chat.PartToolUse })
}

// others writes the messages between two turns of the assistant.
func (w *writer) others(ms []chat.Message) {
	wire.ResultsFirst(ms, w.toolResult, func(role chat.Role, parts []chat.Part) {
		if role != chat.RoleSystem {
			w.userTurn(parts)
			return
		}
		w.userTurn(nil)
		w.message("system")
		w.text(parts, "\n\n")
		w.Raw("}")
	})
	w.userTurn(nil)
}

// message starts a message, up to its content.
func (w *writer) message(role string) {
	w.Raw(`,{"role":"`)
	w.Raw(role)
	w.Raw(`","content":`)
}

// assistant writes an assistant turn. Its text is one string without separators, because citations split text inside sentences. Thinking is
// sent only to providers that accept it. An empty turn is dropped.
func (w *writer) assistant(parts []chat.Part) (written bool) {
	var texts, thoughts []chat.Part
	var calls, refusals int
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case chat.PartThinking, chat.PartRedacted:
			switch {
			case w.opts.ReasoningDetails, w.inToolTurn:
				thoughts = append(thoughts, *p)
			case w.opts.ReasoningContent != ReasoningContentForTools: // the provider ignores the reasoning of other turns
				w.dropPart(p)
			}
		case chat.PartText:
			texts = append(texts, *p)
		case chat.PartToolUse:
			calls++
		case chat.PartRefusal:
			refusals++
		case chat.PartImage, chat.PartDocument, chat.PartAudio, chat.PartVideo, chat.PartFile, chat.PartToolResult, chat.PartOther:
			w.dropPart(p)
		}
	}
	if len(texts)+len(thoughts)+calls+refusals == 0 {
		return false
	}
	w.message("assistant")
	if len(texts) > 0 {
		w.text(texts, "")
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

// reasoningDetails writes thinking in the form that readDetails reads.
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
		w.Str(wire.ToolName(call.Name, chat.OpenAI))
		w.Raw(`,"arguments":`)
		w.Str(call.Args)
		w.Raw("}")
		w.mark(parts[i].CacheControl)
		w.Raw("}")
	}
	w.Raw("]")
}
