package message

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// In this format a citation applies to a whole text block: the answer's text is split into blocks by the cited sources.

// holdCitation keeps a citation of the open block, for a client of another format, until the block's text is complete.
func (a *answer) holdCitation(v jsonx.Value) {
	if a.citations++; a.citations > wire.MaxCitations {
		return
	}
	a.open.citations = append(a.open.citations, chat.Event{
		Kind: chat.Extra, ID: citations, Index: a.open.index, Text: bytes.Clone(v.Raw), Cites: []chat.Citation{readCitation(v)},
	})
}

func readCitation(v jsonx.Value) (c chat.Citation) {
	c.Quote, _ = v.Get("cited_text").Str()
	switch kind, _ := v.Get("type").Str(); kind {
	case "web_search_result_location":
		c.URL, _ = v.Get("url").Str()
		c.Title, _ = v.Get("title").Str()
	case "search_result_location":
		c.Title, _ = v.Get("title").Str()
		if source, _ := v.Get("source").Str(); wire.IsAddress(source) {
			c.URL = source
		}
	default: // of a document: by characters, pages or blocks
		c.File, _ = v.Get("file_id").Str()
		c.Title, _ = v.Get("document_title").Str()
	}
	return c
}

// emitCitations emits the citations of a complete block.
func (a *answer) emitCitations(b *openBlock) {
	for i := range b.citations {
		c := &b.citations[i].Cites[0]
		c.Start, c.End = b.textBefore, a.points
		a.add(b.citations[i])
	}
}

// addCitations adds another format's citations to the open text block. Citations of anything but web pages, and citations after the text,
// cannot be expressed and are named as degraded.
func (e *envelope) addCitations(ev *chat.Event) {
	for i := range ev.Cites {
		c := &ev.Cites[i]
		b := e.blocks.openText()
		if b == nil || c.URL == "" {
			e.Degrade(ev.ID)
			continue
		}
		page := c.URL + "\n" + c.Quote
		if slices.Contains(b.citedPages, page) { // already cited for another part of the text, which this format does not distinguish
			continue
		}
		b.citedPages = append(b.citedPages, page)
		dst := jsonx.AppendString([]byte(`{"type":"web_search_result_location","cited_text":`), c.Quote)
		dst = jsonx.AppendString(append(dst, `,"url":`...), c.URL)
		dst = jsonx.AppendString(append(dst, `,"title":`...), c.Title)
		b.citations = append(b.citations, append(append(dst, noIndex...), '}'))
	}
}

// noIndex is the reference to a search result in a citation that the gateway wrote: empty, unlike in Anthropic's own.
const noIndex = `,"encrypted_index":""`

// openText returns the last block if it is incomplete text; else nil.
func (bs *blocks) openText() *pendingBlock {
	if n := len(*bs); n > 0 && (*bs)[n-1].kind == chat.Text && !(*bs)[n-1].stopped {
		return &(*bs)[n-1]
	}
	return nil
}
