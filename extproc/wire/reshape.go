package wire

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// What the dialects do alike when they shape a request.

// Reshape is a request whose document a dialect changes by a shape. The edits that the request already carries are applied to the document
// first. Not safe for concurrent use.
type Reshape struct {
	Patch
	Shape *Shape
	req   *chat.Request
	named bool // the shape names the schema of the parsed conversation
}

// ShapeWriter writes the parts of a shape into a document, in the members of one dialect. It does nothing where the shape has no such part.
type ShapeWriter interface {
	Format() // the schema, or its removal
	Tool()
	Choice()
	Guide()
	Turns()
}

// ApplyShape changes a copy of req by s, with the writer that a dialect makes for it. The error is a fault.
func ApplyShape(req *chat.Request, s *Shape, writer func(*Reshape) ShapeWriter) (*chat.Request, error) {
	r, err := newReshape(req, s)
	if err != nil {
		return nil, err
	}
	w := writer(r)
	if !s.Same(req) {
		w.Format()
	}
	w.Tool()
	w.Choice()
	w.Guide()
	w.Turns()
	return r.request()
}

func newReshape(req *chat.Request, s *Shape) (*Reshape, error) {
	doc := req.Doc
	if !req.Edit.Empty() {
		var err error
		if doc, err = jsonx.Scan(req.Edit.AppendTo(make([]byte, 0, req.Edit.Len(&req.Doc)), &req.Doc)); err != nil {
			return nil, err
		}
	}
	return &Reshape{Patch: Patch{Edits: &jsonx.Edits{}, Doc: &doc}, Shape: s, req: req}, nil
}

// request returns the changed request, whose conversation is not parsed yet. The error is a fault.
func (r *Reshape) request() (*chat.Request, error) {
	doc := *r.Doc
	if !r.Edits.Empty() {
		var err error
		if doc, err = jsonx.Scan(r.Edits.AppendTo(make([]byte, 0, r.Edits.Len(r.Doc)), r.Doc)); err != nil {
			return nil, err
		}
	}
	again := *r.req
	again.Doc, again.Edit, again.Conv = doc, jsonx.Edits{}, nil
	if r.named {
		again.Read = r.Shape.name(r.req.Read)
	}
	again.InputTokens = max(again.InputTokens, InputTokens(doc.Stats))
	again.MostInput = max(again.MostInput, MostInputTokens(&doc))
	return &again, nil
}

// NameSchema puts the name and the note of the schema into the parsed conversation, for dialects that have no members for them.
func (r *Reshape) NameSchema() { r.named = len(r.Shape.Schema) > 0 }

// name adds the schema's name and note to what read parses.
func (s *Shape) name(read chat.ConversationFor) chat.ConversationFor {
	return func(r *chat.Request) (*chat.Conversation, error) {
		c, err := read(r)
		if err == nil && len(c.Params.Schema) > 0 {
			c.Params.SchemaName, c.Params.SchemaNote = s.Name, s.Note
		}
		return c, err
	}
}

// Same reports whether the client's own format stays: it asks for the shape's schema already.
func (s *Shape) Same(req *chat.Request) bool {
	if s.KeepForm {
		return true
	}
	own, name := SchemaOf(req)
	return len(s.Schema) > 0 && bytes.Equal(own, s.Schema) && (s.Name == "" || name == s.Name || name == "")
}

// constrains reports whether the shape asks for a format, by any of its means.
func (s *Shape) constrains() bool { return len(s.Schema) > 0 || s.Tool != nil || s.Guide != "" }

// TextTurn is a message of text behind those of a request.
type TextTurn struct {
	Assistant bool
	Text      string
}

// TextTurns are the messages that the shape appends. Empty ones are left out, and consecutive ones of one role are joined.
func (s *Shape) TextTurns() []TextTurn {
	var turns []TextTurn
	for i := range s.Say {
		m := &s.Say[i]
		text := textsOf(m.Parts)
		assistant := m.Role == chat.RoleAssistant
		n := len(turns)
		switch {
		case strings.TrimSpace(text) == "":
		case n > 0 && turns[n-1].Assistant == assistant:
			turns[n-1].Text += "\n\n" + text
		default:
			turns = append(turns, TextTurn{assistant, text})
		}
	}
	return turns
}

// AlternatingTurns are TextTurns for formats that end with a turn of the user's: one is added behind an assistant's. assistant says that the
// request itself ends with the assistant.
func (s *Shape) AlternatingTurns(assistant bool) []TextTurn {
	turns := s.TextTurns()
	if n := len(turns); n > 0 && turns[n-1].Assistant || n == 0 && assistant && s.constrains() {
		turns = append(turns, TextTurn{Text: Proceed().Parts[0].Text})
	}
	return turns
}

// Messages are turns as objects of role and content, with commas between them; nil for none.
func Messages(turns []TextTurn) []byte {
	var b []byte
	for i, turn := range turns {
		if i > 0 {
			b = append(b, ',')
		}
		role := "user"
		if turn.Assistant {
			role = "assistant"
		}
		b = append(jsonx.AppendString(append(append(append(b, `{"role":"`...), role...), `","content":`...), turn.Text), '}')
	}
	return b
}

func textsOf(parts []chat.Part) string {
	var texts []string
	for i := range parts {
		if parts[i].Kind == chat.PartText && parts[i].Text != "" {
			texts = append(texts, parts[i].Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// Add puts an element at the end of an array inside the document.
func (p Patch) Add(array jsonx.Value, element []byte) {
	at := array.At + 1
	some := false
	for _, e := range array.Each {
		at, some = e.At+len(e.Raw), true
	}
	if some {
		element = append([]byte{','}, element...)
	}
	p.Insert(at, element)
}

// Append adds an element to the array at a top-level key, which is created if there is none.
func (p Patch) Append(key string, element []byte) {
	if list := p.Doc.Get(key); list.Kind() == jsonx.Array {
		p.Add(list, element)
		return
	}
	p.Edits.Set(p.Doc, key, append(append([]byte{'['}, element...), ']'))
}

// DeleteMembers deletes members of the object at a top-level key, and the object if none is left.
func (p Patch) DeleteMembers(key string, drop func(member string) bool) {
	rest := WithMembers(p.Doc.Get(key), drop)
	if IsEmpty(jsonx.Value{Raw: rest}) {
		p.Edits.Delete(p.Doc, key)
		return
	}
	p.Edits.Set(p.Doc, key, rest)
}

// Extend puts text behind a value. An insertion there would stand behind what is added to the document, where the value is its last.
func (p Patch) Extend(v jsonx.Value, text []byte) {
	end := v.At + len(v.Raw)
	p.Edits.Replace(end-1, end, append([]byte{v.Raw[len(v.Raw)-1]}, text...))
}

// Follow puts words behind a content, which is a text or blocks of it; false if it is neither, or says nothing. between is what stands
// between two texts, and block makes a block of one.
func (p Patch) Follow(content jsonx.Value, words, between string, block func(text string) []byte) bool {
	switch {
	case IsEmpty(content):
		return false
	case content.Kind() == jsonx.String:
		p.Insert(content.At+len(content.Raw)-1, jsonx.AppendEscaped(nil, between+words))
	case content.Kind() == jsonx.Array:
		p.Add(content, block(words))
	default:
		return false
	}
	return true
}

// TextBlock is a block of text as most formats have it.
func TextBlock(text string) []byte {
	return append(jsonx.AppendString([]byte(`{"type":"text","text":`), text), '}')
}

// Member is a member of an object: its key and its JSON.
type Member struct {
	Key  string
	JSON []byte
}

// WithMembers is an object with some members set, behind those that it keeps, whose bytes stay as they are; those that are set in place
// keep their place. gone reports which are taken out.
func WithMembers(object jsonx.Value, gone func(key string) bool, set ...Member) []byte {
	raw := object.Raw
	if object.Kind() != jsonx.Object {
		raw = jsonx.Raw("{}")
		object = jsonx.Value{Raw: raw}
	}
	out := append(make([]byte, 0, len(raw)+64), '{')
	written := make([]bool, len(set))
	first, end := true, 1
	for key, v := range object.Members {
		start := end
		end = v.At - object.At + len(v.Raw)
		if gone != nil && gone(string(key)) {
			continue
		}
		lead := raw[start : end-len(v.Raw)] // the comma, the key and the colon
		if first && start > 1 {
			lead = bytes.TrimPrefix(bytes.TrimLeft(lead, " \t\r\n"), []byte(","))
		}
		out, first = append(out, lead...), false
		value := []byte(v.Raw)
		for i := range set {
			if set[i].Key == string(key) {
				value, written[i] = set[i].JSON, true
			}
		}
		out = append(out, value...)
	}
	for i := range set {
		if written[i] {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(jsonx.AppendString(out, set[i].Key), ':'), set[i].JSON...)
	}
	return append(out, raw[end:]...)
}
