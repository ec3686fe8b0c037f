package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
)

// prepare resolves the parameters, and the parts of them that are written into the conversation.
func (w *writer) prepare() {
	w.resolved = resolveParams(w.req.Profile, w.Conv.Params, &w.opts)
	for _, name := range w.resolved.degraded {
		w.DegradeAs(name)
	}
	w.system = w.Conv.System
	if !w.sendsOwnEffort() {
		w.control = w.opts.think(&w.resolved)
		for _, name := range w.control.degraded {
			w.DegradeAs(name)
		}
	}
	if text := w.control.prompt; text != "" {
		w.system = append([]chat.Part{{Kind: chat.PartText, Text: text}}, w.system...)
	}
}

// sendsOwnEffort reports whether thinking is requested with reasoning_effort, as by the client.
func (w *writer) sendsOwnEffort() bool {
	return !w.resolved.byProfile && (w.opts.Reasoning == ReasoningEffort || w.opts.NoEffort)
}

// withSwitch returns the messages with the switch of thinking before the last text of the user. The conversation is not changed.
func (w *writer) withSwitch() []chat.Message {
	ms := w.Conv.Messages
	if w.control.slash == "" {
		return ms
	}
	for i := len(ms) - 1; i >= 0; i-- {
		if ms[i].Role != chat.RoleUser {
			continue
		}
		for j := len(ms[i].Parts) - 1; j >= 0; j-- {
			if ms[i].Parts[j].Kind == chat.PartText {
				ms = slices.Clone(ms)
				ms[i].Parts = slices.Clone(ms[i].Parts)
				ms[i].Parts[j].Text = w.control.slash + ms[i].Parts[j].Text
				return ms
			}
		}
	}
	w.DegradeAs(keyEffort)
	return ms
}
