package align

import (
	"hash/maphash"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// class is a client's declaration about a block.
type class int

const (
	static class = iota
	unflagged
	volatile
)

// content is a content of the system prompt: a string, or an array of blocks.
type content struct {
	turn  int         // as in chat.Flag; -1 if it can have no flag
	value jsonx.Value // the content
	outer jsonx.Value // the message or member around it
}

// contentsOf is the system prompt of a request, in the order in which a model reads it.
func contentsOf(d chat.Dialect, doc *jsonx.Doc) (out []content) {
	switch d {
	case chat.Anthropic:
		v := doc.Get("system")
		return []content{{0, v, v}}
	case chat.Gemini:
		v := doc.Get("systemInstruction")
		if !v.Exists() {
			v = doc.Get("system_instruction")
		}
		return []content{{0, v.Get("parts"), v}}
	case chat.Responses:
		v := doc.Get("instructions")
		out = append(out, content{-1, v, v})
	case chat.OpenAI, chat.Completions, chat.Embeddings:
	}
	for i, m := range listOf(d, doc).Each {
		if role := m.Get("role"); !role.Equal("system") && !role.Equal("developer") {
			break
		}
		out = append(out, content{i, m.Get("content"), m})
	}
	return out
}

// listOf is the messages or items, in formats whose system prompt is among them.
func listOf(d chat.Dialect, doc *jsonx.Doc) jsonx.Value {
	if d == chat.Responses {
		return doc.Get("input")
	}
	return doc.Get("messages")
}

// turnsOf is the messages of a request after the system prompt.
func turnsOf(doc *jsonx.Doc) (turns []jsonx.Value) {
	for _, key := range [...]string{"messages", "contents", "input"} {
		i := doc.Find(key)
		if i < 0 {
			continue
		}
		turns = slices.Grow(turns, doc.Members[i].Len)
		for _, m := range doc.Value(i).Each {
			if len(turns) > 0 || !isPrompt(m) {
				turns = append(turns, m)
			}
		}
	}
	return turns
}

// isPrompt reports whether a message is one of the system prompt.
func isPrompt(m jsonx.Value) bool {
	role := m.Get("role")
	return role.Equal("system") || role.Equal("developer")
}

// flags are the classes of blocks and messages.
type flags map[[2]int]class

func flagsOf(r *chat.Request) flags {
	f := flags{}
	for _, flag := range r.Flags {
		c := static
		if flag.Volatile {
			c = volatile
		}
		f[[2]int{flag.Turn, flag.Part}] = c
	}
	return f
}

// at is the class of a block: its own, or that of its message.
func (f flags) at(turn, part int) class {
	if c, ok := f[[2]int{turn, part}]; ok {
		return c
	}
	if c, ok := f[[2]int{turn, -1}]; ok {
		return c
	}
	return unflagged
}

// unit is a line of the system prompt, or a sentence of a longer one.
type unit struct {
	text   string
	hash   uint64
	end    int  // bytes of the prompt up to its end
	static bool // as declared by the client
}

// prompt is the system prompt up to its first volatile block, in units.
type prompt struct {
	units    []unit
	opening  string // its first bytes, at most openingSize
	volatile bool   // it is followed by a volatile block
	hasTools bool
}

const (
	maxUnits    = 512 // the last one has all the rest
	openingSize = 64
)

var seed = maphash.MakeSeed()

func promptOf(r *chat.Request) (p prompt) {
	f := flagsOf(r)
	p.hasTools = r.Doc.Get("tools").Exists()
	for _, c := range contentsOf(r.Dialect, &r.Doc) {
		if s, ok := c.value.Str(); ok {
			p.add(s, f.at(c.turn, -1))
			continue
		}
		for i, b := range c.value.Each {
			s, _ := b.Get("text").Str()
			p.add(s, f.at(c.turn, i))
		}
	}
	return p
}

// changing is the first unit that plainly changes between requests; len(units) if none does.
func (p *prompt) changing() int {
	for i := range p.units {
		if u := &p.units[i]; !u.static && plainlyChanges(u.text) {
			return i
		}
	}
	return len(p.units)
}

// sum is a hash of the prompt.
func (p *prompt) sum() (sum uint64) {
	for i := range p.units {
		sum = sum*31 + p.units[i].hash
	}
	return sum
}

// add adds a text.
func (p *prompt) add(text string, c class) {
	if p.volatile = p.volatile || c == volatile; p.volatile || text == "" {
		return
	}
	if p.opening == "" {
		p.opening = text[:min(len(text), openingSize)]
	}
	line := 0 // bytes left of a long line
	for len(text) > 0 {
		n := lineLength(text)
		if line == 0 && n >= longLine {
			line = n
		}
		if line > 0 {
			n = sentenceLength(text[:line])
			line -= n
		}
		if len(p.units) >= maxUnits-1 {
			n = len(text)
		}
		p.units = append(p.units, unit{text[:n], maphash.String(seed, text[:n]), p.bytesBefore() + n, c == static})
		text = text[n:]
	}
	p.units[len(p.units)-1].hash ^= 1 // marks the end of a block
}

func (p *prompt) bytesBefore() int {
	if n := len(p.units); n > 0 {
		return p.units[n-1].end
	}
	return 0
}

// longLine is the size from which a line is divided into sentences.
const longLine = 256

// lineLength is the length of the first line of a text, with its end.
func lineLength(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return len(text)
}

// sentenceLength is the length of the first sentence of a line, with the space after it.
func sentenceLength(line string) int {
	const end = ". "
	if i := strings.Index(line, end); i >= 0 {
		return i + len(end)
	}
	return len(line)
}

// bytes is the size of the first n units, as in chat.CachePlan.
func (p *prompt) bytes(n int) int {
	switch {
	case n <= 0 || len(p.units) == 0:
		return 0
	case n >= len(p.units) && !p.volatile:
		return chat.WholePrompt
	}
	return p.units[min(n, len(p.units))-1].end
}
