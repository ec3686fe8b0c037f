// Package transcript shows a request of any dialect as turns, texts and tools at their places in its JSON document, and changes them there. Layers use
// it: what they do not change keeps its bytes, and what they change reaches providers of every dialect.
package transcript

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Kind is what a text is in the conversation.
type Kind uint8

// The kinds.
const (
	System     Kind = iota // of the system prompt, or of a system message between turns
	User                   // by the user
	Assistant              // by the model
	Thinking               // the model's reasoning, which may be signed by its provider
	Arguments              // of a tool call
	Result                 // of a tool call
	Document               // a document or a search result in a turn
	Definition             // description and schema of a tool
	Other                  // anything else: the label of a user, the schema of an answer, parts that only one provider knows
)

var kinds = [...]string{"system", "user", "assistant", "thinking", "arguments", "result", "document", "definition", "other"}

// String is the kind's name.
func (k Kind) String() string { return kinds[k] }

// Text is a text of the request.
type Text struct {
	Kind  Kind
	Turn  int         // index in Transcript.Turns; -1 for a text outside of the turns
	Value jsonx.Value // a string; of Arguments and Results also an object or array, whose strings are the text
	JSON  bool        // the string holds JSON, as arguments do in OpenAI's formats
	Call  string      // of Arguments and Results: the id of the call; where the format has none, its tool
	Seal  bool        // of Thinking: the string is what the gateway sealed; the text is what is in it
	Own   bool        // of Results: of a tool that the provider defines and the client runs, whose form only the provider knows
}

// Turn is a message, or an item of the Responses API.
type Turn struct {
	Role   chat.Role
	Value  jsonx.Value
	Calls  []Call   // tool calls that it makes
	Answer []string // ids of the calls whose results it has
	First  int      // its texts are Texts[First:End]
	End    int
	Marked bool // it has a cache mark
	Opaque bool // it has more than texts, calls and results: media, or a part that only one provider knows

	list  int // index in Transcript.lists; -1 if it is not an element of an array
	index int // in its array
}

// Call is a tool call. ID is empty in formats without ids.
type Call struct {
	ID, Name string

	name, args jsonx.Value // where they stand; args may be absent, or a string with JSON
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

	Media  int    // pictures, sound and files: members that are not looked into
	Tokens string // the member that is given as tokens or vectors, in the place of text; "" for none

	req     *chat.Request
	doc     jsonx.Doc // the request's document with the gateway's edits
	edits   jsonx.Edits
	lists   []jsonx.Value // arrays of turns and of tools
	names   []jsonx.Value // names of tools in results
	removed []place
	dropped []string // top-level members
	changed bool

	members []member // of the objects that are being read
	strs    []string // of Texts, as far as String was asked for them
}

// place is an element of one of the arrays.
type place struct{ list, index int }

// Of reads a request. The error is that the document cannot be read, which does not happen for a decoded request.
func Of(r *chat.Request) (*Transcript, error) {
	t := &Transcript{req: r, doc: r.Doc}
	if !r.Edit.Empty() {
		doc, err := jsonx.Scan(r.Edit.AppendTo(make([]byte, 0, r.Edit.Len(&r.Doc)), &r.Doc))
		if err != nil {
			return nil, err
		}
		t.doc = doc
	}
	n := len(t.doc.Bytes) / typicalTurn
	t.Turns, t.Texts = make([]Turn, 0, n), make([]Text, 0, n)
	t.read(r.Dialect)
	return t, nil
}

// typicalTurn is how many bytes a turn of a long conversation often has.
const typicalTurn = 2 << 10

// Is reports whether the transcript is that of a request, unchanged since.
func (t *Transcript) Is(r *chat.Request) bool { return t.req == r && !t.changed }

// Doc is the document that all places refer to.
func (t *Transcript) Doc() *jsonx.Doc { return &t.doc }

// String is the text at an index; of an object or array, and of a string with JSON, its JSON.
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

// unsealed is the thinking that the gateway has sealed; of anything else, a part without a text.
func unsealed(text string) chat.Part {
	p, ours, err := wire.Unseal(text, "")
	if !ours || err != nil {
		return chat.Part{}
	}
	return p
}

// Size is the length of a turn in the document, in bytes.
func (t *Transcript) Size(turn int) int { return len(t.Turns[turn].Value.Raw) }

// Set replaces the text at an index, which must be a string.
func (t *Transcript) Set(i int, text string) {
	if t.Texts[i].Seal {
		was, _ := t.Texts[i].Value.Str()
		p := unsealed(was)
		p.Text = text
		text = string(wire.Seal(&p))
	}
	t.Replace(t.Texts[i].Value, jsonx.AppendString(nil, text))
}

// Replace replaces a value of the document by other JSON. Later replacements win over earlier ones inside of them.
func (t *Transcript) Replace(v jsonx.Value, raw jsonx.Raw) {
	t.changed = true
	t.edits.Replace(v.At, v.At+len(v.Raw), raw)
}

// Edit passes the strings of the text at an index to edit, which returns what they become and whether they change: the text itself, or the strings inside
// of an object, an array, or a string that holds JSON, names of members included. Long numbers there are passed, too, and become strings where they change: a
// number may be a card's.
func (t *Transcript) Edit(i int, edit func(s string) (string, bool)) { t.EditFrom(i, LongNumber, edit) }

// EditFrom is Edit, and passes whole numbers of so many digits or more, too.
func (t *Transcript) EditFrom(i, digits int, edit func(s string) (string, bool)) {
	at := &t.Texts[i]
	if at.Value.Kind() == jsonx.String {
		in := edit
		if at.JSON {
			in = func(s string) (string, bool) { return EditInner(s, digits, edit) }
		}
		if again, changed := in(t.String(i)); changed {
			t.Set(i, again)
		}
		return
	}
	for v := range at.Value.Scalars {
		s, ok := textOf(v, digits)
		if !ok {
			continue
		}
		if again, changed := edit(s); changed {
			t.Replace(v, jsonx.AppendString(nil, again))
		}
	}
}

// LongNumber is how many digits a number must have to be looked at.
const LongNumber = 9

// textOf is a string, a long number, or a whole number of so many digits or more.
func textOf(v jsonx.Value, digits int) (string, bool) {
	if v.Kind() != jsonx.Number {
		return v.Str()
	}
	whole := !slices.ContainsFunc(v.Raw, func(c byte) bool { return c < '0' || c > '9' })
	return string(v.Raw), len(v.Raw) >= LongNumber || whole && len(v.Raw) >= digits
}

// EditInner passes the strings of JSON in a text to edit, and whole numbers of so many digits or more, as EditFrom does; a text that is no JSON is passed as
// it is.
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
		if again, changed := edit(was); changed {
			out = jsonx.AppendString(append(out, text[end:s.At]...), again)
			end = s.At + len(s.Raw)
		}
	}
	return string(append(out, text[end:]...)), end > 0
}

// Removable reports whether a turn can be removed: the system prompt of some formats, and an input that is a string, cannot.
func (t *Transcript) Removable(turn int) bool { return t.Turns[turn].list >= 0 }

// Remove removes a turn. The caller keeps calls and results together.
func (t *Transcript) Remove(turn int) { t.remove(t.Turns[turn].list, t.Turns[turn].index) }

// RemoveTool removes a tool.
func (t *Transcript) RemoveTool(tool int) { t.remove(t.Tools[tool].list, t.Tools[tool].index) }

// Drop removes a top-level member, with all that is in it; it is no error if there is none.
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

// Request returns the changed request; the same one without changes. The error is that a change made the document invalid.
func (t *Transcript) Request() (*chat.Request, error) {
	if !t.changed {
		return t.req, nil
	}
	for i, list := range t.lists {
		gone := map[int]bool{}
		for _, p := range t.removed {
			if p.list == i {
				gone[p.index] = true
			}
		}
		if len(gone) > 0 {
			t.edits.RemoveElements(list, func(i int) bool { return gone[i] })
		}
	}
	for _, member := range t.dropped {
		t.edits.Delete(&t.doc, member)
	}
	doc, err := jsonx.Scan(t.edits.AppendTo(make([]byte, 0, t.edits.Len(&t.doc)), &t.doc))
	if err != nil {
		return nil, err
	}
	again := *t.req
	again.Doc, again.Edit, again.Conv = doc, jsonx.Edits{}, nil
	if again.Renew != nil {
		return &again, again.Renew(&again)
	}
	again.InputTokens, again.MaxInput = wire.InputTokens(doc.Stats), wire.MaxInputTokens(&doc)
	return &again, nil
}
