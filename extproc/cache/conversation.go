package cache

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// conversation writes the canonical conversation, which is the same for every client dialect. Left out are cache_control marks, which
// change no answer; positions, which only appear in error messages; and Unmapped, which is empty for every request that is keyed this
// way. A test checks that every other field of chat.Conversation changes the key.
func (w *writer) conversation(c *chat.Conversation) {
	w.parts(c.System)
	for i := range c.Messages {
		w.message(&c.Messages[i])
	}
	w.byte(markEnd)
	for i := range c.Tools {
		w.tool(&c.Tools[i])
	}
	w.byte(markEnd)
	w.uint(uint64(c.ToolChoice.Mode))
	w.text(c.ToolChoice.Name)
	for _, name := range c.AllowedTools {
		w.text(name)
	}
	w.byte(markEnd)
	w.optional(c.ParallelTools)
	w.params(&c.Params)
}

// message writes one message. Tool results are written as one message each: Anthropic groups several in one message, OpenAI does not.
func (w *writer) message(m *chat.Message) {
	if m.Role != chat.RoleTool {
		w.turn(m.Role, m.Parts)
		return
	}
	for i := range m.Parts {
		w.turn(m.Role, m.Parts[i:i+1])
	}
}

func (w *writer) turn(role chat.Role, parts []chat.Part) {
	w.byte(markMore)
	w.text(string(role))
	w.parts(parts)
}

func (w *writer) parts(ps []chat.Part) {
	for i := range ps {
		w.part(&ps[i])
	}
	w.byte(markEnd)
}

func (w *writer) part(p *chat.Part) {
	w.byte(markMore)
	w.uint(uint64(p.Kind))
	w.text(p.Text)
	w.text(p.Media)
	w.text(p.Data)
	w.text(p.URL)
	w.text(p.File)
	w.text(p.Name)
	w.text(p.Context)
	w.text(p.Tool.ID)
	w.text(p.Tool.Name)
	w.json([]byte(p.Tool.Args))
	w.parts(p.Parts)
	w.bool(p.IsError)
	w.text(p.Signature)
	w.bool(p.Trace)
	w.optionalJSON(p.Raw)
}

func (w *writer) tool(t *chat.Tool) {
	w.byte(markMore)
	w.text(t.Name)
	w.text(t.Description)
	w.optionalJSON(t.Schema)
	w.bool(t.Strict)
	w.optionalJSON(t.Raw)
}

func (w *writer) params(p *chat.Params) {
	for _, number := range [...]string{p.Temperature, p.TopP, p.TopK, p.PresencePenalty, p.FrequencyPenalty, p.Seed} {
		w.number(number)
	}
	w.strings(p.Stop)
	w.text(p.User)
	w.text(p.Effort)
	w.uint(uint64(max(0, p.ThinkingBudget)))
	w.uint(uint64(p.Thinking))
	w.text(p.ServiceTier)
	w.optionalJSON(p.Schema)
	w.text(p.SchemaName)
	w.text(p.SchemaNote)
	w.bool(p.SchemaLoose)
	w.bool(p.JSONMode)
	w.number(p.MinP)
	w.text(p.Predicted)
	w.optional(p.Visible)
	w.optional(p.WebSearch)
	w.bool(p.TEE)
}

// profile writes the inference parameters that the gateway adds for a subsystem, because they also reach the provider. Prompt-cache keys
// are left out, because they change no answer.
func (w *writer) profile(p *chat.Profile) {
	if w.bool(p != nil); p == nil {
		return
	}
	w.text(p.Subsystem)
	w.text(p.Role)
	w.text(p.Quality)
	w.number(strconv.FormatFloat(p.CostSensitivity, 'g', -1, 64))
	w.uint(uint64(max(0, p.MaxLatency)))
	w.bool(p.Confidential)
	w.bool(p.NoGuidance)
	w.params(&p.Default)
	w.params(&p.Locked)
	w.uint(uint64(max(0, p.MaxTokens)))
}

func (w *writer) optional(on *bool) {
	if on == nil {
		w.byte(markAbsent)
		return
	}
	w.byte(markMore)
	w.bool(*on)
}

func (w *writer) optionalJSON(raw jsonx.Raw) {
	if len(raw) == 0 {
		w.byte(markAbsent)
		return
	}
	w.json(raw)
}
