package modality

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/internal/jsonx"
)

// Texts are the request's texts as a document of their own, which layers read: the members of its JSON that may hold any, or the fields of its form by their
// places. Pictures and recordings are not in it: see Files.
func (r *Request) Texts() (jsonx.Doc, error) {
	b := []byte{'{'}
	add := func(key string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(jsonx.AppendString(b, key), ':'), value...)
	}
	if r.form != nil {
		for i := range r.form.Parts {
			if p := &r.form.Parts[i]; p.Filename == "" && p.Name != "model" {
				add(field(i), jsonx.AppendString(nil, p.Content))
			}
		}
	}
	for i := range r.Doc.Members {
		m := &r.Doc.Members[i]
		if holds := m.Kind == jsonx.String || m.Kind == jsonx.Array || m.Kind == jsonx.Object; holds && m.Key != "model" && r.isText(m.Key) {
			add(m.Key, r.Doc.Bytes[m.Start:m.End])
		}
	}
	return jsonx.Scan(append(b, '}'))
}

// field is the name, among the texts, of a form's field.
func field(part int) string { return "field " + strconv.Itoa(part) }

// Files is how many members, or parts of a form, hold pictures or recordings.
func (r *Request) Files() (n int) {
	if r.form == nil {
		for _, member := range [...]string{"image", "images", "mask"} {
			if !r.Doc.Get(member).IsNull() {
				n++
			}
		}
		return n
	}
	for i := range r.form.Parts {
		if r.form.Parts[i].Filename != "" {
			n++
		}
	}
	return n
}

// WithTexts is the request with other texts than those that Texts returned.
func (r *Request) WithTexts(were, are *jsonx.Doc) (*Request, error) {
	if r.form != nil {
		return r.withFields(were, are)
	}
	var e jsonx.Edits
	for i := range are.Members {
		key := are.Members[i].Key
		if v := are.Get(key); !bytes.Equal(v.Raw, were.Get(key).Raw) {
			e.Set(&r.Doc, key, v.Raw)
		}
	}
	return Parse(r.Op, r.ContentType, e.AppendTo(nil, &r.Doc))
}

func (r *Request) withFields(were, are *jsonx.Doc) (_ *Request, err error) {
	for i := range r.form.Parts {
		v := are.Get(field(i))
		text, ok := v.Str()
		if !ok || bytes.Equal(v.Raw, were.Get(field(i)).Raw) {
			continue
		}
		if r, err = Parse(r.Op, r.ContentType, r.form.Replace(&r.form.Parts[i], text)); err != nil {
			return nil, err
		}
	}
	return r, nil
}
