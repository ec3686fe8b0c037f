package chat_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

func TestARewriterNumbersBlocksInTheOrderInWhichTheyAreWritten(t *testing.T) {
	var w chat.Rewriter
	w.CopyBlock(&chat.Event{Kind: chat.Text, Index: 4})
	added := w.Open()
	w.CopyBlock(&chat.Event{Kind: chat.ToolArgs, Index: 2})
	w.CopyBlock(&chat.Event{Kind: chat.Text, Index: 4})
	w.CopyExtra(&chat.Event{Kind: chat.Extra, Index: 2})
	w.CopyExtra(&chat.Event{Kind: chat.Extra, Index: 9})
	w.Stop(added, 0)
	var got []int
	for _, ev := range w.Events {
		got = append(got, ev.Index)
	}
	if want := []int{0, 2, 0, 2, 9, 1}; !slices.Equal(got, want) {
		t.Errorf("blocks %v, want %v", got, want)
	}
	if !w.Has(2) || w.Has(9) {
		t.Errorf("block 2 written: %v; block 9: %v", w.Has(2), w.Has(9))
	}
}

func TestARewriterContinuesBehindForwardedBlocks(t *testing.T) {
	var w chat.Rewriter
	w.KeepFirst(2)
	if got := w.CopyBlock(&chat.Event{Index: 1}).Index; got != 1 {
		t.Errorf("a forwarded block became %d", got)
	}
	if got := w.CopyBlock(&chat.Event{Index: 2}).Index; got != 2 {
		t.Errorf("the next block is %d", got)
	}
}

func TestACopyLosesTheBytesOfItsProvider(t *testing.T) {
	var w chat.Rewriter
	ev := chat.Event{Kind: chat.Text, Raw: []byte("data"), Tail: true, UsageChunk: true, ModelSpan: chat.Span{1, 2}}
	if e := w.Copy(&ev); e.Raw != nil || e.Tail || e.UsageChunk || e.ModelSpan != (chat.Span{}) {
		t.Errorf("copied %+v", e)
	}
	w.Reset()
	if len(w.Events) != 0 {
		t.Errorf("%d events after Reset", len(w.Events))
	}
}
