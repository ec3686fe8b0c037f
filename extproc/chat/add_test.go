package chat_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
)

func TestAnAddedEventIsEmpty(t *testing.T) {
	events := []chat.Event{{Kind: chat.Start, ID: "x"}, {Kind: chat.Text, Text: []byte("old"), Tail: true}}[:1]
	ev := chat.Add(&events)
	if len(events) != 2 || ev != &events[1] || ev.Kind != chat.Start || ev.Text != nil || ev.Tail || events[0].ID != "x" {
		t.Errorf("got %+v", events)
	}
	events = nil
	if chat.Add(&events).Index = 7; len(events) != 1 || events[0].Index != 7 {
		t.Errorf("got %+v", events)
	}
}
