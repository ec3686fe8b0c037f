package responses

import (
	"strconv"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// citation converts an annotation; ok is false for one that refers to objects of this API only. before is the number of code points before
// its text.
func citation(v jsonx.Value, before int) (c chat.Citation, ok bool) {
	switch {
	case v.Get("type").Equal("url_citation"):
		return wire.ReadURLCitation(v, before)
	case v.Get("type").Equal("file_citation"):
		c.File, _ = v.Get("file_id").Str()
		c.Title, _ = v.Get("filename").Str()
		return c, c.File != ""
	}
	return c, false
}

// cite writes another format's citations as annotations of the text before them. Those that cannot be expressed, or that follow no text,
// are named as degraded.
func (e *encoder) cite(dst []byte, ev *chat.Event) []byte {
	it := e.last(message)
	for i := range ev.Cites {
		c := &ev.Cites[i]
		if it == nil || len(it.parts) == 0 || it.parts[len(it.parts)-1].kind != chat.Text || c.URL == "" && c.File == "" {
			e.Degrade(ev.ID)
			continue
		}
		p := &it.parts[len(it.parts)-1]
		note := appendAnnotation(nil, c, e.before(p), utf8.RuneCount(p.text))
		p.notes = append(p.notes, note)
		dst = e.annotationAdded(dst, it, note)
	}
	return dst
}

// appendAnnotation appends a citation. before is the number of code points before its text, and length is the length of that text.
func appendAnnotation(dst []byte, c *chat.Citation, before, length int) []byte {
	if c.URL != "" {
		return append(wire.AppendURLCitation(append(dst, `{"type":"url_citation",`...), c, before), '}')
	}
	dst = jsonx.AppendString(append(dst, `{"type":"file_citation","file_id":`...), c.File)
	dst = jsonx.AppendString(append(dst, `,"filename":`...), c.Title)
	end := min(max(0, c.End-before), length)
	return append(strconv.AppendInt(append(dst, `,"index":`...), int64(end), 10), '}')
}

// before counts the code points of text before a part.
func (e *encoder) before(p *part) (n int) {
	for _, it := range e.items {
		for i := range it.parts {
			q := &it.parts[i]
			if q == p {
				return n
			}
			if it.kind == message && q.kind == chat.Text {
				n += utf8.RuneCount(q.text)
			}
		}
	}
	return n
}
