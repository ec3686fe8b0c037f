package modality

import (
	"bytes"
	"strconv"

	"bardo.money/gateway/internal/jsonx"
)

// Texts returns the request's texts as a separate document, which layers read: the members of its JSON that may hold text, or the fields of its form
// by position. Images and recordings are not in it: see Files.
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

// field returns the name of a form's field in the texts.
func field(part int) string { return "field " + strconv.Itoa(part) }

// Files returns the number of members, or parts of a form, that hold images or recordings.
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

// WithTexts returns the request with changed texts; were is the result of Texts.
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
