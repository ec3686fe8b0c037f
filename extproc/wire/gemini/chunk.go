package gemini

import (
	"net/http"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
)

// chunk reads one chunk, or a whole answer, and returns where it names the model.
func (d *Decoder) chunk(v jsonx.Value) (model chat.Span) {
	var id, name, candidates, feedback, usage, err jsonx.Value
	for key, m := range v.Members {
		switch string(key) {
		case "responseId":
			id = m
		case "modelVersion":
			name = m
		case "candidates":
			candidates = m
		case promptFeedback:
			feedback = m
		case "usageMetadata":
			usage = wire.LargerReport(usage, m)
		case "error":
			err = m
		}
	}
	switch {
	case !err.IsNull():
		d.FailWith(errbody.InStream(v))
		return model
	case v.Kind() != jsonx.Object || !candidates.Exists() && usage.IsNull() && feedback.IsNull():
		return model
	}
	if name.Kind() == jsonx.String {
		model = chat.Span{Start: name.At, End: name.At + len(name.Raw)}
	}
	d.begin(id, name, v)
	for i, c := range candidates.Each {
		if d.candidate(i, c); d.Over {
			return model
		}
	}
	d.feedback(feedback)
	d.usage(usage)
	return model
}

func (d *Decoder) begin(id, model, v jsonx.Value) {
	if !d.began {
		d.began = true
		d.id, _ = id.Str()
		name, _ := model.Str()
		d.Emit(chat.Event{Kind: chat.Start, ID: d.id, Model: name})
		d.answerExtras(v)
	}
}

// feedback reads why a prompt was refused: there are no candidates then.
func (d *Decoder) feedback(v jsonx.Value) {
	if v.IsNull() {
		return
	}
	reason, _ := v.Get("blockReason").Str()
	blocked := reason != "" && reason != "BLOCKED_REASON_UNSPECIFIED" && reason != "BLOCK_REASON_UNSPECIFIED"
	d.Emit(chat.Event{Kind: chat.Extra, ID: promptFeedback, Text: v.Raw, Said: true})
	if blocked && !d.blocked && len(d.choices) == 0 {
		d.blocked = true
		d.Emit(chat.Event{Kind: chat.Stop, Reason: chat.StopRefusal})
	}
}

// choice returns the state of the candidate that calls itself so. Numbers beyond what a request may ask for are one.
func (d *Decoder) choice(number int) (*choice, int) {
	number = max(0, min(number, maxChoices-1))
	for len(d.choices) <= number {
		d.choices = append(d.choices, choice{})
	}
	return &d.choices[number], number
}

func (d *Decoder) candidate(position int, v jsonx.Value) {
	var content, reason, message jsonx.Value
	number, more := int64(position), false
	for key, m := range v.Members {
		switch string(key) {
		case "index":
			if n, ok := m.Int(); ok {
				number = n
			}
		case "content":
			content = m
		case finishReason:
			reason = m
		default:
			more = true
			switch string(key) {
			case finishMessage:
				message = m
			case groundingMetadata:
				d.searches = max(d.searches, length(m.Get("webSearchQueries")))
			}
		}
	}
	c, n := d.choice(int(min(number, maxChoices)))
	for _, p := range content.Get("parts").Each {
		if d.part(c, n, p); d.Over {
			return
		}
	}
	if more {
		d.candidateExtras(c, n, v)
	}
	if said, _ := reason.Str(); said != "" && said != "FINISH_REASON_UNSPECIFIED" {
		d.stop(c, n, said, message)
	}
}

// part reads one part of a candidate's content.
func (d *Decoder) part(c *choice, n int, v jsonx.Value) {
	p := readPiece(v)
	isThought, _ := p.thought.Bool()
	switch {
	case !p.call.IsNull():
		d.closeBlock(c, n)
		d.sign(c, n, p.signature, false)
		d.call(c, n, p.call)
	case p.text.Kind() == jsonx.String && isThought:
		d.text(c, n, chat.Thought, p.text)
		d.sign(c, n, p.signature, true)
	case p.text.Kind() == jsonx.String:
		if c.open == chat.Thought {
			d.closeBlock(c, n)
		}
		d.text(c, n, chat.Text, p.text)
		d.sign(c, n, p.signature, false)
	default:
		d.foreignPart(c, n, v, &p)
		return
	}
	if p.other != "" {
		d.unknownMember()
	}
}

// text emits a piece of an open block of this kind, opening one when another is open.
func (d *Decoder) text(c *choice, n int, kind chat.EventKind, v jsonx.Value) {
	t, _ := v.Text(&d.Arena)
	if len(t) == 0 {
		return
	}
	if c.open != kind {
		d.openBlock(c, n, kind)
	}
	ev := d.Next()
	ev.Kind, ev.Index, ev.Choice, ev.Text = kind, c.block, n, t
	switch {
	case kind == chat.Thought:
		ev.ID = chat.GeminiThinking
	case !d.same:
		c.said = append(c.said, t...)
	}
}

func (d *Decoder) openBlock(c *choice, n int, kind chat.EventKind) {
	d.closeBlock(c, n)
	c.open, c.block, c.spoke = kind, d.blocks, true
	d.blocks++
}

func (d *Decoder) closeBlock(c *choice, n int) {
	if c.open != chat.Start {
		d.Emit(chat.Event{Kind: chat.BlockStop, Index: c.block, Choice: n})
		c.open = chat.Start
	}
}

// sign tells a part's signature: that of a thought, or as a block of its own.
func (d *Decoder) sign(c *choice, n int, v jsonx.Value, ofThought bool) {
	said, _ := v.Str()
	text, format, isRedacted := keptSignature(said)
	if text == "" {
		return
	}
	at := len(d.Arena)
	d.Arena = append(d.Arena, text...)
	kind := chat.Signature
	switch {
	case !ofThought || isRedacted:
		kind = chat.Redacted
		d.openBlock(c, n, kind)
	case c.open != chat.Thought: // of which only the proof is shown
		d.openBlock(c, n, chat.Thought)
	}
	d.Emit(chat.Event{Kind: kind, ID: format, Index: c.block, Choice: n, Text: d.Arena[at:]})
	d.closeBlock(c, n)
}

// call reads a call, which comes whole, or begins one whose arguments follow.
func (d *Decoder) call(c *choice, n int, v jsonx.Value) {
	more, _ := v.Get("willContinue").Bool()
	pieces := v.Get("partialArgs")
	name, _ := v.Get("name").Str()
	if c.partial != nil {
		c.partial.add(pieces)
		if !more {
			d.finishCall(c, n)
		}
		return
	}
	switch {
	case name == "":
		return
	case d.calls == maxCalls:
		d.Fail("invalid_response", "the provider's answer has too many function calls")
		return
	}
	d.closeBlock(c, n)
	c.called, c.spoke = true, true
	id, _ := v.Get("id").Str()
	if id == "" { // a result must be able to name its call
		id = "call_" + d.id + "_" + strconv.Itoa(d.calls)
	}
	d.calls++
	block := d.blocks
	d.blocks++
	d.Emit(chat.Event{Kind: chat.ToolStart, Index: block, Choice: n, Tool: chat.ToolCall{ID: id, Name: name}})
	if more || pieces.Exists() {
		c.partial = &partialCall{block: block}
		c.partial.add(pieces)
		if !more {
			d.finishCall(c, n)
		}
		return
	}
	if args := v.Get("args"); args.Kind() == jsonx.Object {
		d.Emit(chat.Event{Kind: chat.ToolArgs, Index: block, Choice: n, Text: args.Raw})
	}
	d.Emit(chat.Event{Kind: chat.BlockStop, Index: block, Choice: n})
}

// finishCall tells the arguments of a call that came in pieces.
func (d *Decoder) finishCall(c *choice, n int) {
	p := c.partial
	c.partial = nil
	at := len(d.Arena)
	d.Arena = p.args.appendTo(d.Arena)
	d.Emit(chat.Event{Kind: chat.ToolArgs, Index: p.block, Choice: n, Text: d.Arena[at:]})
	d.Emit(chat.Event{Kind: chat.BlockStop, Index: p.block, Choice: n})
}

// stop closes what is open and says why the candidate ended. A turn that called functions ended for them.
func (d *Decoder) stop(c *choice, n int, said string, message jsonx.Value) {
	if c.stopped {
		return
	}
	reason, whole := stopReasons[said]
	if !whole && !d.same && (!c.spoke || isBroken(said)) {
		text, _ := message.Str()
		if text == "" {
			text = "the provider gave up its answer"
		}
		d.FailWith(&chat.ProviderError{Status: http.StatusBadGateway, Type: strings.ToLower(said), Message: text})
		return
	}
	if c.partial != nil {
		d.finishCall(c, n)
	}
	d.closeBlock(c, n)
	switch {
	case !whole:
		reason = chat.StopEnd
		d.Emit(chat.Event{Kind: chat.Extra, ID: finishReason, Choice: n, Text: jsonx.AppendString(nil, said)})
	case said != plainReason(reason):
		d.Emit(chat.Event{Kind: chat.Extra, ID: finishReason, Choice: n, Text: jsonx.AppendString(nil, said), Said: true})
	}
	if reason == chat.StopEnd && c.called {
		reason = chat.StopTool
	}
	c.stopped = true
	d.Emit(chat.Event{Kind: chat.Stop, Choice: n, Reason: reason})
}

// stopReasons are the reasons of answers that are complete, or that their maker cut for what they said. Any other is of an answer that
// was not finished (K-93).
var stopReasons = map[string]chat.StopReason{
	"STOP": chat.StopEnd, "MAX_TOKENS": chat.StopLength, "SAFETY": chat.StopRefusal, "RECITATION": chat.StopRefusal, "LANGUAGE": chat.StopRefusal,
	"BLOCKLIST": chat.StopRefusal, "PROHIBITED_CONTENT": chat.StopRefusal, "SPII": chat.StopRefusal, "IMAGE_SAFETY": chat.StopRefusal,
	"IMAGE_PROHIBITED_CONTENT": chat.StopRefusal, "IMAGE_RECITATION": chat.StopRefusal, "MODEL_ARMOR": chat.StopRefusal,
}

// isBroken reports whether a reason says that what came is no answer, whatever it is. OTHER and words that are not known yet
// say that only where nothing came.
func isBroken(said string) bool {
	switch said {
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE":
		return true
	}
	return false
}

// plainReason is what Google calls a reason to stop.
func plainReason(r chat.StopReason) string {
	switch r {
	case chat.StopLength, chat.StopContext:
		return "MAX_TOKENS"
	case chat.StopRefusal:
		return "SAFETY"
	case chat.StopEnd, chat.StopTool, chat.StopSequence, chat.StopPause:
	}
	return "STOP"
}

// usage reads what an answer took so far: each report is of all of it. Thoughts are billed, and are not among the candidates'
// tokens; what tools put into the prompt is not among the prompt's.
func (d *Decoder) usage(v jsonx.Value) {
	if v.Kind() != jsonx.Object {
		return
	}
	var prompt, said, thought, tools int64
	cached := int64(-1)
	for key, m := range v.Members {
		n := count(m)
		switch string(key) { // of two numbers the one that costs more
		case "promptTokenCount":
			prompt = max(prompt, n)
		case "cachedContentTokenCount":
			if cached < 0 || n < cached {
				cached = n
			}
		case "candidatesTokenCount":
			said = max(said, n)
		case "thoughtsTokenCount":
			thought = max(thought, n)
		case "toolUsePromptTokenCount":
			tools = max(tools, n)
		}
	}
	cached = max(0, cached)
	ev := d.Next() // every chunk has one
	ev.Kind, ev.Text = chat.UsageInfo, v.Raw
	u := &ev.Usage
	u.Input, u.Cached, u.Output, u.Reasoning = max(0, prompt-cached)+tools, min(cached, prompt), said+thought, thought
	u.Final, u.Searches = u.Output > 0 && d.stopped(), d.searches
}

// count is a number of tokens, or one in a string, as the API's JSON writes large ones.
func count(v jsonx.Value) int64 {
	if s, ok := v.Str(); ok {
		v = jsonx.Value{Raw: jsonx.Raw(s)}
	}
	return wire.Count(v)
}

// length is how many elements an array has.
func length(v jsonx.Value) (n int64) {
	for range v.Each {
		n++
	}
	return n
}
