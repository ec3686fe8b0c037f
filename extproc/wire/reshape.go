package wire

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// The common part of the dialects' implementations of Shape.

// Reshape is a request's document, to which a dialect applies a Shape. The edits that the request already has are applied first. Not safe
// for concurrent use.
type Reshape struct {
	Patch
	Shape *Shape
	req   *chat.Request
	named bool // put the shape's schema name into the parsed conversation
}

// ShapeWriter writes the parts of a shape into a document of one dialect. A method does nothing if the shape lacks its part.
type ShapeWriter interface {
	Format() // sets the schema, or removes the client's format
	Tool()
	Choice()
	Guide()
	Turns()
}

// ApplyShape returns a copy of req changed by s; writer returns the ShapeWriter of a dialect. The error is a fault.
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

// request returns the changed request. Its conversation is not parsed yet. The error is a fault.
func (r *Reshape) request() (*chat.Request, error) {
	doc := *r.Doc
	if !r.Edits.Empty() {
		var err error
		if doc, err = jsonx.Scan(r.Edits.AppendTo(make([]byte, 0, r.Edits.Len(r.Doc)), r.Doc)); err != nil {
			return nil, err
		}
	}
	reshaped := *r.req
	reshaped.Doc, reshaped.Edit, reshaped.Conv = doc, jsonx.Edits{}, nil
	if r.named {
		reshaped.Read = r.Shape.name(r.req.Read)
	}
	reshaped.InputTokens = max(reshaped.InputTokens, InputTokens(doc.Stats))
	reshaped.MaxInput = max(reshaped.MaxInput, MaxInputTokens(&doc))
	return &reshaped, nil
}

// NameSchema puts the schema's name and note into the parsed conversation, for dialects without members for them.
func (r *Reshape) NameSchema() { r.named = len(r.Shape.Schema) > 0 }

// name wraps read to add the schema's name and note.
func (s *Shape) name(read chat.ConversationFor) chat.ConversationFor {
	return func(r *chat.Request) (*chat.Conversation, error) {
		c, err := read(r)
		if err == nil && len(c.Params.Schema) > 0 {
			c.Params.SchemaName, c.Params.SchemaNote = s.Name, s.Note
		}
		return c, err
	}
}

// Same reports whether the client's format stays because it already requests the shape's schema.
func (s *Shape) Same(req *chat.Request) bool {
	if s.KeepFormat {
		return true
	}
	own, name := SchemaOf(req)
	return len(s.Schema) > 0 && bytes.Equal(own, s.Schema) && (s.Name == "" || name == s.Name || name == "")
}

// constrains reports whether the shape requests a format by any of its means.
func (s *Shape) constrains() bool { return len(s.Schema) > 0 || s.Tool != nil || s.Guide != "" }

// TextTurn is a text message that is appended to a request's messages.
type TextTurn struct {
	Assistant bool
	Text      string
}

// TextTurns returns the messages that the shape appends. Empty ones are dropped, and consecutive ones of one role are merged.
func (s *Shape) TextTurns() []TextTurn {
	var turns []TextTurn
	for i := range s.Messages {
		m := &s.Messages[i]
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

// AlternatingTurns returns TextTurns for formats that must end with a user turn: one is added after an assistant's. assistant is whether
// the request itself ends with an assistant turn.
func (s *Shape) AlternatingTurns(assistant bool) []TextTurn {
	turns := s.TextTurns()
	if n := len(turns); n > 0 && turns[n-1].Assistant || n == 0 && assistant && s.constrains() {
		turns = append(turns, TextTurn{Text: ContinueTurn().Parts[0].Text})
	}
	return turns
}

// Messages writes turns as objects with role and content, separated by commas; nil for none.
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

// AppendElement adds an element at the end of an array inside the document.
func (p Patch) AppendElement(array jsonx.Value, element []byte) {
	at := array.At + 1
	found := false
	for _, e := range array.Each {
		at, found = e.At+len(e.Raw), true
	}
	if found {
		element = append([]byte{','}, element...)
	}
	p.Insert(at, element)
}

// AppendToMember adds an element to the array at a top-level key, which is created if absent.
func (p Patch) AppendToMember(key string, element []byte) {
	if list := p.Doc.Get(key); list.Kind() == jsonx.Array {
		p.AppendElement(list, element)
		return
	}
	p.Edits.Set(p.Doc, key, append(append([]byte{'['}, element...), ']'))
}

// DeleteMembers deletes members of the object at a top-level key, and the object itself if that leaves it empty.
func (p Patch) DeleteMembers(key string, drop func(member string) bool) {
	rest := WithMembers(p.Doc.Get(key), drop)
	if IsEmpty(jsonx.Value{Raw: rest}) {
		p.Edits.Delete(p.Doc, key)
		return
	}
	p.Edits.Set(p.Doc, key, rest)
}

// AppendAfter adds text after a value. Unlike Insert at the value's end, the text stays before what is added to the document if the value
// is its last.
func (p Patch) AppendAfter(v jsonx.Value, text []byte) {
	end := v.At + len(v.Raw)
	p.Edits.Replace(end-1, end, append([]byte{v.Raw[len(v.Raw)-1]}, text...))
}

// AppendText adds text after content, which is a string or an array of blocks; false if it is neither, or empty. between separates two
// strings, and block formats a block of text.
func (p Patch) AppendText(content jsonx.Value, text, between string, block func(text string) []byte) bool {
	switch {
	case IsEmpty(content):
		return false
	case content.Kind() == jsonx.String:
		p.Insert(content.At+len(content.Raw)-1, jsonx.AppendEscaped(nil, between+text))
	case content.Kind() == jsonx.Array:
		p.AppendElement(content, block(text))
	default:
		return false
	}
	return true
}

// TextBlock returns a block of text as in most formats.
func TextBlock(text string) []byte {
	return append(jsonx.AppendString([]byte(`{"type":"text","text":`), text), '}')
}

// Member is a member of an object: its key and its JSON.
type Member struct {
	Key  string
	JSON []byte
}

// WithMembers returns an object with members set: in place if they exist, else at the end. All other bytes stay. remove reports which
// members to remove; it may be nil.
func WithMembers(object jsonx.Value, remove func(key string) bool, set ...Member) []byte {
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
		if remove != nil && remove(string(key)) {
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
