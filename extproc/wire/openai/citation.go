package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// annotations tells clients of other formats what a message's text is from, as citations, and what is none by its name.
func (d *Decoder) annotations(c *choice, n int, v jsonx.Value) {
	var cites []chat.Citation
	for _, e := range v.Each {
		page := e.Get("url_citation")
		if !page.Exists() { // as some servers write it
			page = e
		}
		cite, ok := wire.ReadURLCitation(page, 0)
		if d.cited++; !ok || d.cited > wire.MostCitations {
			cite = chat.Citation{}
		}
		if d.cited <= wire.MostCitations+1 {
			cites = append(cites, cite)
		}
	}
	if len(cites) > 0 {
		d.Emit(chat.Event{Kind: chat.Extra, ID: annotations, Index: c.block, Choice: n, Text: v.Raw, Cites: cites})
	}
}

// cited are another format's citations as annotations: an array, or nil where none can be said.
func (e *envelope) cited(ev *chat.Event) []byte {
	if e.opts.Same {
		return nil
	}
	if slices.ContainsFunc(ev.Cites, func(c chat.Citation) bool { return c.URL == "" }) {
		e.Lose(ev.ID)
	}
	var dst []byte
	for i := range ev.Cites {
		if ev.Cites[i].URL == "" {
			continue
		}
		dst = append(append(dst, ','), `{"type":"url_citation","url_citation":{`...)
		dst = append(wire.AppendURLCitation(dst, &ev.Cites[i], 0), "}}"...)
	}
	if dst == nil {
		return nil
	}
	dst[0] = '['
	return append(dst, ']')
}
