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

// chunk reads one chunk, or a whole answer, and returns the position of the model's name.
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
	model = wire.ModelSpan(name, 0)
	d.begin(id, name, v)
	for i, c := range candidates.Each {
		if d.candidate(i, c); d.Ended {
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

// feedback reads why a prompt was refused. There are no candidates in that case.
func (d *Decoder) feedback(v jsonx.Value) {
	if v.IsNull() {
		return
	}
	reason, _ := v.Get("blockReason").Str()
	blocked := reason != "" && reason != "BLOCKED_REASON_UNSPECIFIED" && reason != "BLOCK_REASON_UNSPECIFIED"
	d.Emit(chat.Event{Kind: chat.Extra, ID: promptFeedback, Text: v.Raw, Redundant: true})
	if blocked && !d.blocked && len(d.choices) == 0 {
		d.blocked = true
		d.Emit(chat.Event{Kind: chat.Stop, Reason: chat.StopRefusal})
	}
}

// choice returns the state of the candidate with this number. Numbers above a request's maximum are treated as the last one.
func (d *Decoder) choice(number int) (*choice, int) {
	number = max(0, min(number, maxChoices-1))
	for len(d.choices) <= number {
		d.choices = append(d.choices, choice{})
	}
	return &d.choices[number], number
}

func (d *Decoder) candidate(position int, v jsonx.Value) {
	var content, reason jsonx.Value
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
			if string(key) == groundingMetadata {
				d.searches = max(d.searches, length(m.Get("webSearchQueries")))
			}
		}
	}
	word, _ := reason.Str()
	if content.Kind() != jsonx.Object && word == "" && !more {
		return // it says nothing
	}
	c, n := d.choice(int(min(number, maxChoices)))
	for _, p := range content.Get("parts").Each {
		if d.part(c, n, p); d.Ended {
			return
		}
	}
	if more {
		d.candidateExtras(c, n, v)
	}
	if word != "" && word != "FINISH_REASON_UNSPECIFIED" {
		d.stop(c, n, word)
	}
}

// part reads one part of a candidate's content.
func (d *Decoder) part(c *choice, n int, v jsonx.Value) {
	p := readPiece(v)
	isThought, _ := p.thought.Bool()
	switch {
	case !p.call.IsNull():
		d.CloseBlock(&c.open, n)
		d.sign(c, n, p.signature, false)
		d.call(c, n, p.call)
	case p.text.Kind() == jsonx.String && isThought:
		d.text(c, n, chat.Thought, p.text)
		d.sign(c, n, p.signature, true)
	case p.text.Kind() == jsonx.String:
		if c.open.Kind == chat.Thought {
			d.CloseBlock(&c.open, n)
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

// text emits text in the open block if that is of the same kind, else in a new one.
func (d *Decoder) text(c *choice, n int, kind chat.EventKind, v jsonx.Value) {
	t, _ := v.Text(&d.Arena)
	if len(t) == 0 {
		return
	}
	if c.open.Kind != kind {
		d.OpenBlock(&c.open, n, kind)
	}
	ev := d.Next()
	ev.Kind, ev.Index, ev.Choice, ev.Text = kind, c.open.Index, n, t
	switch {
	case kind == chat.Thought:
		ev.ID = chat.GeminiThinking
	case !d.sameDialect:
		c.text = append(c.text, t...)
	}
}

// sign emits a part's signature: that of a thought, or a separate block.
func (d *Decoder) sign(c *choice, n int, v jsonx.Value, ofThought bool) {
	signature, _ := v.Str()
	text, format, isRedacted := canonicalSignature(signature)
	if text == "" {
		return
	}
	at := len(d.Arena)
	d.Arena = append(d.Arena, text...)
	kind := chat.Signature
	switch {
	case !ofThought || isRedacted:
		kind = chat.Redacted
		d.OpenBlock(&c.open, n, kind)
	case c.open.Kind != chat.Thought: // a thought without text
		d.OpenBlock(&c.open, n, chat.Thought)
	}
	d.Emit(chat.Event{Kind: kind, ID: format, Index: c.open.Index, Choice: n, Text: d.Arena[at:]})
	d.CloseBlock(&c.open, n)
}

// call reads a call, which is complete, or starts one whose arguments follow.
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
	if own, ok := d.ownNames[name]; ok {
		name = own
	}
	d.CloseBlock(&c.open, n)
	c.called, c.open.Any = true, true
	id, _ := v.Get("id").Str()
	if id == "" { // a tool result must be able to refer to its call
		id = "call_" + d.id + "_" + strconv.Itoa(d.calls)
	}
	d.calls++
	block := d.Blocks
	d.Blocks++
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

// finishCall emits the arguments of a call that arrived in pieces.
func (d *Decoder) finishCall(c *choice, n int) {
	p := c.partial
	c.partial = nil
	at := len(d.Arena)
	d.Arena = p.args.appendTo(d.Arena)
	d.Emit(chat.Event{Kind: chat.ToolArgs, Index: p.block, Choice: n, Text: d.Arena[at:]})
	d.Emit(chat.Event{Kind: chat.BlockStop, Index: p.block, Choice: n})
}

// stop closes the open block and emits the stop reason of the candidate. It is tool use for a turn with function calls.
func (d *Decoder) stop(c *choice, n int, word string) {
	if c.stopped {
		return
	}
	reason, whole := stopReasons[word]
	if !whole && !d.sameDialect && (!c.open.Any || isBroken(word)) {
		text := "the provider gave up its answer"
		if isBroken(word) {
			text = "it ended with " + word
		}
		d.FailWith(&chat.ProviderError{Status: http.StatusBadGateway, Type: strings.ToLower(word), Message: text, Unusable: true})
		return
	}
	if c.partial != nil {
		d.finishCall(c, n)
	}
	d.CloseBlock(&c.open, n)
	switch {
	case !whole:
		reason = chat.StopEnd
		d.Emit(chat.Event{Kind: chat.Extra, ID: finishReason, Choice: n, Text: jsonx.AppendString(nil, word)})
	case word != plainReason(reason):
		d.Emit(chat.Event{Kind: chat.Extra, ID: finishReason, Choice: n, Text: jsonx.AppendString(nil, word), Redundant: true})
	}
	if reason == chat.StopEnd && c.called {
		reason = chat.StopTool
	}
	c.stopped = true
	d.Emit(chat.Event{Kind: chat.Stop, Choice: n, Reason: reason})
}

// stopReasons maps the reasons of complete answers, and of answers that were stopped for their content. Any other reason means an
// unfinished answer (K-93).
var stopReasons = map[string]chat.StopReason{
	"STOP": chat.StopEnd, "MAX_TOKENS": chat.StopLength, "SAFETY": chat.StopRefusal, "RECITATION": chat.StopRefusal, "LANGUAGE": chat.StopRefusal,
	"BLOCKLIST": chat.StopRefusal, "PROHIBITED_CONTENT": chat.StopRefusal, "SPII": chat.StopRefusal, "IMAGE_SAFETY": chat.StopRefusal,
	"IMAGE_PROHIBITED_CONTENT": chat.StopRefusal, "IMAGE_RECITATION": chat.StopRefusal, "MODEL_ARMOR": chat.StopRefusal,
}

// isBroken reports whether a reason makes the answer an error, even after content. OTHER and unknown reasons do so only without content.
func isBroken(word string) bool {
	switch word {
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE":
		return true
	}
	return false
}

// plainReason returns Google's name of a stop reason.
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

// usage reads a usage report, which is cumulative. Thinking tokens are billed, but not counted among the candidates' tokens; tokens that
// tools put into the prompt are not counted among the prompt's.
func (d *Decoder) usage(v jsonx.Value) {
	if v.Kind() != jsonx.Object {
		return
	}
	var prompt, output, thought, tools int64
	cached := int64(-1)
	for key, m := range v.Members {
		n := count(m)
		switch string(key) { // of duplicate numbers, the one with the higher cost
		case "promptTokenCount":
			prompt = max(prompt, n)
		case "cachedContentTokenCount":
			if cached < 0 || n < cached {
				cached = n
			}
		case "candidatesTokenCount":
			output = max(output, n)
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
	u.Input, u.Cached, u.Output, u.Reasoning = max(0, prompt-cached)+tools, min(cached, prompt), output+thought, thought
	u.Final, u.Searches = u.Output > 0 && d.stopped(), d.searches
}

// count reads a number of tokens, which may be in a string: the API's JSON mapping writes large integers as strings.
func count(v jsonx.Value) int64 {
	if s, ok := v.Str(); ok {
		v = jsonx.Value{Raw: jsonx.Raw(s)}
	}
	return wire.Count(v)
}

// length returns the number of elements of an array.
func length(v jsonx.Value) (n int64) {
	for range v.Each {
		n++
	}
	return n
}
