package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// prepare settles what the request says besides its conversation, and what of that has to stand inside it.
func (w *writer) prepare() {
	w.settled = settle(w.req.Profile, w.Conv.Params, &w.opts)
	for _, name := range w.settled.names {
		w.Name(name)
	}
	w.system, w.offered = w.Conv.System, w.Conv.Tools
	if w.settled.MarkCache && w.opts.CacheControl {
		w.system, w.offered = wire.MarkStable(w.Conv, w.opts.MinCache)
	}
	if !w.ownWords() {
		w.thought = w.opts.think(&w.settled)
		for _, name := range w.thought.lost {
			w.Name(name)
		}
	}
	if words := w.thought.words; words != "" {
		w.system = append([]chat.Part{{Kind: chat.PartText, Text: words}}, w.system...)
	}
}

// ownWords reports whether thinking is said as the client says it, in OpenAI's own way.
func (w *writer) ownWords() bool {
	return !w.settled.profiled && (w.opts.Reasoning == ReasoningEffort || w.opts.NoEffort)
}

// slashed are the messages, with the switch of thinking before the last text of the user. The conversation stays as it is.
func (w *writer) slashed() []chat.Message {
	ms := w.Conv.Messages
	if w.thought.slash == "" {
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
				ms[i].Parts[j].Text = w.thought.slash + ms[i].Parts[j].Text
				return ms
			}
		}
	}
	w.Name(keyEffort)
	return ms
}
