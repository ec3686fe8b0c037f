package chatcompletion

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// bodyEncoder collects an answer and writes it as one chat.completion.
type bodyEncoder struct {
	envelope
	raw     []byte // the provider's own body, with the model's name for the client
	choices []choiceContent
}

// choiceContent is the content of one choice.
type choiceContent struct {
	text, thought, refusal []byte
	details                []detailBlock
	tools                  []choiceTool
	extras                 pieces // members of the choice and of its message
	reason                 chat.StopReason
}

type choiceTool struct {
	block    int
	id, name string
	args     []byte
	custom   bool // args are free text
}

// Attach keeps the gateway's own member until the body is written.
func (e *bodyEncoder) Attach(dst, own []byte) []byte {
	e.own = own
	return dst
}

// Append collects events; the End event writes the body.
func (e *bodyEncoder) Append(dst []byte, ev *chat.Event) []byte {
	if e.opts.Same && ev.Raw != nil {
		e.raw = e.appendRaw(e.raw[:0], ev.Raw, ev.ModelSpan)
	}
	if e.raw == nil {
		e.collect(ev)
	}
	if ev.Kind != chat.End {
		return dst
	}
	if e.raw != nil {
		return wire.AppendWithOwn(dst, e.raw, e.own)
	}
	return e.body(dst)
}

func (e *bodyEncoder) collect(ev *chat.Event) {
	e.note(ev)
	switch ev.Kind {
	case chat.Signature, chat.Redacted, chat.Thought:
		g := e.choice(ev.Choice)
		g.add(ev)
		if e.writesDetails(ev) {
			n, _ := e.detailNumbers.index(ev.Choice, ev.Index)
			g.addDetail(ev, n, *e.written.of(ev.Choice))
		}
	case chat.Extra:
		e.extra(ev)
	case chat.Text, chat.Refusal, chat.ToolStart, chat.ToolArgs, chat.Stop:
		e.choice(ev.Choice).add(ev)
	case chat.Start, chat.BlockStop, chat.UsageInfo, chat.Error, chat.End, chat.Other:
	}
}

func (e *bodyEncoder) choice(i int) *choiceContent {
	i = max(0, min(i, MaxChoices-1))
	for len(e.choices) <= i {
		e.choices = append(e.choices, choiceContent{})
	}
	return &e.choices[i]
}

func (g *choiceContent) add(ev *chat.Event) {
	switch ev.Kind {
	case chat.Text:
		g.text = append(g.text, ev.Text...)
	case chat.Thought:
		g.thought = append(g.thought, ev.Text...)
	case chat.Refusal:
		g.refusal = append(g.refusal, ev.Text...)
	case chat.ToolStart:
		t := g.tool(ev.Index)
		t.id, t.name, t.custom = ev.Tool.ID, ev.Tool.Name, ev.ID == chat.CustomTool
	case chat.ToolArgs:
		t := g.tool(ev.Index)
		t.args = append(t.args, ev.Text...)
	case chat.Stop:
		g.reason = ev.Reason
	case chat.Start, chat.Signature, chat.Redacted, chat.BlockStop, chat.UsageInfo, chat.Error, chat.End, chat.Other,
		chat.Extra:
	}
}

func (g *choiceContent) tool(block int) *choiceTool {
	for i := range g.tools {
		if g.tools[i].block == block {
			return &g.tools[i]
		}
	}
	g.tools = append(g.tools, choiceTool{block: block})
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
		dst = e.appendChoice(dst, i)
	}
	dst = append(dst, `],"usage":`...)
	dst = wire.AppendOwn(e.appendUsage(dst), e.own)
	return append(dst, '}')
}

func (e *bodyEncoder) appendChoice(dst []byte, index int) []byte {
	g := &e.choices[index]
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(g.text) == 0 && len(g.tools)+len(g.refusal) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = jsonx.AppendString(dst, g.text)
	}
	if len(g.thought) > 0 {
		dst = jsonx.AppendString(e.appendThoughtKey(append(dst, ',')), g.thought)
	}
	dst = g.appendDetails(dst)
	if len(g.refusal) > 0 {
		dst = jsonx.AppendString(append(dst, `,"refusal":`...), g.refusal)
	}
	if len(g.tools) > 0 {
		dst = g.appendTools(dst)
	}
	dst = append(g.extras.appendTo(dst, inMessage), '}')
	dst = g.extras.appendTo(dst, inChoice)
	dst = append(dst, `,"finish_reason":"`...)
	dst = append(dst, finishReason(g.reason, len(g.tools) > 0)...)
	return append(dst, `"}`...)
}

func (g *choiceContent) appendTools(dst []byte) []byte {
	dst = append(dst, `,"tool_calls":[`...)
	for i := range g.tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = g.tools[i].append(dst)
	}
	return append(dst, ']')
}

func (t *choiceTool) append(dst []byte) []byte {
	kind, input, empty := "function", "arguments", "{}"
	if t.custom {
		kind, input, empty = chat.CustomTool, "input", ""
	}
	if len(t.args) == 0 {
		t.args = append(t.args, empty...)
	}
	dst = jsonx.AppendString(append(dst, `{"id":`...), t.id)
	dst = append(append(dst, `,"type":"`...), kind...)
	dst = append(append(dst, `","`...), kind...)
	dst = jsonx.AppendString(append(dst, `":{"name":`...), t.name)
	dst = append(append(dst, `,"`...), input...)
	return append(jsonx.AppendString(append(dst, `":`...), t.args), "}}"...)
}
