package wire

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// MostCitations is how many citations of one answer are told to a client of another format.
const MostCitations = 4096

// ReadURLCitation reads what OpenAI's formats say of a page; ok is false for an annotation of another kind. before is how many code
// points of the answer stand before the text that it counts in.
func ReadURLCitation(v jsonx.Value, before int) (c chat.Citation, ok bool) {
	c.URL, _ = v.Get("url").Str()
	c.Title, _ = v.Get("title").Str()
	c.Quote, _ = v.Get("content").Str() // of OpenRouter
	c.Start, c.End = ReadRange(v.Get("start_index"), v.Get("end_index"))
	if c.End > 0 {
		c.Start, c.End = c.Start+before, c.End+before
	}
	return c, c.URL != ""
}

// ReadRange reads a range of a text, of which the beginning may be left out.
func ReadRange(start, end jsonx.Value) (from, to int) {
	a, _ := start.Int()
	b, ok := end.Int()
	if !ok || a < 0 || b <= a || b > math.MaxInt32 {
		return 0, 0
	}
	return int(a), int(b)
}

// AppendURLCitation appends the members that OpenAI's formats have of a page, without braces. before is as ReadURLCitation has it.
func AppendURLCitation(dst []byte, c *chat.Citation, before int) []byte {
	dst = strconv.AppendInt(append(dst, `"start_index":`...), int64(max(0, c.Start-before)), 10)
	dst = strconv.AppendInt(append(dst, `,"end_index":`...), int64(max(0, c.End-before)), 10)
	dst = jsonx.AppendString(append(dst, `,"url":`...), c.URL)
	return jsonx.AppendString(append(dst, `,"title":`...), c.Title)
}

// CodePoints is a range of a text's bytes as one of its code points. said is what stands there, if that was said: where the range does not
// hold it, it is looked for.
func CodePoints(text []byte, start, end int, said string) (from, to int) {
	if said != "" && (end > len(text) || string(text[min(start, end):end]) != said) {
		if at := bytes.Index(text, []byte(said)); at >= 0 {
			start, end = at, at+len(said)
		}
	}
	start, end = min(start, len(text)), min(end, len(text))
	if start >= end {
		return 0, 0
	}
	from = utf8.RuneCount(text[:start])
	return from, from + utf8.RuneCount(text[start:end])
}

// ByteRange is a range of a text's code points as one of its bytes.
func ByteRange(text []byte, from, to int) (start, end int) {
	start = len(text)
	for n := 0; n < to && end < len(text); n++ {
		if n == from {
			start = end
		}
		_, size := utf8.DecodeRune(text[end:])
		end += size
	}
	if start >= end {
		return 0, 0
	}
	return start, end
}

// IsAddress reports whether a text is an address of the web.
func IsAddress(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}
