package openai

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Extras selects members that clients of this format add to their messages, or send back as they were in an answer, and that a provider
// refuses: they are removed.
type Extras uint8

// The selections.
const (
	// AnyExtras removes nothing: the provider supports or ignores them, or only the server knows.
	AnyExtras Extras = iota
	// OpenAIExtras removes what OpenAI's API does not have: cache_control, images, and what LiteLLM and Google add.
	OpenAIExtras
	// StrictExtras also removes what only OpenAI's API accepts: annotations, audio, refusal.
	StrictExtras
)

const (
	keyMark        = "cache_control"
	keyRefusal     = "refusal"
	keyAnnotations = "annotations"
	keyBlocks      = "thinking_blocks" // of LiteLLM: thinking as Anthropic has it
	keyCall        = "function_call"
	keyCalls       = "tool_calls"
)

// addedKeys are what other gateways add to an assistant's message and its calls. They hold nothing that a provider of this format could
// use: metadata, signatures, and reasoning that is in another member too.
var addedKeys = []string{"provider_specific_fields", keyBlocks, "extra_content"}

var (
	markWords   = jsonx.WordsOf(keyMark)
	openAIWords = jsonx.WordsOf(slices.Concat(addedKeys, []string{keyImages, keyCall})...)
	strictWords = jsonx.WordsOf(slices.Concat(addedKeys, []string{keyImages, keyCall, keyAnnotations, keyAudio, keyRefusal})...)
)

// cutter removes from the messages and tools of a request of this dialect what the provider refuses.
type cutter struct {
	o                       *RequestOptions
	e                       *jsonx.Edits
	d                       *jsonx.Doc
	thoughts, marks, extras bool // which members the request may have and the provider refuses
	names                   []string
	degraded                []string
}

// cutHistory removes the members that the provider refuses, and names those whose content is lost. A request without such members is not
// read again: the scan collected the names of all members.
func (o *RequestOptions) cutHistory(e *jsonx.Edits, d *jsonx.Doc) (degraded []string) {
	c := cutter{o: o, e: e, d: d}
	keys := &d.Stats.Keys
	c.thoughts = (o.ReasoningContent != AnyReasoningContent || o.NoDetails) && keys.Meets(&thoughtKeys)
	switch o.Extras {
	case AnyExtras:
	case OpenAIExtras:
		c.extras = keys.Meets(&openAIWords)
	case StrictExtras:
		c.extras = keys.Meets(&strictWords)
	}
	c.marks = o.Extras != AnyExtras && !o.CacheControl && !o.KeepMarks && keys.Meets(&markWords)
	if !c.thoughts && !c.marks && !c.extras {
		return nil
	}
	c.messages()
	if c.marks {
		c.tools()
	}
	return c.degraded
}

func (c *cutter) degrade(name string) { c.degraded = wire.AppendDegraded(c.degraded, name) }

// messages cuts each message. Which reasoning is sent depends on its turn: see toolTurns.
func (c *cutter) messages() {
	var turn []jsonx.Value // assistant messages of this turn
	called := false
	end := func() {
		for _, m := range turn {
			c.assistant(m, called)
		}
		turn, called = turn[:0], false
	}
	for _, m := range c.d.Get("messages").Each {
		switch role := m.Get("role"); {
		case role.Equal("assistant"):
			turn = append(turn, m)
			called = called || m.Get(keyCalls).Kind() == jsonx.Array
			continue
		case role.Equal("user"):
			end()
		}
		c.names = c.names[:0]
		c.message(m)
	}
	end()
}

// message removes the collected names and the marks from a message. The gateway's own member is removed already; naming it again allows for
// members next to it.
func (c *cutter) message(m jsonx.Value) {
	if c.marks {
		c.names = append(c.names, keyMark)
		for _, part := range m.Get("content").Each {
			c.cut(part, keyMark)
		}
	}
	c.cut(m, c.names...)
}

// cut removes members of an object, and names a mark among them.
func (c *cutter) cut(object jsonx.Value, names ...string) {
	if slices.Contains(names, keyMark) && object.Get(keyMark).Exists() {
		c.degrade("cache_control")
	}
	if len(names) > 0 && hasAny(object, names) {
		wire.CutMembers(c.e, c.d, object, append(slices.Clip(names), wire.HintKey)...)
	}
}

func hasAny(object jsonx.Value, names []string) bool {
	for key := range object.Members {
		if slices.Contains(names, string(key)) {
			return true
		}
	}
	return false
}

func (c *cutter) assistant(m jsonx.Value, called bool) {
	c.names = c.names[:0]
	if c.thoughts {
		c.reasoning(m, called)
	}
	if c.extras {
		c.answered(m)
	}
	for _, call := range m.Get(keyCalls).Each {
		if c.extras {
			c.cut(call.Get("function"), addedKeys...)
		}
		switch {
		case c.extras && c.marks:
			c.cut(call, append(slices.Clip(addedKeys), keyMark)...)
		case c.extras:
			c.cut(call, addedKeys...)
		case c.marks:
			c.cut(call, keyMark)
		}
	}
	c.message(m)
}

// answered collects the members of an answer that are sent back. Null members, which SDKs write for absent ones, are removed too.
func (c *cutter) answered(m jsonx.Value) {
	c.names = append(c.names, addedKeys...)
	for _, key := range [...]string{keyCall, keyCalls} {
		if v := m.Get(key); v.Exists() && v.IsNull() {
			c.names = append(c.names, key)
		}
	}
	instead := ""
	if v := m.Get(keyImages); v.Exists() {
		c.names = append(c.names, keyImages)
		if !wire.IsEmpty(v) {
			c.degrade("images")
			instead = "[image]"
		}
	}
	if c.o.Extras == StrictExtras {
		c.names = append(c.names, keyAnnotations, keyAudio, keyRefusal)
		if !wire.IsEmpty(m.Get(keyAudio)) {
			c.degrade("audio")
			instead = "[audio]"
		}
		if text, _ := m.Get(keyRefusal).Str(); text != "" {
			instead = text
			if hasContent(m) {
				c.degrade("refusal")
			}
		}
	}
	refuses := c.o.Extras == OpenAIExtras && !m.Get(keyRefusal).IsNull() // which OpenAI accepts instead of content
	if instead != "" && !hasContent(m) && !refuses {
		c.setContent(m, instead)
	}
}

// hasContent reports whether a message says anything in members that every provider reads.
func hasContent(m jsonx.Value) bool {
	return !wire.IsEmpty(m.Get("content")) || !wire.IsEmpty(m.Get(keyCalls)) || !m.Get(keyCall).IsNull()
}

// setContent gives a message without content a text: the API requires one.
func (c *cutter) setContent(m jsonx.Value, text string) {
	value := jsonx.AppendString(nil, text)
	if v := m.Get("content"); v.Exists() {
		c.e.Replace(v.At, v.At+len(v.Raw), value)
		return
	}
	c.insert(m, "content", value)
}

// insert adds a member at the beginning of a message.
func (c *cutter) insert(m jsonx.Value, key string, value []byte) {
	c.e.Replace(m.At+1, m.At+1, slices.Concat(jsonx.AppendString(nil, key), []byte(":"), value, []byte(",")))
}

// tools removes the marks from tools, and from the request itself.
func (c *cutter) tools() {
	for _, tool := range c.d.Get("tools").Each {
		c.cut(tool.Get("function"), keyMark)
		c.cut(tool, keyMark)
	}
	for _, f := range c.d.Get("functions").Each {
		c.cut(f, keyMark)
	}
	if c.d.Find(keyMark) >= 0 {
		c.e.Delete(c.d, keyMark)
		c.degrade("cache_control")
	}
}

// AmendExtras returns the resolution for another attempt after a server refused a member that clients add to messages or send back: without all of them. ok
// is false if the error is about something else, or if they were already removed.
func AmendExtras(to policy.Resolution, e *chat.ProviderError) (amended policy.Resolution, ok bool) {
	text := e.Param + " " + e.Message
	names := append(slices.Clip(addedKeys), keyMark, keyImages, keyAnnotations, keyRefusal)
	refused := e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity
	if !refused || to.Without.Extras || !isUnknown(text) || !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(text, name) }) {
		return to, false
	}
	to.Without.Extras = true
	return to, true
}

// isUnknown reports whether an error's text is about a member that the API does not have.
func isUnknown(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"unknown", "unsupported", "not supported", "not permitted", "not allowed", "unrecognized", "unexpected", "extra_forbidden"},
		func(phrase string) bool { return strings.Contains(text, phrase) })
}
