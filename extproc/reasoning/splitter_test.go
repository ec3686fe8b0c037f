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
	return [...]string{nothing: "nothing", words: "words", thoughts: "thoughts", frame: "frame"}[s.part] + fmt.Sprintf(" %q", s.text)
}

// join adds a part, to the one before it if both are of one kind.
func join(all []segment, p part, text string) []segment {
	if n := len(all); n > 0 && all[n-1].part == p {
		all[n-1].text += text
		return all
	}
	return append(all, segment{p, text})
}

// way is how a text is read.
type way struct {
	tags     []Tags
	closers  []string
	implicit bool
}

func (w way) splitter() *splitter {
	s := &splitter{tags: w.tags, shut: w.tags[0].close}
	for _, c := range w.closers {
		s.closers = append(s.closers, []byte(c))
	}
	if w.implicit {
		s.state = opened
	}
	return s
}

// split reads a text in pieces that end at the cuts.
func split(w way, text string, cuts ...int) (all []segment) {
	s := w.splitter()
	at := 0
	for _, cut := range append(cuts, len(text)) {
		piece := []byte(text[at:cut])
		s.feed(piece)
		for p, b := s.next(false); p != nothing; p, b = s.next(false) {
			all = join(all, p, string(b))
		}
		clear(piece) // what a decoder does with its buffer
		at = cut
	}
	s.feed(nil)
	for p, b := s.next(true); p != nothing; p, b = s.next(true) {
		all = join(all, p, string(b))
	}
	return all
}

// expected is what a text is, found in the whole of it at once.
func expected(w way, text string) (all []segment) {
	now, shut := leading, string(w.tags[0].close)
	if w.implicit {
		now = opened
	}
	for text != "" {
		i := spaces([]byte(text))
		blank := i == len(text)
		n, p := 0, frame
		switch {
		case (now == opened || now == entering) && i <= maxSpace && strings.HasPrefix(text[i:], shut):
			n, now = i+len(shut), leaving
		case now == leading || now == opened:
			then := talking
			if now == opened {
				then = thinking
			}
			for _, t := range w.tags {
				if i <= maxSpace && strings.HasPrefix(text[i:], string(t.open)) {
					n, then, shut = i+len(t.open), entering, string(t.close)
				}
			}
			now = then
		case now == entering && blank && i <= maxSpace:
			n = len(text)
		case now == entering:
			now = thinking
		case now == leaving && blank && i <= maxSpace:
			n = len(text)
		case now == leaving:
			now = talking
		case now == thinking:
			p = thoughts
			if n = strings.Index(text, shut); n == 0 {
				n, p, now = len(shut), frame, leaving
			} else if n < 0 {
				n = len(text)
			}
		default:
			p, n = words, len(text)
			for _, c := range w.closers {
				if at := strings.Index(text, c); at >= 0 && at+len(c) <= n {
					n, now = at+len(c), leading
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
		{"K-75 a whole block", "<think>hm</think>Hi", []segment{{frame, "<think>"}, {thoughts, "hm"}, {frame, "</think>"}, {words, "Hi"}}},
		{"K-75 white space before it", " \n<think>hm</think>Hi", []segment{{frame, " \n<think>"}, {thoughts, "hm"}, {frame, "</think>"}, {words, "Hi"}}},
		{"K-75 white space inside of it and behind it stays", "<think>\nhm\n</think>\n\nHi\n", []segment{{frame, "<think>"}, {thoughts, "\nhm\n"}, {frame, "</think>"}, {words, "\n\nHi\n"}}},
		{"K-75 nothing behind it but white space", "<think>hm</think>\n\n", []segment{{frame, "<think>"}, {thoughts, "hm"}, {frame, "</think>\n\n"}}},
		{"K-75 nothing in it", "<think>\n\n</think>\n\nHi", []segment{{frame, "<think>\n\n</think>"}, {words, "\n\nHi"}}},
		{"D-40 a tag behind what began like one", "<think>a <</think>b", []segment{{frame, "<think>"}, {thoughts, "a <"}, {frame, "</think>"}, {words, "b"}}},
		{"D-40 twice", "<think></</think>b", []segment{{frame, "<think>"}, {thoughts, "</"}, {frame, "</think>"}, {words, "b"}}},
		{"D-41 what comes before it makes it words", "<<think>a</think>", []segment{{words, "<<think>a</think>"}}},
		{"D-41 a tag in prose", "The tag <think> opens it.", []segment{{words, "The tag <think> opens it."}}},
		{"K-76 a tag in code", "```\n<think>\n```", []segment{{words, "```\n<think>\n```"}}},
		{"D-41 a second block is words", "<think>a</think>b<think>c</think>", []segment{{frame, "<think>"}, {thoughts, "a"}, {frame, "</think>"}, {words, "b<think>c</think>"}}},
		{"D-41 at once, too", "<think>a</think><think>c</think>", []segment{{frame, "<think>"}, {thoughts, "a"}, {frame, "</think>"}, {words, "<think>c</think>"}}},
		{"K-76 an end alone", "hm</think>Hi", []segment{{words, "hm</think>Hi"}}},
		{"K-76 half a tag at the end", "<thi", []segment{{words, "<thi"}}},
		{"K-76 white space and half a tag at the end", " <thi", []segment{{words, " <thi"}}},
		{"K-76 half an end at the end", "<think>hm</thi", []segment{{frame, "<think>"}, {thoughts, "hm</thi"}}},
		{"K-76 no end", "<think>hm", []segment{{frame, "<think>"}, {thoughts, "hm"}}},
		{"K-76 an opening alone", "<think>", []segment{{frame, "<think>"}}},
		{"a tag with attributes is words", "<think a=1>hm</think>", []segment{{words, "<think a=1>hm</think>"}}},
		{"so is one in capitals", "<THINK>hm</THINK>", []segment{{words, "<THINK>hm</THINK>"}}},
		{"a long indent", long + "<think>a</think>b", []segment{{frame, long + "<think>"}, {thoughts, "a"}, {frame, "</think>"}, {words, "b"}}},
		{"one that is too long", long + " <think>a</think>b", []segment{{words, long + " <think>a</think>b"}}},
		{"white space alone", " \n ", []segment{{words, " \n "}}},
		{"nothing", "", nil},
	} {
		t.Run(row.about, func(t *testing.T) {
			for n := range len(row.text) + 1 {
				if got := split(way{tags: thinks}, row.text, n); !slices.Equal(got, row.want) {
					t.Fatalf("cut at %d, it is %v, want %v", n, got, row.want)
				}
			}
		})
	}
}

func TestD41TheModelsPromptOpenedItsThoughts(t *testing.T) {
	for _, row := range []struct {
		about, text string
		want        []segment
	}{
		{"an end alone", "hm</think>Hi", []segment{{thoughts, "hm"}, {frame, "</think>"}, {words, "Hi"}}},
		{"the model opens them again", "<think>\nhm</think>Hi", []segment{{frame, "<think>"}, {thoughts, "\nhm"}, {frame, "</think>"}, {words, "Hi"}}},
		{"no thought", "\n</think>\n\nHi", []segment{{frame, "\n</think>"}, {words, "\n\nHi"}}},
		{"no end", "hm, <think> is a tag", []segment{{thoughts, "hm, <think> is a tag"}}},
		{"half a tag", "<th", []segment{{thoughts, "<th"}}},
		{"half an end behind half a tag", "<</think>Hi", []segment{{thoughts, "<"}, {frame, "</think>"}, {words, "Hi"}}},
	} {
		t.Run(row.about, func(t *testing.T) {
			for n := range len(row.text) + 1 {
				if got := split(way{tags: thinks, implicit: true}, row.text, n); !slices.Equal(got, row.want) {
					t.Fatalf("cut at %d, it is %v, want %v", n, got, row.want)
				}
			}
		})
	}
}

func TestEverySpellingIsFound(t *testing.T) {
	for _, tag := range everySpelling() {
		text := "\n" + string(tag.open) + "a <b>◁[" + string(tag.close) + " c"
		want := []segment{{frame, "\n" + string(tag.open)}, {thoughts, "a <b>◁["}, {frame, string(tag.close)}, {words, " c"}}
		for n := range len(text) + 1 {
			if got := split(way{tags: everySpelling()}, text, n); !slices.Equal(got, want) {
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

func TestD41BehindACallInTextATagOpensThoughtsAgain(t *testing.T) {
	w := way{tags: thinks, closers: []string{"</tool_call>", "</function>"}}
	text := "<think>a</think><tool_call>{}</tool_call>\n<think>b</think>c<think>d</function><think>e"
	want := []segment{
		{frame, "<think>"},
		{thoughts, "a"},
		{frame, "</think>"},
		{words, "<tool_call>{}</tool_call>"},
		{frame, "\n<think>"},
		{thoughts, "b"},
		{frame, "</think>"},
		{words, "c<think>d</function>"},
		{frame, "<think>"},
		{thoughts, "e"},
	}
	for n := range len(text) + 1 {
		if got := split(w, text, n); !slices.Equal(got, want) {
			t.Fatalf("cut at %d, it is %v, want %v", n, got, want)
		}
	}
}

// ways are all that a text may be read in.
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

// FuzzD40TextIsSplitExactly holds the splitter to its law, for every dialect: where a text is cut changes nothing, its parts are the
// text, and they are what the text is when it is looked at as a whole.
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
