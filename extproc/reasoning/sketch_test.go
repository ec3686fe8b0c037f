package reasoning_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

// sketch is the naive parser, a state machine over the bytes of the stream. TestD40FaultsOfTheNaiveParser shows its faults.
type sketch struct {
	in       bool // within the tags
	matched  int  // matched bytes of the current tag
	think    []byte
	content  []byte
	thoughts []string // as emitted
	texts    []string
}

const (
	sketchOpen  = "<think>"
	sketchClose = "</think>"
)

func (s *sketch) feed(chunk string) {
	for i := range len(chunk) {
		s.byte(chunk[i])
	}
	if len(s.content) > 0 && !s.in && s.matched == 0 {
		s.flushWords()
	}
}

func (s *sketch) byte(c byte) {
	buf, tag := &s.content, sketchOpen
	if s.in {
		buf, tag = &s.think, sketchClose
	}
	switch {
	case s.matched == 0 && c == '<':
		s.matched = 1
	case s.matched == 0:
		*buf = append(*buf, c)
	case c != tag[s.matched]:
		*buf = append(append(*buf, tag[:s.matched]...), c)
		s.matched = 0
	case s.matched+1 < len(tag):
		s.matched++
	case s.in:
		s.flushThoughts()
		s.in, s.matched = false, 0
	default:
		s.flushWords()
		s.in, s.matched = true, 0
	}
}

func (s *sketch) finish() {
	s.flushThoughts()
	s.flushWords()
}

func (s *sketch) flushThoughts() {
	if len(s.think) > 0 {
		s.thoughts, s.think = append(s.thoughts, string(s.think)), nil
	}
}

func (s *sketch) flushWords() {
	if len(s.content) > 0 {
		s.texts, s.content = append(s.texts, string(s.content)), nil
	}
}

// sketched returns the sketch's output for pieces of text.
func sketched(end bool, pieces ...string) string {
	var s sketch
	for _, p := range pieces {
		s.feed(p)
	}
	if end {
		s.finish()
	}
	return "thoughts " + strings.Join(s.thoughts, "|") + " words " + strings.Join(s.texts, "|")
}

// textOf returns an answer's text and reasoning in the format of sketched.
func textOf(a answer) string {
	var thoughts, texts []string
	for l := range strings.Lines(a.read()) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		_, text, _ := strings.Cut(rest, " ")
		switch kind {
		case "thought":
			thoughts = append(thoughts, strings.Trim(text, `"`))
		case "text":
			texts = append(texts, strings.Trim(text, `"`))
		}
	}
	return "thoughts " + strings.Join(thoughts, "|") + " words " + strings.Join(texts, "|")
}

// TestD40FaultsOfTheNaiveParser shows each fault of the sketch and that the gateway does not have it.
func TestD40FaultsOfTheNaiveParser(t *testing.T) {
	unended := answer{format: chat.OpenAI, stream: true, options: usual(), body: sse(content("<think>"), content("hm, "), content("so"))}
	escaped := string(sse(delta(`"content":"\u003cthink\u003ehm\u003c/think\u003eHi"`)))
	twoDeltas := string(sse(content("<th"), content("ink>hm</th"), content("ink>Hi")))
	for _, row := range []struct {
		about  string
		sketch string
		answer answer
		want   string
	}{
		{"a partial tag at the end is lost", sketched(true, "Hi <thi"), answerOf(content("Hi <thi")), "thoughts  words Hi <thi"},
		{"half an end at the end is lost", sketched(true, "<think>hm</thi"), answerOf(content("<think>hm</thi")), "thoughts hm|</thi words "},
		{"D-41 a tag in prose is taken for a thought", sketched(true, "Use <think>hm</think> so"), answerOf(content("Use <think>hm</think> so")), "thoughts  words Use <think>hm</think> so"},
		{"<</think> does not end it", sketched(true, "<think>a <</think>Hi"), answerOf(content("<think>a <</think>Hi")), "thoughts a < words Hi"},
		{"thoughts wait for their end", sketched(false, "<think>", "hm, ", "so"), unended, "thoughts hm, |so words "},
		{"escaped in JSON, a tag is not seen", sketched(true, escaped), answerOf(delta(`"content":"\u003cthink\u003ehm\u003c/think\u003eHi"`)), "thoughts hm words Hi"},
		{"nor one that two deltas share", sketched(true, twoDeltas), answerOf(content("<th"), content("ink>hm</th"), content("ink>Hi")), "thoughts hm words Hi"},
	} {
		t.Run(row.about, func(t *testing.T) {
			if row.sketch == row.want {
				t.Errorf("the sketch has no such fault: %s", row.sketch)
			}
			if got := textOf(row.answer); got != row.want {
				t.Errorf("it says %s, want %s", got, row.want)
			}
		})
	}
}
