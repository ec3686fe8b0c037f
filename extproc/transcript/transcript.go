// Package transcript presents a request of any dialect as turns, texts and tools with their positions in its JSON document, and edits them
// in place. Layers use it: what they do not change keeps its bytes, and their changes reach providers of every dialect.
package transcript

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Kind is the role of a text in the conversation.
type Kind uint8

// The kinds.
const (
	System     Kind = iota // the system prompt, or a system message between turns
	User                   // text of the user
	Assistant              // text of the model
	Thinking               // the model's reasoning, which may be signed by its provider
	Arguments              // arguments of a tool call
	Result                 // result of a tool call
	Document               // a document or a search result in a turn
	Definition             // description and schema of a tool
	Other                  // anything else: the name of a user, the schema of an answer, parts that only one provider knows
)

var kinds = [...]string{"system", "user", "assistant", "thinking", "arguments", "result", "document", "definition", "other"}

// String is the kind's name.
func (k Kind) String() string { return kinds[k] }

// Text is a text of the request.
type Text struct {
	Kind            Kind
	Turn            int         // index in Transcript.Turns; -1 for a text outside of the turns
	Value           jsonx.Value // a string; of Arguments and Results also an object or array, whose strings are the text
	JSON            bool        // the string holds JSON, as arguments do in OpenAI's formats
	Call            string      // of Arguments and Results: the id of the call; the name of its tool in formats without ids
	Seal            bool        // of Thinking: the string is sealed by the gateway (wire.Seal); the text is the unsealed thinking
	ProviderDefined bool        // of Results: the tool is defined by the provider and run by the client, so that only the provider knows the form of the result
}

// Turn is a message, or an item of the Responses API.
type Turn struct {
	Role    chat.Role
	Value   jsonx.Value
	Calls   []Call   // tool calls in it
	Answers []string // ids of the calls that it answers
	First   int      // its texts are Texts[First:End]
	End     int
	Marked  bool // it has a cache mark
	Opaque  bool // it has more than texts, calls and results: media, or a part that only one provider knows

	list  int // index in Transcript.lists; -1 if it is not an element of an array
	index int // index in its array
}

// Call is a tool call. ID is empty in formats without ids.
type Call struct {
	ID, Name string

	name, args jsonx.Value // positions; args may be absent, or a string with JSON
}

// Tool is a tool that the request offers.
type Tool struct {
	Name        string // empty for a tool of a provider's own type without a name
	Value       jsonx.Value
	Description jsonx.Value // a string; it may be absent
	Schema      jsonx.Value // of the arguments; it may be absent
	Marked      bool        // it has a cache mark
	Builtin     bool        // of a type that only its provider knows

	list, index int
}

// Transcript is a request's turns, texts and tools. Not safe for concurrent use.
type Transcript struct {
	Turns []Turn // in the request's order; system prompts are turns, too
	Texts []Text // in the document's order within a turn
	Tools []Tool

	Media  int    // images, audio and files; their content is not read
	Tokens string // the member whose value is tokens or vectors instead of text; "" for none

	req     *chat.Request
	doc     jsonx.Doc // the request's document with the gateway's edits
	edits   jsonx.Edits
	lists   []jsonx.Value // arrays of turns and of tools
	names   []jsonx.Value // names of tools in results
	removed []place
	dropped []string // removed top-level members
	changed bool

	members []member // of the objects that are being read
	strs    []string // results of String, by index in Texts; "" until requested
}

// place is an element of one of the arrays.
type place struct{ list, index int }

// Of reads a request. It returns an error if the document cannot be parsed, which does not happen for a decoded request.
func Of(r *chat.Request) (*Transcript, error) {
	t := &Transcript{req: r, doc: r.Doc}
	if !r.Edit.Empty() {
		doc, err := jsonx.Scan(r.Edit.AppendTo(make([]byte, 0, r.Edit.Len(&r.Doc)), &r.Doc))
		if err != nil {
			return nil, err
		}
		t.doc = doc
	}
	n := t.mayHold()
	t.Turns, t.Texts = make([]Turn, 0, n), make([]Text, 0, n)
	t.read(r.Dialect)
	return t, nil
}

// mayHold estimates the number of turns: the elements of the arrays in the document, but not more than one in 256 bytes, since elements may be tokens.
func (t *Transcript) mayHold() (n int) {
	for i := range t.doc.Members {
		n += t.doc.Members[i].Len
	}
	return min(n, len(t.doc.Bytes)>>8)
}

// Is reports whether the transcript was read from r and has not been changed since.
func (t *Transcript) Is(r *chat.Request) bool { return t.req == r && !t.changed }

// Doc is the document to which all positions refer.
func (t *Transcript) Doc() *jsonx.Doc { return &t.doc }

// String returns the text at an index; for an object, an array, or a string with JSON, its JSON.
func (t *Transcript) String(i int) string {
	if len(t.strs) < len(t.Texts) {
		t.strs = make([]string, len(t.Texts))
	}
	if t.strs[i] == "" {
		v := t.Texts[i].Value
		s, ok := v.Str()
		switch {
		case !ok:
			s = string(v.Raw)
		case t.Texts[i].Seal:
			s = unsealed(s).Text
		}
		t.strs[i] = s
	}
	return t.strs[i]
}

// unsealed returns the thinking in a sealed text; for any other text, a part without text.
func unsealed(text string) chat.Part {
	p, ours, err := wire.Unseal(text, "")
	if !ours || err != nil {
		return chat.Part{}
	}
	return p
}

// Size returns the length of a turn in the document, in bytes.
func (t *Transcript) Size(turn int) int { return len(t.Turns[turn].Value.Raw) }

// Set replaces the text at index i, which must be a string.
func (t *Transcript) Set(i int, text string) {
	if t.Texts[i].Seal {
		was, _ := t.Texts[i].Value.Str()
		p := unsealed(was)
		p.Text = text
		text = string(wire.Seal(&p))
	}
	t.Replace(t.Texts[i].Value, jsonx.AppendString(nil, text))
}

// Replace replaces a value of the document by other JSON. A later replacement overrides earlier ones inside it.
func (t *Transcript) Replace(v jsonx.Value, raw jsonx.Raw) {
	t.changed = true
	t.edits.Replace(v.At, v.At+len(v.Raw), raw)
}

// Edit calls edit for each string of the text at index i: the text itself, or the strings (member names included) in an object, an array,
// or a string that holds JSON. edit returns the new string and whether it changed. Numbers of LongNumber or more characters in JSON are
// passed as well, because they may be card numbers; a changed number becomes a string.
func (t *Transcript) Edit(i int, edit func(s string) (string, bool)) { t.EditFrom(i, LongNumber, edit) }

// EditFrom is Edit, and also passes integers with at least the given number of digits.
func (t *Transcript) EditFrom(i, digits int, edit func(s string) (string, bool)) {
	at := &t.Texts[i]
	if at.Value.Kind() == jsonx.String {
		in := edit
		if at.JSON {
			in = func(s string) (string, bool) { return EditInner(s, digits, edit) }
		}
		if edited, changed := in(t.String(i)); changed {
			t.Set(i, edited)
		}
		return
	}
	for v := range at.Value.Scalars {
		s, ok := textOf(v, digits)
		if !ok {
			continue
		}
		if edited, changed := edit(s); changed {
			t.Replace(v, jsonx.AppendString(nil, edited))
		}
	}
}

// LongNumber is the minimum length of a number that Edit passes.
const LongNumber = 9

// textOf returns a string, a long number, or an integer with at least the given number of digits.
func textOf(v jsonx.Value, digits int) (string, bool) {
	if v.Kind() != jsonx.Number {
		return v.Str()
	}
	whole := !slices.ContainsFunc(v.Raw, func(c byte) bool { return c < '0' || c > '9' })
	return string(v.Raw), len(v.Raw) >= LongNumber || whole && len(v.Raw) >= digits
}

// EditInner calls edit for the strings and numbers of a JSON text, as EditFrom does; a text that is not JSON is passed as a whole.
func EditInner(text string, digits int, edit func(s string) (string, bool)) (string, bool) {
	v, err := jsonx.Parse([]byte(text))
	if err != nil {
		return edit(text)
	}
	var out []byte
	end := 0
	for s := range v.Scalars {
		was, ok := textOf(s, digits)
		if !ok {
			continue
		}
		if edited, changed := edit(was); changed {
			out = jsonx.AppendString(append(out, text[end:s.At]...), edited)
			end = s.At + len(s.Raw)
		}
	}
	return string(append(out, text[end:]...)), end > 0
}

// Removable reports whether a turn can be removed: false for the system prompt of some formats, and for an input that is a string.
func (t *Transcript) Removable(turn int) bool { return t.Turns[turn].list >= 0 }

// Remove removes a turn. The caller must keep calls and their results together.
func (t *Transcript) Remove(turn int) { t.remove(t.Turns[turn].list, t.Turns[turn].index) }

// RemoveTool removes a tool.
func (t *Transcript) RemoveTool(tool int) { t.remove(t.Tools[tool].list, t.Tools[tool].index) }

// Drop removes a top-level member; a missing one is not an error.
func (t *Transcript) Drop(member string) {
	if t.doc.Find(member) >= 0 {
		t.changed, t.dropped = true, append(t.dropped, member)
	}
}

func (t *Transcript) remove(list, index int) {
	if list >= 0 {
		t.changed = true
		t.removed = append(t.removed, place{list, index})
	}
}

// Request returns the changed request, or the original one if there are no changes. It returns an error if a change made the document
// invalid.
func (t *Transcript) Request() (*chat.Request, error) {
	if !t.changed {
		return t.req, nil
	}
	for i, list := range t.lists {
		removed := map[int]bool{}
		for _, p := range t.removed {
			if p.list == i {
				removed[p.index] = true
			}
		}
		if len(removed) > 0 {
			t.edits.RemoveElements(list, func(i int) bool { return removed[i] })
		}
	}
	for _, member := range t.dropped {
		t.edits.Delete(&t.doc, member)
	}
	doc, err := jsonx.Scan(t.edits.AppendTo(make([]byte, 0, t.edits.Len(&t.doc)), &t.doc))
	if err != nil {
		return nil, err
	}
	out := *t.req
	out.Doc, out.Edit, out.Conv = doc, jsonx.Edits{}, nil
	if out.Renew != nil {
		return &out, out.Renew(&out)
	}
	out.InputTokens, out.MaxInput = wire.InputTokens(doc.Stats), wire.MaxInputTokens(&doc)
	return &out, nil
}
