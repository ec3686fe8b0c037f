package chat_test

import (
	"fmt"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

func TestFramesWithCallsAreMarked(t *testing.T) {
	raw := []byte("x")
	for about, row := range map[string]struct {
		events []chat.Event
		want   string
	}{
		"events without frames":     {[]chat.Event{{Kind: chat.ToolStart}, {Kind: chat.ToolArgs}}, "[0 0]"},
		"a frame of text":           {[]chat.Event{{Kind: chat.Start, Raw: raw}, {Kind: chat.Text, Tail: true}}, "[0 0]"},
		"a call in the first frame": {[]chat.Event{{Kind: chat.Start, Raw: raw}, {Kind: chat.ToolStart, Tail: true}, {Kind: chat.Text, Raw: raw}}, "[1 2 0]"},
		"two calls in a frame":      {[]chat.Event{{Kind: chat.ToolStart, Raw: raw}, {Kind: chat.ToolStart, Tail: true}}, "[1 2]"},
		"one event":                 {[]chat.Event{{Kind: chat.Text, Raw: raw}, {Kind: chat.ToolArgs, Raw: raw}, {Kind: chat.Other, Raw: raw}}, "[0 2 0]"},
		"an end with the bytes":     {[]chat.Event{{Kind: chat.Start, Tail: true}, {Kind: chat.ToolStart, Tail: true}, {Kind: chat.End, Raw: raw}}, "[1 2 0]"},
		"nothing":                   {nil, "[]"},
	} {
		chat.MarkCalls(row.events)
		got := make([]int, len(row.events))
		for i := range row.events {
			got[i] = int(row.events[i].Frame)
		}
		if s := fmt.Sprint(got); s != row.want {
			t.Errorf("%s: marked %v, want %s", about, got, row.want)
		}
	}
}
