package bardo

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// costHeader is the header with the cost of an answer in one piece, in USD.
const costHeader = "x-bardo-cost"

// Parts of the comment that ends a stream: ": bardo {…,"cost_usd":0.000120,…}".
const (
	commentStart = ": bardo {"
	costMember   = "cost_usd"
	maxComment   = 64 << 10 // bytes
)

// decoder adds the cost that the other gateway reports to the last event of an answer: from a header, or from the comment before the end of a stream.
// Gemini's streams have no comment.
type decoder struct {
	provider.Decoder

	cost  policy.Pico
	known bool

	line    []byte // the line that is read, if it may be such a comment
	skipped bool   // the line is not one
}

func newDecoder(d provider.Decoder, h header.List) *decoder {
	c := &decoder{Decoder: d}
	c.cost, c.known = policy.ParseCost(h.Get(costHeader))
	return c
}

// Decode implements provider.Decoder.
func (d *decoder) Decode(chunk []byte, end bool) []chat.Event {
	d.scan(chunk)
	events := d.Decoder.Decode(chunk, end)
	for i := range events {
		ev := &events[i]
		if ev.Kind != chat.End {
			continue
		}
		if ev.Raw = withoutComment(ev.Raw); d.known {
			ev.Usage.Cost, ev.Usage.CostKnown = d.cost, true
		}
	}
	return events
}

// withoutComment removes the comment from the end of a stream: the client gets this gateway's own.
func withoutComment(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(commentStart)) {
		return raw
	}
	var out []byte
	for line := range bytes.Lines(raw) {
		if !bytes.HasPrefix(line, []byte(commentStart)) {
			out = append(out, line...)
		}
	}
	return out
}

// scan looks for the comment in the lines of a stream.
func (d *decoder) scan(chunk []byte) {
	for len(chunk) > 0 {
		piece, rest, ends := bytes.Cut(chunk, []byte("\n"))
		chunk = rest
		d.take(piece)
		if ends {
			d.readComment()
			d.line, d.skipped = d.line[:0], false
		}
	}
}

// take adds a piece to the line, unless it cannot be the comment.
func (d *decoder) take(piece []byte) {
	if d.skipped {
		return
	}
	if need := len(commentStart) - len(d.line); need > 0 {
		n := min(need, len(piece))
		if string(piece[:n]) != commentStart[len(d.line):len(d.line)+n] {
			d.skipped = true
			return
		}
	}
	if d.skipped = len(d.line)+len(piece) > maxComment; !d.skipped {
		d.line = append(d.line, piece...)
	}
}

func (d *decoder) readComment() {
	object, ok := bytes.CutPrefix(bytes.TrimSuffix(d.line, []byte("\r")), []byte(commentStart[:len(commentStart)-1]))
	if !ok || d.skipped {
		return
	}
	doc, err := jsonx.Scan(object)
	if err != nil {
		return
	}
	if cost, ok := policy.ParseCost(string(doc.Get(costMember).Raw)); ok {
		d.cost, d.known = cost, true
	}
}
