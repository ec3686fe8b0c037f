package chat

// Rewriter collects the events of an answer whose content blocks change: where a reader splits, adds or drops blocks, the remaining ones are
// numbered again in the order in which they are written. Copied events lose the provider's bytes, which describe the old blocks. The zero
// value is ready to use. Not safe for concurrent use.
type Rewriter struct {
	Events []Event // written since the last Reset

	numbers map[int]int // new number of a block, by its number in the provider's answer
	blocks  int         // numbers assigned so far
}

// Reset drops the collected events and reuses their memory. Block numbers stay.
func (w *Rewriter) Reset() { w.Events = w.Events[:0] }

// Add appends an empty event and returns it to be filled in; the pointer is valid until the next call.
func (w *Rewriter) Add() *Event { return Add(&w.Events) }

// Copy appends an event without its provider's bytes; the pointer is valid until the next call.
func (w *Rewriter) Copy(ev *Event) *Event {
	w.Events = append(w.Events, *ev)
	e := &w.Events[len(w.Events)-1]
	e.Raw, e.Tail, e.ModelSpan, e.UsageChunk, e.Frame = nil, false, Span{}, false, NoCalls
	return e
}

// CopyBlock is Copy with the new number of the event's block, which is opened if it has none.
func (w *Rewriter) CopyBlock(ev *Event) *Event {
	n, ok := w.numbers[ev.Index]
	if !ok {
		n = w.Open()
		w.Assign(ev.Index, n)
	}
	e := w.Copy(ev)
	e.Index = n
	return e
}

// CopyExtra copies an Extra: with the new number of its block if that was written, unchanged otherwise.
func (w *Rewriter) CopyExtra(ev *Event) {
	e := w.Copy(ev)
	if n, ok := w.numbers[ev.Index]; ok {
		e.Index = n
	}
}

// Stop appends the end of a block, given by its new number.
func (w *Rewriter) Stop(number, choice int) {
	e := w.Add()
	e.Kind, e.Index, e.Choice = BlockStop, number, choice
}

// Open returns the number of a new block.
func (w *Rewriter) Open() int {
	w.blocks++
	return w.blocks - 1
}

// Assign sets the new number of a block of the provider's answer.
func (w *Rewriter) Assign(block, number int) {
	if w.numbers == nil {
		w.numbers = map[int]int{}
	}
	w.numbers[block] = number
}

// KeepFirst lets the first n blocks keep their numbers: they were forwarded unchanged.
func (w *Rewriter) KeepFirst(n int) {
	for i := range n {
		w.Assign(i, i)
	}
	w.blocks = n
}

// Has reports whether a block of the provider's answer was written.
func (w *Rewriter) Has(block int) bool {
	_, ok := w.numbers[block]
	return ok
}
