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

// tagFinder finds calls between tags: a JSON object, or the tags of a function and its parameters.
type tagFinder struct {
	tools tools
	spent *spent
	bare  bool // a function may stand without the tags of a call around it

	fresh bool // no words came since the text began, or since a call: white space may belong to the call that follows
	after bool // a call came

	// The call at hand. Places are in the text that is undecided, which only grows meanwhile.
	stage stage
	from  int // where what is inside of the tag begins
	at    int // what comes before was looked at
	json  object
	fn    function
	ended int // where the object or the function ended
}

// stage is where in a call the finder stands.
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

func (f *tagFinder) next(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	if f.stage == outside {
		if v, n := f.seek(b, end); f.stage == outside {
			return v, n, nil
		}
	}
	cut := len(b) > f.spent.most()
	if cut {
		b = b[:f.spent.most()]
	}
	for {
		before := f.stage
		v, n, found := f.step(b, end || cut)
		if v != undecided || f.stage == before {
			return v, n, found
		}
	}
}

// seek looks for the beginning of a call. What comes before it are words; then the stage is still outside.
func (f *tagFinder) seek(b []byte, end bool) (verdict, int) {
	if f.spent.over() {
		return words, len(b)
	}
	lead := 0
	if f.fresh {
		switch lead = spaces(b, 0); {
		case lead >= f.spent.space():
			return f.asText(f.spent.space())
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
		if f.bare && !whole {
			var p bool
			function, p = match(b, i, openFunction)
			part = part || p
		}
		switch {
		case !whole && !function && (!part || end):
		case i > lead, i > 0 && !f.fresh:
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

// blank decides about white space that nothing follows so far.
func (f *tagFinder) blank(n int, end bool) (verdict, int) {
	switch {
	case !end:
		return undecided, 0
	case f.after:
		return calls, n
	}
	return f.asText(n)
}

func (f *tagFinder) asText(n int) (verdict, int) {
	f.fresh = false
	return words, n
}

// begin enters a call. from is where it is taken up again as words if it is none.
func (f *tagFinder) begin(s stage, tag, at int) {
	f.stage, f.from, f.at, f.json, f.fn = s, max(at, tag+1), at, object{}, function{}
}

// step goes on with the call at hand until more text is needed, or its next stage.
func (f *tagFinder) step(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	switch f.stage {
	case opened:
		if f.at = spaces(b, f.at); f.at == len(b) {
			return f.wait(end)
		}
		if b[f.at] == '{' {
			f.from, f.stage = f.at, inObject
			return undecided, 0, nil
		}
		switch whole, part := match(b, f.at, openFunction); {
		case whole:
			f.stage = inFunction
			return undecided, 0, nil
		case part:
			return f.wait(end)
		}
		return f.refuse(f.at)
	case inObject:
		at, done, bad := f.json.run(b, f.at)
		f.at = at
		switch {
		case bad:
			return f.refuse(at)
		case !done:
			return f.wait(end)
		}
		f.stage, f.ended = closing, at
		return undecided, 0, nil
	case closing:
		return f.close(b, end)
	case inFunction, inName, inBetween, inKey, inValue:
		return f.function(b, end)
	case outside:
	}
	return undecided, 0, nil
}

// close looks for the end of the call's tag, which some models leave out, and reads the call.
func (f *tagFinder) close(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	f.at = spaces(b, f.at)
	whole, part := match(b, f.at, closeCall)
	switch {
	case whole:
		f.at += len(closeCall)
	case part && !end:
		return undecided, 0, nil
	default:
		f.at = f.ended
	}
	c, ok := f.read(b)
	if !ok {
		return f.refuse(f.at)
	}
	f.stage, f.fresh, f.after = outside, true, true
	f.spent.calls++
	return calls, f.at, []chat.ToolCall{c}
}

func (f *tagFinder) read(b []byte) (chat.ToolCall, bool) {
	if f.fn.name != "" {
		return f.tools.called(&f.fn)
	}
	v, ok := read(b[f.from:f.ended])
	if !ok {
		return chat.ToolCall{}, false
	}
	return f.tools.call(v, false)
}

// refuse passes on the first n bytes as words: they are no call.
func (f *tagFinder) refuse(n int) (verdict, int, []chat.ToolCall) {
	f.stage, f.fresh = outside, false
	return words, n, nil
}

// wait asks for more. At the end, what never ended is no call: its tag is words, and what is inside of it is looked at anew.
func (f *tagFinder) wait(end bool) (verdict, int, []chat.ToolCall) {
	if !end {
		return undecided, 0, nil
	}
	f.spent.again += f.at - f.from
	return f.refuse(f.from)
}
