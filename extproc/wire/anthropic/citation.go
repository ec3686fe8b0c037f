package anthropic

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// A citation of this format is of a whole block of text: what a model says is cut into blocks by what it cites.

// note keeps a citation of the open block for a client of another format, until it is known how long its text is.
func (a *answer) note(v jsonx.Value) {
	if a.cited++; a.cited > wire.MostCitations {
		return
	}
	a.open.cites = append(a.open.cites, chat.Event{
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
	default: // of a document: by its characters, pages or blocks
		c.File, _ = v.Get("file_id").Str()
		c.Title, _ = v.Get("document_title").Str()
	}
	return c
}

// cites tells the citations of a block that is complete.
func (a *answer) cites(b *openBlock) {
	for i := range b.cites {
		c := &b.cites[i].Cites[0]
		c.Start, c.End = b.begin, a.points
		a.add(b.cites[i])
	}
}

// cite puts the citations of another format on the block of text that is open. Those of what is no page have no form here, and those
// behind the text no place: both are named.
func (e *envelope) cite(ev *chat.Event) {
	for i := range ev.Cites {
		c := &ev.Cites[i]
		b := e.blocks.openText()
		if b == nil || c.URL == "" {
			e.Lose(ev.ID)
			continue
		}
		page := c.URL + "\n" + c.Quote
		if slices.Contains(b.noted, page) { // for another part of the text, which does not matter here
			continue
		}
		b.noted = append(b.noted, page)
		dst := jsonx.AppendString([]byte(`{"type":"web_search_result_location","cited_text":`), c.Quote)
		dst = jsonx.AppendString(append(dst, `,"url":`...), c.URL)
		dst = jsonx.AppendString(append(dst, `,"title":`...), c.Title)
		b.cites = append(b.cites, append(append(dst, noIndex...), '}'))
	}
}

// noIndex stands in a citation that the gateway made where Anthropic has its own reference to what it found.
const noIndex = `,"encrypted_index":""`

// openText is the last block, if it is text that may go on; else nil.
func (bs *blocks) openText() *pendingBlock {
	if n := len(*bs); n > 0 && (*bs)[n-1].kind == chat.Text && !(*bs)[n-1].stopped {
		return &(*bs)[n-1]
	}
	return nil
}

// dropCitations takes those citations out of a history that the gateway made of another provider's: the API refuses them.
func dropCitations(e *jsonx.Edits, d *jsonx.Doc) (some bool) {
	for _, m := range d.Get("messages").Each {
		for _, block := range m.Get("content").Each {
			for _, c := range block.Get(citations).Each {
				if c.Get("encrypted_index").Equal("") {
					wire.CutMember(e, d, block, citations)
					some = true
					break
				}
			}
		}
	}
	return some
}

// mayCite tells quickly that a history holds no citation that the gateway made.
func mayCite(d *jsonx.Doc) bool { return bytes.Contains(d.Bytes, []byte(`"encrypted_index"`)) }
