package reasoning_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
)

// BenchmarkTextWithTags measures the splitting of text alone, in pieces of a token and of a packet.
func BenchmarkTextWithTags(b *testing.B) {
	thought := "<think>" + strings.Repeat("Is 1 < 2? It is </b>, I think. ", 2000) + "</think>\n\n"
	for _, size := range []int{5, 64, 4096} {
		b.Run(fmt.Sprintf("pieces of %d", size), func(b *testing.B) {
			text := []byte(thought)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r := reasoning.NewReader(usual())
				ev := chat.Event{Kind: chat.Text}
				for at := 0; at < len(text); at += size {
					ev.Text = text[at:min(at+size, len(text))]
					r.Read(&ev)
				}
			}
		})
	}
}

// BenchmarkAnswer measures the conversion of a provider's bytes to events, thoughts included: a long answer in each provider's format, in
// pieces of 16 KiB. Allocations per event include the first piece and the decoder.
func BenchmarkAnswer(b *testing.B) {
	for _, g := range goldens(b) {
		if !g.stream {
			continue
		}
		body := longer(g.body)
		b.Run(strings.TrimSuffix(g.name, ".txtar"), func(b *testing.B) {
			a := g.answer
			events := 0
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				events = a.count(body)
			}
			b.ReportMetric(float64(events), "events/op")
		})
	}
}

// TestAnEventCostsOneAllocationAtMost, in every format, the decoder's own allocations included.
func TestAnEventCostsOneAllocationAtMost(t *testing.T) {
	for _, g := range goldens(t) {
		body, events := longer(g.body), 0
		if len(body) < 4*len(g.body) { // it has no repeated pieces
			continue
		}
		a := g.answer
		if n := testing.AllocsPerRun(3, func() { events = a.count(body) }); n > float64(events) {
			t.Errorf("%s: %v allocations for %d events", g.name, n, events)
		}
	}
}

// longer returns a stream in which the pieces of thoughts and text are repeated many times.
func longer(body []byte) []byte {
	const times = 400
	var out []byte
	for _, frame := range bytes.SplitAfter(body, []byte("\n\n")) {
		n := 1
		for _, piece := range []string{`thinking_delta`, `text_delta`, `"reasoning_content":"9`, `"reasoning_content":", the`, `"reasoning":"9`, `.delta"`, `"thought":true`, `"content":"Is`, `"content":" is`, `"content":"9.11`, `"content":"9.8 [`, `"text":"9.8"`, `"text":" 9.80."`, `ink>a`, `15% of`} {
			if bytes.Contains(frame, []byte(piece)) {
				n = times
			}
		}
		out = append(out, bytes.Repeat(frame, n)...)
	}
	return out
}

// count decodes an answer in pieces of 16 KiB and counts its events.
func (a *answer) count(body []byte) (events int) {
	r := &chat.Request{Dialect: chat.Gemini, Stream: true, Choices: 1}
	if a.format == chat.Gemini {
		r.Dialect = chat.OpenAI
	}
	dec := a.decoder(r)
	var reader *reasoning.Reader
	if len(a.options.Tags) > 0 {
		reader = reasoning.NewReader(a.options)
	}
	for at := 0; at < len(body); at += 16 << 10 {
		end := min(at+16<<10, len(body))
		read := dec.Decode(body[at:end:end], end == len(body))
		for i := range read {
			if reader == nil {
				events++
				continue
			}
			events += len(reader.Read(&read[i]))
		}
	}
	return events
}
