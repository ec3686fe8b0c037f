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

// MaxCitations is the maximum number of citations of one answer that are passed to a client of another format.
const MaxCitations = 4096

// ReadURLCitation reads a url_citation of OpenAI's formats; ok is false for another kind of annotation. before is the number of code points
// in the answer before the text to which its indexes refer.
func ReadURLCitation(v jsonx.Value, before int) (c chat.Citation, ok bool) {
	c.URL, _ = v.Get("url").Str()
	c.Title, _ = v.Get("title").Str()
	c.Quote, _ = v.Get("content").Str() // OpenRouter
	c.Start, c.End = ReadRange(v.Get("start_index"), v.Get("end_index"))
	if c.End > 0 {
		c.Start, c.End = c.Start+before, c.End+before
	}
	return c, c.URL != ""
}

// ReadRange reads the start and the end of a range of a text. A missing start is 0; 0, 0 is an invalid range.
func ReadRange(start, end jsonx.Value) (from, to int) {
	a, _ := start.Int()
	b, ok := end.Int()
	if !ok || a < 0 || b <= a || b > math.MaxInt32 {
		return 0, 0
	}
	return int(a), int(b)
}

// AppendURLCitation appends the members of a url_citation, without braces. before is as in ReadURLCitation.
func AppendURLCitation(dst []byte, c *chat.Citation, before int) []byte {
	dst = strconv.AppendInt(append(dst, `"start_index":`...), int64(max(0, c.Start-before)), 10)
	dst = strconv.AppendInt(append(dst, `,"end_index":`...), int64(max(0, c.End-before)), 10)
	dst = jsonx.AppendString(append(dst, `,"url":`...), c.URL)
	return jsonx.AppendString(append(dst, `,"title":`...), c.Title)
}

// CodePointRange converts a range of bytes into one of code points. quote is the text that the range should hold, or ""; if the range does
// not hold it, it is searched for.
func CodePointRange(text []byte, start, end int, quote string) (from, to int) {
	if quote != "" && (end > len(text) || string(text[min(start, end):end]) != quote) {
		if at := bytes.Index(text, []byte(quote)); at >= 0 {
			start, end = at, at+len(quote)
		}
	}
	start, end = min(start, len(text)), min(end, len(text))
	if start >= end {
		return 0, 0
	}
	from = utf8.RuneCount(text[:start])
	return from, from + utf8.RuneCount(text[start:end])
}

// ByteRange converts a range of code points into one of bytes.
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

// IsAddress reports whether a text is an http or https URL.
func IsAddress(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}
