package toolcall

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
)

// fence opens and closes a fenced block.
const fence = "```"

// maxInfo is the longest info string behind an opening fence, in bytes.
const maxInfo = 64

// jsonFinder finds calls that are plain JSON: the whole text, or a whole fenced block. Any other JSON is text.
type jsonFinder struct {
	tools tools
	usage *usage

	sawText   bool // there was text
	afterCall bool // there was a call and no text since
	inBlock   bool // inside a fenced block that is not calls
	lineStart bool // the next byte is at the start of a line

	// The current value. Offsets are in the undecided text, which only grows until it is decided.
	stage        rawStage
	fenced       bool
	contentStart int // start of the block's content, or of the value if there is no block
	at           int // scanned up to here
	valueStart   int // of the current value
	json         bracketScanner
	parsed       []chat.ToolCall // calls of the complete values
}

// rawStage is the state of parsing a value or its block.
type rawStage uint8

const (
	rawOutside rawStage = iota
	rawInfo             // in the info string of the opening fence
	rawBefore           // before a value or the end
	rawValue
)

func (f *jsonFinder) next(b []byte, end bool) (decision, int, []chat.ToolCall) {
	if f.stage == rawOutside {
		if v, n := f.seek(b, end); f.stage == rawOutside {
			return f.settle(v, n, b, nil)
		}
	}
	cut := len(b) > f.usage.maxHeld()
	if cut {
		b = b[:f.usage.maxHeld()]
	}
	for {
		before, at := f.stage, f.at
		v, n, found := f.step(b, end || cut)
		if v != undecided || f.stage == before && f.at == at {
			return f.settle(v, n, b, found)
		}
	}
}

// settle updates the state for the first n bytes, which are decided.
func (f *jsonFinder) settle(v decision, n int, b []byte, found []chat.ToolCall) (decision, int, []chat.ToolCall) {
	if v == undecided {
		return v, 0, nil
	}
	f.stage, f.parsed = rawOutside, nil
	if n > 0 {
		f.lineStart = b[n-1] == '\n'
	}
	f.afterCall = v == toolCalls
	f.sawText = f.sawText || v == plainText
	f.usage.calls += len(found)
	return v, n, found
}

// seek looks for a value at the start of the text, or for a fence at the start of a line.
func (f *jsonFinder) seek(b []byte, end bool) (decision, int) {
	if f.usage.exhausted() {
		return plainText, len(b)
	}
	fresh, lead := f.afterCall || !f.sawText, 0
	if fresh {
		switch lead = spaces(b, 0); {
		case lead >= f.usage.maxSpace():
			return plainText, f.usage.maxSpace()
		case lead == len(b) && !end:
			return undecided, 0
		case lead == len(b) && f.afterCall:
			return toolCalls, lead
		case lead == len(b):
			return plainText, lead
		}
	}
	if !f.sawText && !f.afterCall && (b[lead] == '{' || b[lead] == '[') {
		f.begin(rawBefore, lead, false)
		return undecided, 0
	}
	for i := lead; ; i++ {
		at := bytes.IndexByte(b[i:], fence[0])
		if at < 0 {
			return plainText, len(b)
		}
		i += at
		starts := i == 0 && f.lineStart || i > 0 && b[i-1] == '\n'
		whole, part := match(b, i, fence)
		switch {
		case !starts || !whole && (!part || end):
		case f.inBlock && whole: // the closing fence
			f.inBlock = false
			return plainText, i + len(fence)
		case i > lead, i > 0 && !fresh:
			return plainText, i
		case whole:
			f.begin(rawInfo, i+len(fence), true)
			return undecided, 0
		default:
			return undecided, 0
		}
	}
}

func (f *jsonFinder) begin(s rawStage, at int, fenced bool) {
	f.stage, f.at, f.contentStart, f.fenced, f.json, f.parsed = s, at, at, fenced, bracketScanner{}, nil
}

// step parses up to the next stage, or until more text is needed.
func (f *jsonFinder) step(b []byte, end bool) (decision, int, []chat.ToolCall) {
	switch f.stage {
	case rawInfo:
		n := bytes.IndexAny(b[f.at:min(len(b), f.at+maxInfo+1)], "`\n")
		switch {
		case n < 0 && len(b)-f.at <= maxInfo && !end:
			return undecided, 0, nil
		case n >= 0 && b[f.at+n] == fence[0]: // inline code
			f.fenced = false
			return f.reject(f.at)
		case n < 0:
			return f.reject(f.at)
		}
		f.at += n + 1
		f.contentStart, f.stage = f.at, rawBefore
	case rawBefore:
		return f.beforeValue(b, end)
	case rawValue:
		at, done, bad := f.json.scan(b, f.at)
		f.at = at
		switch {
		case bad || !done && end:
			return f.reject(f.contentStart)
		case done && !f.parseValue(b[f.valueStart:at]):
			return f.reject(f.contentStart)
		case done:
			f.stage, f.json = rawBefore, bracketScanner{}
		}
	case rawOutside:
	}
	return undecided, 0, nil
}

// beforeValue looks for the next value, or the end of the block or text.
func (f *jsonFinder) beforeValue(b []byte, end bool) (decision, int, []chat.ToolCall) {
	f.at = spaces(b, f.at)
	if f.at == len(b) {
		switch {
		case !end:
			return undecided, 0, nil
		case len(f.parsed) > 0: // the closing fence may be missing
			return toolCalls, f.at, f.parsed
		}
		return f.reject(f.contentStart)
	}
	if c := b[f.at]; c == '{' || c == '[' {
		f.valueStart, f.stage = f.at, rawValue
		return undecided, 0, nil
	}
	if !f.fenced || len(f.parsed) == 0 {
		return f.reject(f.contentStart)
	}
	switch whole, part := match(b, f.at, fence); {
	case whole:
		return toolCalls, f.at + len(fence), f.parsed
	case part && !end:
		return undecided, 0, nil
	}
	return f.reject(f.contentStart)
}

// parseValue parses a complete value: a call or an array of calls.
func (f *jsonFinder) parseValue(text []byte) bool {
	v, ok := parseLenient(text)
	if !ok {
		return false
	}
	n := len(f.parsed)
	if text[0] == '[' {
		for _, e := range v.Each {
			c, ok := f.tools.parseCall(e, true)
			if !ok {
				return false
			}
			f.parsed = append(f.parsed, c)
		}
		return len(f.parsed) > n && len(f.parsed) <= maxCalls
	}
	c, ok := f.tools.parseCall(v, true)
	f.parsed = append(f.parsed, c)
	return ok && len(f.parsed) <= maxCalls
}

// reject decides that the first n bytes are text. The rest of a block is text, too.
func (f *jsonFinder) reject(n int) (decision, int, []chat.ToolCall) {
	f.inBlock = f.fenced
	f.usage.rescanned += f.at - n
	return plainText, n, nil
}
