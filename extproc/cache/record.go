package cache

import (
	"bytes"
	"encoding/binary"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// An answer is stored as a compact record of its events, each with only its non-zero fields: a chat.Event takes about 250 bytes before
// any text.

// Flags of the fields of a recorded event, in the order in which the fields are written.
const (
	hasTail = 1 << iota
	hasRedundant
	hasUsageChunk
	hasRaw   // with the span of the model's name
	hasPlace // Index and Choice
	hasText
	hasTextInRaw // the text as an offset and length in the last raw bytes
	hasNames
	hasTool
	hasReason
	hasUsage
	hasCites
	hasFrame1 // the two bits of Frame
	hasFrame2
)

// minSharedText is the shortest text in bytes that is stored as a reference into the raw bytes.
const minSharedText = 8

// recorder writes a record.
type recorder struct {
	b            []byte
	raw          []byte // the raw bytes of the last event that has any; the text of an event is often part of them
	searchBudget int    // bytes of raw that may still be searched
}

// maxSearches bounds the search for texts in raw bytes: at most this many times their length.
const maxSearches = 8

func flag(on bool, bit uint64) uint64 {
	if on {
		return bit
	}
	return 0
}

// add appends an event. Err is left out: answers with errors are not stored.
func (r *recorder) add(ev *chat.Event) {
	if ev.Raw != nil {
		r.raw, r.searchBudget = ev.Raw, maxSearches*len(ev.Raw)
	}
	at := r.inRaw(ev)
	fields := flag(ev.Tail, hasTail) | flag(ev.Redundant, hasRedundant) | flag(ev.UsageChunk, hasUsageChunk) | flag(ev.Raw != nil, hasRaw) |
		flag(ev.Index != 0 || ev.Choice != 0, hasPlace) | flag(len(ev.Text) > 0 && at < 0, hasText) | flag(at >= 0, hasTextInRaw) |
		flag(ev.ID != "" || ev.Model != "", hasNames) | flag(ev.Tool != chat.ToolCall{}, hasTool) |
		flag(ev.Reason != "", hasReason) | flag(ev.Usage != chat.Usage{}, hasUsage) | flag(len(ev.Cites) > 0, hasCites) |
		flag(ev.Frame&1 != 0, hasFrame1) | flag(ev.Frame&2 != 0, hasFrame2)
	w := writer{b: append(r.b, byte(ev.Kind))}
	w.uint(fields)
	if fields&hasRaw != 0 {
		w.bytes(ev.Raw)
		r.raw = w.b[len(w.b)-len(ev.Raw):]
		w.ints(ev.ModelSpan.Start, ev.ModelSpan.End)
	}
	if fields&hasPlace != 0 {
		w.ints(ev.Index, ev.Choice)
	}
	if fields&hasText != 0 {
		w.bytes(ev.Text)
	}
	if fields&hasTextInRaw != 0 {
		w.ints(at, len(ev.Text))
	}
	if fields&hasNames != 0 {
		w.text(ev.ID)
		w.text(ev.Model)
	}
	if fields&hasTool != 0 {
		w.text(ev.Tool.ID)
		w.text(ev.Tool.Name)
		w.text(ev.Tool.Args)
	}
	if fields&hasReason != 0 {
		w.text(string(ev.Reason))
	}
	if fields&hasUsage != 0 {
		w.usage(&ev.Usage)
	}
	if fields&hasCites != 0 {
		w.cites(ev.Cites)
	}
	r.b = w.b
}

// inRaw is the offset of an event's text in the last raw bytes; -1 if it is not there, or too short.
func (r *recorder) inRaw(ev *chat.Event) int {
	if len(ev.Text) < minSharedText || (ev.Raw == nil && !ev.Tail) || r.searchBudget < len(r.raw) {
		return -1
	}
	at := bytes.Index(r.raw, ev.Text)
	if at < 0 {
		r.searchBudget -= len(r.raw)
		return -1
	}
	r.searchBudget -= at
	return at
}

func (w *writer) ints(ns ...int) {
	for _, n := range ns {
		w.uint(uint64(max(0, n)))
	}
}

func (w *writer) usage(u *chat.Usage) {
	for _, n := range [...]int64{u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, u.Searches} {
		w.uint(uint64(max(0, n)))
	}
	w.bool(u.Estimated)
	w.bool(u.ReasoningEstimated)
	w.bool(u.Final)
	w.ints(int(u.Cost))
	w.bool(u.CostKnown)
	w.text(u.Tier)
}

func (w *writer) cites(cs []chat.Citation) {
	w.ints(len(cs))
	for i := range cs {
		c := &cs[i]
		for _, s := range [...]string{c.URL, c.Title, c.Quote, c.File} {
			w.text(s)
		}
		w.ints(c.Start, c.End)
	}
}

// reader parses a record. Slices of its events are parts of the record and must not be modified.
type reader struct {
	b   []byte
	raw []byte
	bad bool
}

// next reads the next event into ev. It returns false at the end and after an error.
func (r *reader) next(ev *chat.Event) bool {
	*ev = chat.Event{}
	if len(r.b) == 0 || r.bad {
		return false
	}
	ev.Kind = chat.EventKind(r.b[0])
	r.b = r.b[1:]
	fields := r.uint()
	ev.Tail, ev.Redundant, ev.UsageChunk = fields&hasTail != 0, fields&hasRedundant != 0, fields&hasUsageChunk != 0
	ev.Frame = chat.FramePart(fields / hasFrame1 & 3)
	if fields&hasRaw != 0 {
		r.raw = r.bytes()
		ev.Raw, ev.ModelSpan = r.raw, chat.Span{Start: r.int(), End: r.int()}
	}
	if fields&hasPlace != 0 {
		ev.Index, ev.Choice = r.int(), r.int()
	}
	if fields&hasText != 0 {
		ev.Text = r.bytes()
	}
	if fields&hasTextInRaw != 0 {
		ev.Text = r.part(r.int(), r.int())
	}
	if fields&hasNames != 0 {
		ev.ID, ev.Model = string(r.bytes()), string(r.bytes())
	}
	if fields&hasTool != 0 {
		ev.Tool = chat.ToolCall{ID: string(r.bytes()), Name: string(r.bytes()), Args: string(r.bytes())}
	}
	if fields&hasReason != 0 {
		ev.Reason = chat.StopReason(r.bytes())
	}
	if fields&hasUsage != 0 {
		ev.Usage = r.usage()
	}
	if fields&hasCites != 0 {
		ev.Cites = r.cites()
	}
	return !r.bad
}

func (r *reader) cites() (cs []chat.Citation) {
	for n := r.int(); n > 0 && !r.bad; n-- {
		cs = append(cs, chat.Citation{
			URL: string(r.bytes()), Title: string(r.bytes()), Quote: string(r.bytes()), File: string(r.bytes()), Start: r.int(), End: r.int(),
		})
	}
	return cs
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) int() int {
	n := r.uint()
	if n > 1<<62 {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) bytes() []byte {
	n := r.int()
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// part is n of the last raw bytes, from offset at.
func (r *reader) part(at, n int) []byte {
	if at > len(r.raw) || n > len(r.raw)-at {
		r.bad = true
		return nil
	}
	return r.raw[at : at+n : at+n]
}

func (r *reader) bool() bool {
	if len(r.b) == 0 {
		r.bad = true
		return false
	}
	on := r.b[0] != 0
	r.b = r.b[1:]
	return on
}

func (r *reader) usage() (u chat.Usage) {
	for _, n := range [...]*int64{&u.Input, &u.Cached, &u.CacheWrite, &u.CacheWrite1h, &u.Output, &u.Reasoning, &u.Searches} {
		*n = int64(r.int())
	}
	u.Estimated, u.ReasoningEstimated, u.Final = r.bool(), r.bool(), r.bool()
	u.Cost = policy.Pico(r.int())
	u.CostKnown = r.bool()
	u.Tier = string(r.bytes())
	return u
}
