package chatcompletion

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// annotations emits the sources of a message's text for clients of other formats: as citations if possible, else by name.
func (d *Decoder) annotations(c *choice, n int, v jsonx.Value) {
	var cites []chat.Citation
	for _, e := range v.Each {
		page := e.Get("url_citation")
		if !page.Exists() { // the form of some servers
			page = e
		}
		cite, ok := wire.ReadURLCitation(page, 0)
		if d.citations++; !ok || d.citations > wire.MaxCitations {
			cite = chat.Citation{}
		}
		if d.citations <= wire.MaxCitations+1 {
			cites = append(cites, cite)
		}
	}
	if len(cites) > 0 {
		d.Emit(chat.Event{Kind: chat.Extra, ID: annotations, Index: c.open.Index, Choice: n, Text: v.Raw, Cites: cites})
	}
}

// annotationsFor returns another format's citations as an array of annotations; nil if none can be expressed.
func (e *envelope) annotationsFor(ev *chat.Event) []byte {
	if e.opts.Same {
		return nil
	}
	if slices.ContainsFunc(ev.Cites, func(c chat.Citation) bool { return c.URL == "" }) {
		e.Degrade(ev.ID)
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
