package wire

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// What the dialects do alike when they shape a request.

// Reshape is a request that is being shaped: its document with the changes that wait for every attempt made, and those of a shape to
// come. Not safe for concurrent use.
type Reshape struct {
	Patch
	req   *chat.Request
	named *Shape
}

// NewReshape begins with a request, which stays as it is. The error is a fault.
func NewReshape(req *chat.Request) (*Reshape, error) {
	doc := req.Doc
	if !req.Edit.Empty() {
		var err error
		if doc, err = jsonx.Scan(req.Edit.AppendTo(make([]byte, 0, req.Edit.Len(&req.Doc)), &req.Doc)); err != nil {
			return nil, err
		}
	}
	return &Reshape{Patch: Patch{Edits: &jsonx.Edits{}, Doc: &doc}, req: req}, nil
}

// Request is the request as it became. Its conversation has to be read anew. The error is a fault.
func (r *Reshape) Request() (*chat.Request, error) {
	doc := *r.Doc
	if !r.Edits.Empty() {
		var err error
		if doc, err = jsonx.Scan(r.Edits.AppendTo(make([]byte, 0, r.Edits.Len(r.Doc)), r.Doc)); err != nil {
			return nil, err
		}
	}
	again := *r.req
	again.Doc, again.Edit, again.Conv = doc, jsonx.Edits{}, nil
	if r.named != nil {
		again.Read = r.named.name(r.req.Read)
	}
	again.InputTokens = max(again.InputTokens, InputTokens(doc.Stats))
	again.MostInput = max(again.MostInput, MostInputTokens(&doc))
	return &again, nil
}

// Name has the conversation say how a shape's schema is called, and what it is for, where the dialect has no words for that and others do.
func (r *Reshape) Name(s *Shape) {
	if len(s.Schema) > 0 {
		r.named = s
	}
}

// name has a conversation that is read say how its schema is called.
func (s *Shape) name(read chat.ConversationFor) chat.ConversationFor {
	return func(r *chat.Request) (*chat.Conversation, error) {
		c, err := read(r)
		if err == nil && len(c.Params.Schema) > 0 {
			c.Params.SchemaName, c.Params.SchemaNote = s.Name, s.Note
		}
		return c, err
	}
}

// Same reports whether what the client says of a form stays as it is: it asks for a shape's schema itself, in words of its own.
func (s *Shape) Same(req *chat.Request) bool {
	if s.KeepForm {
		return true
	}
	own, name := SchemaOf(req)
	return len(s.Schema) > 0 && bytes.Equal(own, s.Schema) && (s.Name == "" || name == s.Name || name == "")
}

// Said is what one side says behind the messages.
type Said struct {
	Assistant bool
	Text      string
}

// Turns are the texts of what is said behind the messages. Sides that say nothing are left out, and a side that speaks twice speaks once.
func (s *Shape) Turns() []Said {
	var turns []Said
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
			turns = append(turns, Said{assistant, text})
		}
	}
	return turns
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
