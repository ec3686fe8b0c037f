package toolcall

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
)

// fence begins and ends a block of code.
const fence = "```"

// maxInfo is how long the words behind an opening fence may be, in bytes.
const maxInfo = 64

// jsonFinder finds calls that are bare JSON: all of the text, or all of a fenced block. Any other JSON is what the model says.
type jsonFinder struct {
	tools tools
	spent *spent

	said      bool // words came
	after     bool // a call came, and no words since
	inBlock   bool // inside a fenced block that is none of calls
	lineStart bool // what comes next stands at the start of a line

	// The value at hand. Places are in the text that is undecided, which only grows meanwhile.
	stage  rawStage
	fenced bool
	from   int // where the block's content begins, or the value of a text without one
	at     int // what comes before was looked at
	start  int // of the value
	json   object
	read   []chat.ToolCall // the calls of the values that ended
}

// rawStage is where in a value or its block the finder stands.
type rawStage uint8

const (
	rawOutside rawStage = iota
	rawInfo             // behind the opening fence
	rawBefore           // before a value, or the end
	rawValue
)

func (f *jsonFinder) next(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	if f.stage == rawOutside {
		if v, n := f.seek(b, end); f.stage == rawOutside {
			return f.decided(v, n, b, nil)
		}
	}
	cut := len(b) > f.spent.most()
	if cut {
		b = b[:f.spent.most()]
	}
	for {
		before, at := f.stage, f.at
		v, n, found := f.step(b, end || cut)
		if v != undecided || f.stage == before && f.at == at {
			return f.decided(v, n, b, found)
		}
	}
}

// decided keeps what matters of the text that goes.
func (f *jsonFinder) decided(v verdict, n int, b []byte, found []chat.ToolCall) (verdict, int, []chat.ToolCall) {
	if v == undecided {
		return v, 0, nil
	}
	f.stage, f.read = rawOutside, nil
	if n > 0 {
		f.lineStart = b[n-1] == '\n'
	}
	f.after = v == calls
	f.said = f.said || v == words
	f.spent.calls += len(found)
	return v, n, found
}

// seek looks for a value at the start of the text, or a fence at the start of a line.
func (f *jsonFinder) seek(b []byte, end bool) (verdict, int) {
	if f.spent.over() {
		return words, len(b)
	}
	fresh, lead := f.after || !f.said, 0
	if fresh {
		switch lead = spaces(b, 0); {
		case lead >= f.spent.space():
			return words, f.spent.space()
		case lead == len(b) && !end:
			return undecided, 0
		case lead == len(b) && f.after:
			return calls, lead
		case lead == len(b):
			return words, lead
		}
	}
	if !f.said && !f.after && (b[lead] == '{' || b[lead] == '[') {
		f.begin(rawBefore, lead, false)
		return undecided, 0
	}
	for i := lead; ; i++ {
		at := bytes.IndexByte(b[i:], fence[0])
		if at < 0 {
			return words, len(b)
		}
		i += at
		starts := i == 0 && f.lineStart || i > 0 && b[i-1] == '\n'
		whole, part := match(b, i, fence)
		switch {
		case !starts || !whole && (!part || end):
		case f.inBlock && whole: // its end
			f.inBlock = false
			return words, i + len(fence)
		case i > lead, i > 0 && !fresh:
			return words, i
		case whole:
			f.begin(rawInfo, i+len(fence), true)
			return undecided, 0
		default:
			return undecided, 0
		}
	}
}

func (f *jsonFinder) begin(s rawStage, at int, fenced bool) {
	f.stage, f.at, f.from, f.fenced, f.json, f.read = s, at, at, fenced, object{}, nil
}

// step goes on with the value at hand until more text is needed, or its next stage.
func (f *jsonFinder) step(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	switch f.stage {
	case rawInfo:
		n := bytes.IndexAny(b[f.at:min(len(b), f.at+maxInfo+1)], "`\n")
		switch {
		case n < 0 && len(b)-f.at <= maxInfo && !end:
			return undecided, 0, nil
		case n >= 0 && b[f.at+n] == fence[0]: // code within a line
			f.fenced = false
			return f.refuse(f.at)
		case n < 0:
			return f.refuse(f.at)
		}
		f.at += n + 1
		f.from, f.stage = f.at, rawBefore
	case rawBefore:
		return f.before(b, end)
	case rawValue:
		at, done, bad := f.json.run(b, f.at)
		f.at = at
		switch {
		case bad || !done && end:
			return f.refuse(f.from)
		case done && !f.take(b[f.start:at]):
			return f.refuse(f.from)
		case done:
			f.stage, f.json = rawBefore, object{}
		}
	case rawOutside:
	}
	return undecided, 0, nil
}

// before looks for the next value, or the end of the block or the text.
func (f *jsonFinder) before(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	f.at = spaces(b, f.at)
	if f.at == len(b) {
		switch {
		case !end:
			return undecided, 0, nil
		case len(f.read) > 0: // the fence may be missing
			return calls, f.at, f.read
		}
		return f.refuse(f.from)
	}
	if c := b[f.at]; c == '{' || c == '[' {
		f.start, f.stage = f.at, rawValue
		return undecided, 0, nil
	}
	if !f.fenced || len(f.read) == 0 {
		return f.refuse(f.from)
	}
	switch whole, part := match(b, f.at, fence); {
	case whole:
		return calls, f.at + len(fence), f.read
	case part && !end:
		return undecided, 0, nil
	}
	return f.refuse(f.from)
}

// take reads a whole value: a call, or an array of calls.
func (f *jsonFinder) take(text []byte) bool {
	v, ok := read(text)
	if !ok {
		return false
	}
	n := len(f.read)
	if text[0] == '[' {
		for _, e := range v.Each {
			c, ok := f.tools.call(e, true)
			if !ok {
				return false
			}
			f.read = append(f.read, c)
		}
		return len(f.read) > n && len(f.read) <= maxCalls
	}
	c, ok := f.tools.call(v, true)
	f.read = append(f.read, c)
	return ok && len(f.read) <= maxCalls
}

// refuse passes on what came up to n, where the content begins, as words. The rest of a block is words, too.
func (f *jsonFinder) refuse(n int) (verdict, int, []chat.ToolCall) {
	f.inBlock = f.fenced
	f.spent.again += f.at - n
	return words, n, nil
}
