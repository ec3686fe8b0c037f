package openai

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// bodyEncoder gathers an answer and writes it as one chat.completion.
type bodyEncoder struct {
	envelope
	raw     []byte // the provider's own body, with the model's name as the client shall see it
	choices []gathered
}

// gathered is one choice of the answer.
type gathered struct {
	text, thought, refusal []byte
	tools                  []gatheredTool
	reason                 chat.StopReason
}

type gatheredTool struct {
	block    int
	id, name string
	args     []byte
}

// Append gathers; the End event writes the body.
func (e *bodyEncoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.opts.Same && ev.Raw != nil {
		e.raw = e.appendRaw(e.raw[:0], ev.Raw, ev.ModelSpan)
	}
	switch ev.Kind {
	case chat.Start:
		e.start(ev)
	case chat.UsageInfo:
		e.usage.Merge(ev.Usage)
	case chat.End:
		if e.raw != nil {
			return append(dst, e.raw...)
		}
		return e.body(dst)
	case chat.Text, chat.Thought, chat.Refusal, chat.ToolStart, chat.ToolArgs, chat.Stop:
		if e.raw == nil {
			e.choice(ev.Choice).add(ev)
		}
	case chat.Signature, chat.Redacted, chat.BlockStop, chat.Error, chat.Other: // this format has no words for them
	}
	return dst
}

func (e *bodyEncoder) choice(i int) *gathered {
	i = max(0, min(i, maxChoices-1))
	for len(e.choices) <= i {
		e.choices = append(e.choices, gathered{})
	}
	return &e.choices[i]
}

func (g *gathered) add(ev *chat.Event) {
	switch ev.Kind {
	case chat.Text:
		g.text = append(g.text, ev.Text...)
	case chat.Thought:
		g.thought = append(g.thought, ev.Text...)
	case chat.Refusal:
		g.refusal = append(g.refusal, ev.Text...)
	case chat.ToolStart:
		t := g.tool(ev.Index)
		t.id, t.name = ev.Tool.ID, ev.Tool.Name
	case chat.ToolArgs:
		t := g.tool(ev.Index)
		t.args = append(t.args, ev.Text...)
	case chat.Stop:
		g.reason = ev.Reason
	case chat.Start, chat.Signature, chat.Redacted, chat.BlockStop, chat.UsageInfo, chat.Error, chat.End, chat.Other:
	}
}

func (g *gathered) tool(block int) *gatheredTool {
	for i := range g.tools {
		if g.tools[i].block == block {
			return &g.tools[i]
		}
	}
	g.tools = append(g.tools, gatheredTool{block: block})
	return &g.tools[len(g.tools)-1]
}

func (e *bodyEncoder) body(dst []byte) []byte {
	if e.id == "" {
		e.start(&chat.Event{})
	}
	e.choice(0)
	dst = e.head(dst, "chat.completion")
	for i := range e.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.choices[i].append(dst, i)
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, e.usage)
	return append(dst, '}')
}

func (g *gathered) append(dst []byte, index int) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(g.text) == 0 && len(g.tools)+len(g.refusal) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = jsonx.AppendString(dst, g.text)
	}
	if len(g.thought) > 0 {
		dst = jsonx.AppendString(append(dst, `,"reasoning_content":`...), g.thought)
	}
	if len(g.refusal) > 0 {
		dst = jsonx.AppendString(append(dst, `,"refusal":`...), g.refusal)
	}
	if len(g.tools) > 0 {
		dst = g.appendTools(dst)
	}
	dst = append(dst, `},"finish_reason":"`...)
	dst = append(dst, finishReason(g.reason, len(g.tools) > 0)...)
	return append(dst, `"}`...)
}

func (g *gathered) appendTools(dst []byte) []byte {
	dst = append(dst, `,"tool_calls":[`...)
	for i := range g.tools {
		t := &g.tools[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = jsonx.AppendString(dst, t.id)
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = jsonx.AppendString(dst, t.name)
		dst = append(dst, `,"arguments":`...)
		if len(t.args) == 0 {
			dst = append(dst, `"{}"`...)
		} else {
			dst = jsonx.AppendString(dst, t.args)
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}
