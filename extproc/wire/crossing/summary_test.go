package crossing_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// summary is the content of an answer, independent of its division into events, for comparing formats.
type summary struct {
	choices []choiceText
	usage   chat.Usage
}

// choiceText is the content of one choice.
type choiceText struct {
	thoughts      []thought
	text, refusal string
	calls         []chat.ToolCall
	reason        chat.StopReason
	sequence      string
}

// thought is one block of thinking.
type thought struct {
	block                int
	text, sign, redacted string
}

func summarize(events []chat.Event) summary {
	var s summary
	calls := map[[2]int]int{}
	for i := range events {
		ev := &events[i]
		for len(s.choices) <= ev.Choice {
			s.choices = append(s.choices, choiceText{})
		}
		c := &s.choices[ev.Choice]
		at := [2]int{ev.Choice, ev.Index}
		switch ev.Kind {
		case chat.Text:
			c.text += string(ev.Text)
		case chat.Refusal:
			c.refusal += string(ev.Text)
		case chat.Thought:
			c.thought(ev.Index).text += string(ev.Text)
		case chat.Signature:
			c.thought(ev.Index).sign += string(ev.Text)
		case chat.Redacted:
			c.thought(ev.Index).redacted += string(ev.Text)
		case chat.ToolStart:
			calls[at] = len(c.calls)
			c.calls = append(c.calls, ev.Tool)
		case chat.ToolArgs:
			c.calls[calls[at]].Args += string(ev.Text)
		case chat.Stop:
			c.reason, c.sequence = ev.Reason, string(ev.Text)
		case chat.UsageInfo:
			s.usage.Merge(ev.Usage)
		case chat.Start, chat.BlockStop, chat.Error, chat.End, chat.Other, chat.Extra:
		}
	}
	return s
}

func (c *choiceText) thought(block int) *thought {
	for i := range c.thoughts {
		if c.thoughts[i].block == block {
			return &c.thoughts[i]
		}
	}
	c.thoughts = append(c.thoughts, thought{block: block})
	return &c.thoughts[len(c.thoughts)-1]
}

// equals compares the content of two answers, as far as a form can express it. The usage of the second counts only if the first has one.
func (s summary) equals(want summary, in form) bool {
	return reflect.DeepEqual(s.normal(in), want.normal(in)) && (s.usage == chat.Usage{} || counts(s.usage, in) == counts(want.usage, in))
}

// normal applies the intended normalisation of a form:
//   - Anthropic has one choice, writes a refusal as text, and stops for tools after any tool call;
//   - OpenAI does not report which stop sequence matched, a pause, or which limit was reached; Responses does not either, and has one
//     choice, and a refusal in text is complete; Gemini reports no more than OpenAI;
//   - no arguments are an empty object, and what is not JSON is wrapped, as Anthropic requires;
//   - thinking without a signature has no blocks of its own in OpenAI's form.
func (s summary) normal(in form) []choiceText {
	choices := slices.Clone(s.choices)
	if in.dialect == chat.Anthropic || in.dialect == chat.Responses {
		choices = choices[:min(1, len(choices))]
	}
	for i := range choices {
		c := &choices[i]
		c.calls = slices.Clone(c.calls)
		for j := range c.calls {
			c.calls[j].Args = normalArgs(c.calls[j].Args)
		}
		c.thoughts = normalThoughts(c.thoughts)
		if in.dialect == chat.OpenAI || in.dialect == chat.Responses || in.dialect == chat.Gemini {
			c.sequence = ""
			switch c.reason {
			case chat.StopSequence, chat.StopPause:
				c.reason = chat.StopEnd
			case chat.StopContext:
				c.reason = chat.StopLength
			case chat.StopEnd, chat.StopLength, chat.StopTool, chat.StopRefusal:
			}
		}
		if c.refusal != "" {
			c.text, c.refusal = c.text+c.refusal, ""
			if c.reason == chat.StopEnd {
				c.reason = chat.StopRefusal
			}
		}
		if len(c.calls) > 0 && (c.reason == chat.StopEnd || c.reason == chat.StopSequence) {
			c.reason, c.sequence = chat.StopTool, ""
		}
	}
	return choices
}

func normalArgs(args string) string {
	if args == "" {
		return "{}"
	}
	v, err := jsonx.Parse([]byte(args))
	if wrapped, ok := v.Get("INVALID_JSON").Str(); ok && err == nil {
		return wrapped
	}
	return args
}

// normalThoughts renumbers blocks, and merges those that cannot be distinguished.
func normalThoughts(ts []thought) []thought {
	var out []thought
	for _, t := range ts {
		t.block = 0
		if n := len(out); n > 0 && t.sign == "" && t.redacted == "" && out[n-1].sign == "" && out[n-1].redacted == "" {
			out[n-1].text += t.text
			continue
		}
		out = append(out, t)
	}
	return out
}

// counts returns a usage as a form expresses it: OpenAI's has no lifetime of cache writes, no form marks estimates, and each counts
// searches differently.
func counts(u chat.Usage, in form) chat.Usage {
	if in.dialect == chat.OpenAI || in.dialect == chat.Responses {
		u.CacheWrite, u.CacheWrite1h = u.CacheWrite+u.CacheWrite1h, 0
	}
	if in.dialect == chat.Gemini { // it has no member for cache writes
		u.Input, u.CacheWrite, u.CacheWrite1h = u.Input+u.CacheWrite+u.CacheWrite1h, 0, 0
	}
	u.Final, u.Estimated, u.ReasoningEstimated, u.Reasoning, u.Searches = false, false, false, 0, 0
	return u
}

// extras lists the members of each choice that only one dialect has.
func extras(events []chat.Event) string {
	var names []string
	for i := range events {
		if ev := &events[i]; ev.Kind == chat.Extra && !isNotStored(ev.ID) {
			names = append(names, fmt.Sprintf("%d %s", ev.Choice, ev.ID))
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "\n")
}
