package gemini

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// searchEntryPoint is HTML that Google requires to be shown with an answer that used its search.
const searchEntryPoint = "searchEntryPoint"

// emitCitations emits the sources of a candidate's text for clients of other formats. What cannot be expressed as a citation is named as
// degraded.
func (d *Decoder) emitCitations(c *choice, n int, name string, v jsonx.Value) {
	found := groundingCitations(c.text, v)
	if name == citationMetadata {
		found = metadataCitations(c.text, v)
	}
	var cites []chat.Citation
	for _, cite := range found {
		if !c.emitted[cite] && len(c.emitted) < wire.MaxCitations {
			if c.emitted == nil {
				c.emitted = map[chat.Citation]bool{}
			}
			c.emitted[cite] = true
			cites = append(cites, cite)
		}
	}
	if !v.Get(searchEntryPoint).IsNull() {
		cites = append(cites, chat.Citation{})
	}
	allEmitted := len(cites) == 0 && len(found) > 0
	d.Emit(chat.Event{Kind: chat.Extra, ID: name, Index: c.open.Index, Choice: n, Text: v.Raw, Redundant: allEmitted, Cites: cites})
}

// groundingCitations returns the supports of a groundingMetadata, one citation for each of their chunks.
func groundingCitations(answer []byte, v jsonx.Value) (found []chat.Citation) {
	var sources []chat.Citation
	for _, chunk := range v.Get("groundingChunks").Each {
		sources = append(sources, source(chunk))
	}
	for _, support := range v.Get("groundingSupports").Each {
		start, end := codePoints(answer, support.Get("segment"))
		for _, index := range support.Get("groundingChunkIndices").Each {
			i, ok := index.Int()
			if !ok || i < 0 || i >= int64(len(sources)) || len(found) >= wire.MaxCitations {
				continue
			}
			c := sources[i]
			c.Start, c.End = start, end
			found = append(found, c)
		}
	}
	return found
}

// source returns the origin of a chunk: a page, or something in the prompt.
func source(chunk jsonx.Value) (c chat.Citation) {
	page := chunk.Get("web")
	if page.IsNull() {
		page = chunk.Get("retrievedContext")
		c.Quote, _ = page.Get("text").Str()
	}
	c.Title, _ = page.Get("title").Str()
	if uri, _ := page.Get("uri").Str(); wire.IsAddress(uri) {
		c.URL = uri
	}
	return c
}

// metadataCitations returns the sources of a citationMetadata.
func metadataCitations(answer []byte, v jsonx.Value) (found []chat.Citation) {
	for _, list := range [...]string{"citationSources", "citations"} {
		for _, e := range v.Get(list).Each {
			var c chat.Citation
			c.URL, _ = e.Get("uri").Str()
			c.Title, _ = e.Get("title").Str()
			if c.URL == "" || len(found) >= wire.MaxCitations {
				continue
			}
			c.Start, c.End = codePoints(answer, e)
			found = append(found, c)
		}
	}
	return found
}

// codePoints converts a range of bytes of the answer's text into code points.
func codePoints(answer []byte, v jsonx.Value) (start, end int) {
	text, _ := v.Get("text").Str()
	from, to := wire.ReadRange(v.Get("startIndex"), v.Get("endIndex"))
	return wire.CodePointRange(answer, from, to, text)
}

// cite keeps another format's citation. A citation of a document without URL, title and quote cannot be expressed.
func (e *envelope) cite(ev *chat.Event) {
	c := e.candidate(ev.Choice)
	for _, cite := range ev.Cites {
		if cite.URL == "" && (cite.Title == "" || cite.Quote == "") {
			e.Degrade(ev.ID)
			continue
		}
		c.citations = append(c.citations, cite)
	}
}

// groundingChunk is a source of an answer.
type groundingChunk struct{ url, title, quote string }

// appendTo appends a web page, or a quote of a document.
func (g *groundingChunk) appendTo(dst []byte) []byte {
	if g.url == "" {
		dst = jsonx.AppendString(append(dst, `{"retrievedContext":{"title":`...), g.title)
		return append(jsonx.AppendString(append(dst, `,"text":`...), g.quote), "}}"...)
	}
	dst = jsonx.AppendString(append(dst, `{"web":{"uri":`...), g.url)
	return append(jsonx.AppendString(append(dst, `,"title":`...), g.title), "}}"...)
}

// appendGrounding appends the citations as a groundingMetadata, with a comma before it.
func (c *candidate) appendGrounding(dst []byte) []byte {
	if len(c.citations) == 0 {
		return dst
	}
	var chunks []groundingChunk
	var supports []byte
	for i := range c.citations {
		cite := &c.citations[i]
		from := groundingChunk{url: cite.URL, title: cite.Title}
		if cite.URL == "" {
			from.quote = cite.Quote
		}
		at := slices.Index(chunks, from)
		if at < 0 {
			at = len(chunks)
			chunks = append(chunks, from)
		}
		if i > 0 {
			supports = append(supports, ',')
		}
		supports = c.appendSupport(supports, cite, at)
	}
	dst = append(dst, `,"groundingMetadata":{"groundingChunks":[`...)
	for i := range chunks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = chunks[i].appendTo(dst)
	}
	c.citations = nil
	return append(append(append(dst, `],"groundingSupports":[`...), supports...), "]}"...)
}

// appendSupport appends the range of bytes of the text that a chunk supports.
func (c *candidate) appendSupport(dst []byte, cite *chat.Citation, chunk int) []byte {
	start, end := wire.ByteRange(c.text, cite.Start, cite.End)
	dst = strconv.AppendInt(append(dst, `{"segment":{"startIndex":`...), int64(start), 10)
	dst = strconv.AppendInt(append(dst, `,"endIndex":`...), int64(end), 10)
	dst = jsonx.AppendString(append(dst, `,"text":`...), c.text[start:end])
	return append(strconv.AppendInt(append(dst, `},"groundingChunkIndices":[`...), int64(chunk), 10), "]}"...)
}
