package gemini

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// searchEntryPoint is what Google wants shown beside an answer that rests on its search.
const searchEntryPoint = "searchEntryPoint"

// cites tells clients of other formats what a candidate's text rests on, or repeats. What of it is no citation is named.
func (d *Decoder) cites(c *choice, n int, name string, v jsonx.Value) {
	found := grounded(c.said, v)
	if name == citationMetadata {
		found = repeated(c.said, v)
	}
	var cites []chat.Citation
	for _, cite := range found {
		if !c.cited[cite] && len(c.cited) < wire.MostCitations {
			if c.cited == nil {
				c.cited = map[chat.Citation]bool{}
			}
			c.cited[cite] = true
			cites = append(cites, cite)
		}
	}
	if !v.Get(searchEntryPoint).IsNull() {
		cites = append(cites, chat.Citation{})
	}
	told := len(cites) == 0 && len(found) > 0
	d.Emit(chat.Event{Kind: chat.Extra, ID: name, Index: c.block, Choice: n, Text: v.Raw, Said: told, Cites: cites})
}

// grounded are the supports of a groundingMetadata, each with its chunks.
func grounded(said []byte, v jsonx.Value) (found []chat.Citation) {
	var sources []chat.Citation
	for _, chunk := range v.Get("groundingChunks").Each {
		sources = append(sources, source(chunk))
	}
	for _, support := range v.Get("groundingSupports").Each {
		start, end := counted(said, support.Get("segment"))
		for _, index := range support.Get("groundingChunkIndices").Each {
			i, ok := index.Int()
			if !ok || i < 0 || i >= int64(len(sources)) || len(found) >= wire.MostCitations {
				continue
			}
			c := sources[i]
			c.Start, c.End = start, end
			found = append(found, c)
		}
	}
	return found
}

// source is where a chunk is from: a page, or something that the model was given.
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

// repeated are the sources of a citationMetadata.
func repeated(said []byte, v jsonx.Value) (found []chat.Citation) {
	for _, list := range [...]string{"citationSources", "citations"} {
		for _, e := range v.Get(list).Each {
			var c chat.Citation
			c.URL, _ = e.Get("uri").Str()
			c.Title, _ = e.Get("title").Str()
			if c.URL == "" || len(found) >= wire.MostCitations {
				continue
			}
			c.Start, c.End = counted(said, e)
			found = append(found, c)
		}
	}
	return found
}

// counted is a range of the bytes of the answer's text in its code points.
func counted(said []byte, v jsonx.Value) (start, end int) {
	text, _ := v.Get("text").Str()
	from, to := wire.ReadRange(v.Get("startIndex"), v.Get("endIndex"))
	return wire.CodePoints(said, from, to, text)
}

// cite keeps the citations of another format. Those of a document that is not told have no form here.
func (e *envelope) cite(ev *chat.Event) {
	c := e.candidate(ev.Choice)
	for _, cite := range ev.Cites {
		if cite.URL == "" && (cite.Title == "" || cite.Quote == "") {
			e.Lose(ev.ID)
			continue
		}
		c.cites = append(c.cites, cite)
	}
}

// groundingChunk is a source of an answer.
type groundingChunk struct{ url, title, quote string }

// appendTo appends a page of the web, or what stands in a document.
func (g *groundingChunk) appendTo(dst []byte) []byte {
	if g.url == "" {
		dst = jsonx.AppendString(append(dst, `{"retrievedContext":{"title":`...), g.title)
		return append(jsonx.AppendString(append(dst, `,"text":`...), g.quote), "}}"...)
	}
	dst = jsonx.AppendString(append(dst, `{"web":{"uri":`...), g.url)
	return append(jsonx.AppendString(append(dst, `,"title":`...), g.title), "}}"...)
}

// appendGrounding appends the citations as a groundingMetadata, behind a comma.
func (c *candidate) appendGrounding(dst []byte) []byte {
	if len(c.cites) == 0 {
		return dst
	}
	var chunks []groundingChunk
	var supports []byte
	for i := range c.cites {
		cite := &c.cites[i]
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
	c.cites = nil
	return append(append(append(dst, `],"groundingSupports":[`...), supports...), "]}"...)
}

// appendSupport appends which of the text's bytes rest on a chunk.
func (c *candidate) appendSupport(dst []byte, cite *chat.Citation, chunk int) []byte {
	start, end := wire.ByteRange(c.said, cite.Start, cite.End)
	dst = strconv.AppendInt(append(dst, `{"segment":{"startIndex":`...), int64(start), 10)
	dst = strconv.AppendInt(append(dst, `,"endIndex":`...), int64(end), 10)
	dst = jsonx.AppendString(append(dst, `,"text":`...), c.said[start:end])
	return append(strconv.AppendInt(append(dst, `},"groundingChunkIndices":[`...), int64(chunk), 10), "]}"...)
}
