package reasoning

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// segment is a part of a text.
type segment struct {
	part part
	text string
}

func (s segment) String() string {
	return [...]string{partNone: "nothing", partText: "words", partThought: "thoughts", partMarkup: "frame"}[s.part] + fmt.Sprintf(" %q", s.text)
}

// join appends a part, or extends the last one if it is of the same kind.
func join(all []segment, p part, text string) []segment {
	if n := len(all); n > 0 && all[n-1].part == p {
		all[n-1].text += text
		return all
	}
	return append(all, segment{p, text})
}

// way is a configuration of a splitter.
type way struct {
	tags     []Tags
	closers  []string
	implicit bool
}

func (w way) splitter() *splitter {
	s := &splitter{tags: w.tags, closeTag: w.tags[0].close}
	for _, c := range w.closers {
		s.closers = append(s.closers, []byte(c))
	}
	if w.implicit {
		s.state = implicitStart
	}
	return s
}

// split splits a text in pieces that end at the cuts.
func split(w way, text string, cuts ...int) (all []segment) {
	s := w.splitter()
	at := 0
	for _, cut := range append(cuts, len(text)) {
		piece := []byte(text[at:cut])
		s.feed(piece)
		for p, b := s.next(false); p != partNone; p, b = s.next(false) {
			all = join(all, p, string(b))
		}
		clear(piece) // decoders reuse their buffers
		at = cut
	}
	s.feed(nil)
	for p, b := s.next(true); p != partNone; p, b = s.next(true) {
		all = join(all, p, string(b))
	}
	return all
}

// expected splits a whole text by simple searches.
func expected(w way, text string) (all []segment) {
	now, shut := atStart, string(w.tags[0].close)
	if w.implicit {
		now = implicitStart
	}
	for text != "" {
		i := spaces([]byte(text))
		blank := i == len(text)
		n, p := 0, partMarkup
		switch {
		case (now == implicitStart || now == afterOpen) && i <= maxSpace && strings.HasPrefix(text[i:], shut):
			n, now = i+len(shut), afterClose
		case now == atStart || now == implicitStart:
			then := inText
			if now == implicitStart {
				then = inThought
			}
			for _, t := range w.tags {
				if i <= maxSpace && strings.HasPrefix(text[i:], string(t.open)) {
					n, then, shut = i+len(t.open), afterOpen, string(t.close)
				}
			}
			now = then
		case now == afterOpen && blank && i <= maxSpace:
			n = len(text)
		case now == afterOpen:
			now = inThought
		case now == afterClose && blank && i <= maxSpace:
			n = len(text)
		case now == afterClose:
			now = inText
		case now == inThought:
			p = partThought
			if n = strings.Index(text, shut); n == 0 {
				n, p, now = len(shut), partMarkup, afterClose
			} else if n < 0 {
				n = len(text)
			}
		default:
			p, n = partText, len(text)
			for _, c := range w.closers {
				if at := strings.Index(text, c); at >= 0 && at+len(c) <= n {
					n, now = at+len(c), atStart
				}
			}
		}
		if n > 0 {
			all = join(all, p, text[:n])
		}
		text = text[n:]
	}
	return all
}

func TestK75K76TextIsSplitExactly(t *testing.T) {
	long := strings.Repeat(" ", maxSpace)
	for _, row := range []struct {
		about, text string
		want        []segment
	}{
		{"K-75 a whole block", "<think>hm</think>Hi", []segment{{partMarkup, "<think>"}, {partThought, "hm"}, {partMarkup, "</think>"}, {partText, "Hi"}}},
		{"K-75 white space before it", " \n<think>hm</think>Hi", []segment{{partMarkup, " \n<think>"}, {partThought, "hm"}, {partMarkup, "</think>"}, {partText, "Hi"}}},
		{"K-75 white space inside of it and behind it stays", "<think>\nhm\n</think>\n\nHi\n", []segment{{partMarkup, "<think>"}, {partThought, "\nhm\n"}, {partMarkup, "</think>"}, {partText, "\n\nHi\n"}}},
		{"K-75 nothing behind it but white space", "<think>hm</think>\n\n", []segment{{partMarkup, "<think>"}, {partThought, "hm"}, {partMarkup, "</think>\n\n"}}},
		{"K-75 nothing in it", "<think>\n\n</think>\n\nHi", []segment{{partMarkup, "<think>\n\n</think>"}, {partText, "\n\nHi"}}},
		{"D-40 a tag behind what began like one", "<think>a <</think>b", []segment{{partMarkup, "<think>"}, {partThought, "a <"}, {partMarkup, "</think>"}, {partText, "b"}}},
		{"D-40 twice", "<think></</think>b", []segment{{partMarkup, "<think>"}, {partThought, "</"}, {partMarkup, "</think>"}, {partText, "b"}}},
		{"D-41 what comes before it makes it words", "<<think>a</think>", []segment{{partText, "<<think>a</think>"}}},
		{"D-41 a tag in prose", "The tag <think> opens it.", []segment{{partText, "The tag <think> opens it."}}},
		{"K-76 a tag in code", "```\n<think>\n```", []segment{{partText, "```\n<think>\n```"}}},
		{"D-41 a second block is words", "<think>a</think>b<think>c</think>", []segment{{partMarkup, "<think>"}, {partThought, "a"}, {partMarkup, "</think>"}, {partText, "b<think>c</think>"}}},
		{"D-41 at once, too", "<think>a</think><think>c</think>", []segment{{partMarkup, "<think>"}, {partThought, "a"}, {partMarkup, "</think>"}, {partText, "<think>c</think>"}}},
		{"K-76 an end alone", "hm</think>Hi", []segment{{partText, "hm</think>Hi"}}},
		{"K-76 half a tag at the end", "<thi", []segment{{partText, "<thi"}}},
		{"K-76 white space and half a tag at the end", " <thi", []segment{{partText, " <thi"}}},
		{"K-76 half an end at the end", "<think>hm</thi", []segment{{partMarkup, "<think>"}, {partThought, "hm</thi"}}},
		{"K-76 no end", "<think>hm", []segment{{partMarkup, "<think>"}, {partThought, "hm"}}},
		{"K-76 an opening alone", "<think>", []segment{{partMarkup, "<think>"}}},
		{"a tag with attributes is words", "<think a=1>hm</think>", []segment{{partText, "<think a=1>hm</think>"}}},
		{"so is one in capitals", "<THINK>hm</THINK>", []segment{{partText, "<THINK>hm</THINK>"}}},
		{"a long indent", long + "<think>a</think>b", []segment{{partMarkup, long + "<think>"}, {partThought, "a"}, {partMarkup, "</think>"}, {partText, "b"}}},
		{"one that is too long", long + " <think>a</think>b", []segment{{partText, long + " <think>a</think>b"}}},
		{"white space alone", " \n ", []segment{{partText, " \n "}}},
		{"nothing", "", nil},
	} {
		t.Run(row.about, func(t *testing.T) {
			for n := range len(row.text) + 1 {
				if got := split(way{tags: thinkOnly}, row.text, n); !slices.Equal(got, row.want) {
					t.Fatalf("cut at %d, it is %v, want %v", n, got, row.want)
				}
			}
		})
	}
}

func TestD41AnImplicitOpeningTag(t *testing.T) {
	for _, row := range []struct {
		about, text string
		want        []segment
	}{
		{"an end alone", "hm</think>Hi", []segment{{partThought, "hm"}, {partMarkup, "</think>"}, {partText, "Hi"}}},
		{"the model opens them again", "<think>\nhm</think>Hi", []segment{{partMarkup, "<think>"}, {partThought, "\nhm"}, {partMarkup, "</think>"}, {partText, "Hi"}}},
		{"no thought", "\n</think>\n\nHi", []segment{{partMarkup, "\n</think>"}, {partText, "\n\nHi"}}},
		{"no end", "hm, <think> is a tag", []segment{{partThought, "hm, <think> is a tag"}}},
		{"half a tag", "<th", []segment{{partThought, "<th"}}},
		{"half an end behind half a tag", "<</think>Hi", []segment{{partThought, "<"}, {partMarkup, "</think>"}, {partText, "Hi"}}},
	} {
		t.Run(row.about, func(t *testing.T) {
			for n := range len(row.text) + 1 {
				if got := split(way{tags: thinkOnly, implicit: true}, row.text, n); !slices.Equal(got, row.want) {
					t.Fatalf("cut at %d, it is %v, want %v", n, got, row.want)
				}
			}
		})
	}
}

func TestAllTagsAreFound(t *testing.T) {
	for _, tag := range allTags() {
		text := "\n" + string(tag.open) + "a <b>◁[" + string(tag.close) + " c"
		want := []segment{{partMarkup, "\n" + string(tag.open)}, {partThought, "a <b>◁["}, {partMarkup, string(tag.close)}, {partText, " c"}}
		for n := range len(text) + 1 {
			if got := split(way{tags: allTags()}, text, n); !slices.Equal(got, want) {
				t.Fatalf("cut at %d, it is %v, want %v", n, got, want)
			}
		}
		if len(tag.open) > maxTag || len(tag.close) > maxTag {
			t.Errorf("%s is longer than %d bytes", tag.open, maxTag)
		}
	}
	for _, d := range dialects {
		for i, a := range d.Tags {
			for j, b := range d.Tags {
				if i != j && bytes.HasPrefix(a.open, b.open) {
					t.Errorf("%s: %s begins with %s", d.Name, a.open, b.open)
				}
			}
		}
	}
}

func TestD41ReasoningMayFollowACallInTheText(t *testing.T) {
	w := way{tags: thinkOnly, closers: []string{"</tool_call>", "</function>"}}
	text := "<think>a</think><tool_call>{}</tool_call>\n<think>b</think>c<think>d</function><think>e"
	want := []segment{
		{partMarkup, "<think>"},
		{partThought, "a"},
		{partMarkup, "</think>"},
		{partText, "<tool_call>{}</tool_call>"},
		{partMarkup, "\n<think>"},
		{partThought, "b"},
		{partMarkup, "</think>"},
		{partText, "c<think>d</function>"},
		{partMarkup, "<think>"},
		{partThought, "e"},
	}
	for n := range len(text) + 1 {
		if got := split(w, text, n); !slices.Equal(got, want) {
			t.Fatalf("cut at %d, it is %v, want %v", n, got, want)
		}
	}
}

// ways returns all configurations in which text may be read.
func ways() []way {
	var all []way
	for _, d := range dialects {
		if len(d.Tags) == 0 {
			continue
		}
		for _, implicit := range []bool{false, true} {
			all = append(all, way{tags: d.Tags, implicit: implicit}, way{tags: d.Tags, implicit: implicit, closers: []string{"</tool_call>", "</function>"}})
		}
	}
	return all
}

// FuzzD40TextIsSplitExactly checks the splitter for every dialect: the result does not depend on the cuts, its parts are the text, and they
// are the same as those of expected, which searches the whole text.
func FuzzD40TextIsSplitExactly(f *testing.F) {
	for i, text := range []string{
		"<think>a</think>b", " <<think>", "<think><</think>", "hm</think>Hi", "<think>\n\n</think>\n", "</tool_call> <think>x", "◁think▷◁/think◁/think▷",
		"[THINK]a[[/THINK]b", "<seed:think></seed:</seed:think>", "<|channel>thought\nx<channel|>y", "<tool_call></function\n</function>\t<thinking>",
	} {
		f.Add(text, uint16(3), uint16(9), uint8(i))
	}
	all := ways()
	f.Fuzz(func(t *testing.T, text string, a, b uint16, which uint8) {
		w := all[int(which)%len(all)]
		one, two := int(a)%(len(text)+1), int(b)%(len(text)+1)
		want := expected(w, text)
		got := split(w, text, min(one, two), max(one, two))
		if !slices.Equal(got, want) {
			t.Fatalf("%q cut at %d and %d is\n%v, want\n%v", text, one, two, got, want)
		}
		joined := ""
		for _, s := range got {
			joined += s.text
		}
		if joined != text {
			t.Fatalf("%q became %q", text, joined)
		}
	})
}
