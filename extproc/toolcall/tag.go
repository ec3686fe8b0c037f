package toolcall

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
)

// The tags of Hermes and Qwen.
const (
	openCall  = "<tool_call>"
	closeCall = "</tool_call>"

	openFunction   = "<function="
	closeFunction  = "</function>"
	openParameter  = "<parameter="
	closeParameter = "</parameter>"
)

// tagFinder finds calls in tags: a JSON object in <tool_call>, or <function=…> with parameters.
type tagFinder struct {
	tools     tools
	usage     *usage
	allowBare bool // <function=…> may appear without <tool_call>

	atStart   bool // no text since the start or the last call: white space may belong to the next call
	afterCall bool // there was a call

	// The current call. Offsets are in the undecided text, which only grows until it is decided.
	stage        stage
	contentStart int // start of the tag's content
	at           int // scanned up to here
	json         bracketScanner
	fn           function
	valueEnd     int // end of the object or function
}

// stage is the state of parsing a call.
type stage uint8

const (
	outside stage = iota
	opened
	inObject
	inFunction
	inName
	inBetween
	inKey
	inValue
	closing
)

func (f *tagFinder) next(b []byte, end bool) (decision, int, []chat.ToolCall) {
	if f.stage == outside {
		if v, n := f.seek(b, end); f.stage == outside {
			return v, n, nil
		}
	}
	cut := len(b) > f.usage.maxHeld()
	if cut {
		b = b[:f.usage.maxHeld()]
	}
	for {
		before := f.stage
		v, n, found := f.step(b, end || cut)
		if v != undecided || f.stage == before {
			return v, n, found
		}
	}
}

// seek looks for the start of a call. If text comes first, it is decided and the stage stays outside.
func (f *tagFinder) seek(b []byte, end bool) (decision, int) {
	if f.usage.exhausted() {
		return plainText, len(b)
	}
	lead := 0
	if f.atStart {
		switch lead = spaces(b, 0); {
		case lead >= f.usage.maxSpace():
			return f.asText(f.usage.maxSpace())
		case lead == len(b):
			return f.blank(lead, end)
		}
	}
	for i := lead; ; i++ {
		at := bytes.IndexByte(b[i:], '<')
		if at < 0 {
			return f.asText(len(b))
		}
		i += at
		whole, part := match(b, i, openCall)
		function := false
		if f.allowBare && !whole {
			var p bool
			function, p = match(b, i, openFunction)
			part = part || p
		}
		switch {
		case !whole && !function && (!part || end):
		case i > lead, i > 0 && !f.atStart:
			return f.asText(i)
		case whole:
			f.begin(opened, i, i+len(openCall))
			return undecided, 0
		case function:
			f.begin(inFunction, i, i)
			return undecided, 0
		default:
			return undecided, 0
		}
	}
}

// blank decides about white space at the end of the received text.
func (f *tagFinder) blank(n int, end bool) (decision, int) {
	switch {
	case !end:
		return undecided, 0
	case f.afterCall:
		return toolCalls, n
	}
	return f.asText(n)
}

func (f *tagFinder) asText(n int) (decision, int) {
	f.atStart = false
	return plainText, n
}

// begin enters a call. If it turns out not to be one, the tag is text and scanning continues at contentStart.
func (f *tagFinder) begin(s stage, tag, at int) {
	f.stage, f.contentStart, f.at, f.json, f.fn = s, max(at, tag+1), at, bracketScanner{}, function{}
}

// step parses up to the next stage, or until more text is needed.
func (f *tagFinder) step(b []byte, end bool) (decision, int, []chat.ToolCall) {
	switch f.stage {
	case opened:
		if f.at = spaces(b, f.at); f.at == len(b) {
			return f.needMore(end)
		}
		if b[f.at] == '{' {
			f.contentStart, f.stage = f.at, inObject
			return undecided, 0, nil
		}
		switch whole, part := match(b, f.at, openFunction); {
		case whole:
			f.stage = inFunction
			return undecided, 0, nil
		case part:
			return f.needMore(end)
		}
		return f.reject(f.at)
	case inObject:
		at, done, bad := f.json.scan(b, f.at)
		f.at = at
		switch {
		case bad:
			return f.reject(at)
		case !done:
			return f.needMore(end)
		}
		f.stage, f.valueEnd = closing, at
		return undecided, 0, nil
	case closing:
		return f.close(b, end)
	case inFunction, inName, inBetween, inKey, inValue:
		return f.function(b, end)
	case outside:
	}
	return undecided, 0, nil
}

// close looks for the closing tag, which some models omit, and parses the call.
func (f *tagFinder) close(b []byte, end bool) (decision, int, []chat.ToolCall) {
	f.at = spaces(b, f.at)
	whole, part := match(b, f.at, closeCall)
	switch {
	case whole:
		f.at += len(closeCall)
	case part && !end:
		return undecided, 0, nil
	default:
		f.at = f.valueEnd
	}
	c, ok := f.parseCall(b)
	if !ok {
		return f.reject(f.at)
	}
	f.stage, f.atStart, f.afterCall = outside, true, true
	f.usage.calls++
	return toolCalls, f.at, []chat.ToolCall{c}
}

func (f *tagFinder) parseCall(b []byte) (chat.ToolCall, bool) {
	if f.fn.name != "" {
		return f.tools.functionCall(&f.fn)
	}
	v, ok := parseLenient(b[f.contentStart:f.valueEnd])
	if !ok {
		return chat.ToolCall{}, false
	}
	return f.tools.parseCall(v, false)
}

// reject decides that the first n bytes are text.
func (f *tagFinder) reject(n int) (decision, int, []chat.ToolCall) {
	f.stage, f.atStart = outside, false
	return plainText, n, nil
}

// needMore waits for more text. At the end of the text an unfinished call is not a call: its tag is text, and its content is scanned again.
func (f *tagFinder) needMore(end bool) (decision, int, []chat.ToolCall) {
	if !end {
		return undecided, 0, nil
	}
	f.usage.rescanned += f.at - f.contentStart
	return f.reject(f.contentStart)
}
