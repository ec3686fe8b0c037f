package replay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
)

// FuzzFirstPiece: the pieces of a text are the text, none is empty or long, and no character is cut.
func FuzzFirstPiece(f *testing.F) {
	f.Add("a text of some words that is longer than one piece of it may be")
	f.Add(strings.Repeat("日本語", 30))
	f.Add(strings.Repeat("x", 100) + " y")
	f.Fuzz(func(t *testing.T, text string) {
		var whole []byte
		for rest := []byte(text); len(rest) > 0; {
			var piece []byte
			piece, rest = firstPiece(rest, pieceSize)
			if len(piece) == 0 || len(piece) > pieceSize {
				t.Fatalf("a piece of %d bytes", len(piece))
			}
			if utf8.ValidString(text) && !utf8.Valid(piece) {
				t.Fatalf("%q cuts a character", piece)
			}
			whole = append(whole, piece...)
		}
		if string(whole) != text {
			t.Errorf("%q became %q", text, whole)
		}
	})
}

// storedIn returns an answer to a client of one format, for a client of another.
func storedIn(asked, wants cache.Format, events ...chat.Event) *Answer {
	a := &Answer{Entry: cache.NewEntry(events), Format: wants}
	a.Entry.Format = asked
	return a
}

// format lists what a replay yields, with "|" before each piece of content.
func format(a *Answer) string {
	var b strings.Builder
	a.Events(func(ev *chat.Event, step bool) bool {
		if step {
			_ = b.WriteByte('|')
		}
		if ev.Raw != nil {
			_, _ = b.WriteString("raw:" + string(ev.Raw))
		} else {
			_, _ = b.Write(ev.Text)
		}
		return true
	})
	return b.String()
}

func TestAStoredAnswerComesInTheFormThatIsWanted(t *testing.T) {
	stream, body := cache.Format{Dialect: chat.OpenAI, Stream: true}, cache.Format{Dialect: chat.OpenAI}
	chunks := []chat.Event{
		{Kind: chat.Start, Raw: []byte("1")},
		{Kind: chat.Text, Text: []byte("one "), Tail: true},
		{Kind: chat.Text, Text: []byte("two "), Raw: []byte("2")},
		{Kind: chat.End, Raw: []byte("3")},
	}
	whole := chat.Event{Kind: chat.Text, Text: []byte("a text that comes in one piece, and longer than one is"), Raw: []byte("body")}
	for _, tt := range []struct {
		name         string
		asked, wants cache.Format
		events       []chat.Event
		want         string
	}{
		{"as it was asked", stream, stream, chunks, "|raw:1one |raw:2|raw:3"},
		{"in the other dialect", stream, cache.Format{Dialect: chat.Anthropic, Stream: true}, chunks, "|one |two "},
		{"as a body", stream, body, chunks, "|one |two "},
		{"a body as it was", body, body, []chat.Event{whole}, "|raw:body"},
		{"a body as a stream", body, stream, []chat.Event{whole}, "|a text that comes in one piece, |and longer than one is"},
		{"arguments are not cut", body, stream, []chat.Event{{Kind: chat.ToolArgs, Text: []byte(strings.Repeat("x", 50))}}, "|" + strings.Repeat("x", 50)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := format(storedIn(tt.asked, tt.wants, tt.events...)); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
		})
	}
}

// TestALongTextComesInLargerPieces: each piece is a chunk of its own, ten times as long as 32 bytes of text, and all of them wait in Envoy for a
// client that reads slowly.
func TestALongTextComesInLargerPieces(t *testing.T) {
	long := strings.Repeat("some words ", 200_000)
	a := storedIn(cache.Format{}, cache.Format{Stream: true}, chat.Event{Kind: chat.Text, Text: []byte(long)})
	got := format(a)
	if strings.ReplaceAll(got, "|", "") != long {
		t.Error("the text is another")
	}
	if n := strings.Count(got, "|"); n < 1000 || n > 1100 {
		t.Errorf("%d pieces", n)
	}
}

// TestD33Pacing: a piece every 30 ms, several at a time if that would take more than ten seconds, without pauses for Fast.
func TestD33Pacing(t *testing.T) {
	for _, tt := range []struct {
		name        string
		pieces      int
		fast        bool
		least, most time.Duration
	}{
		{"one", 1, false, 0, 0},
		{"ten", 10, false, 9 * pause, 9 * pause},
		{"as many as there is time for", 333, false, 332 * pause, maxDuration},
		{"more", 334, false, 166 * pause, maxDuration},
		{"many", 100_000, false, 9 * time.Second, maxDuration},
		{"in a hurry", 100_000, true, 0, 0},
		{"nothing", 0, false, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				form := cache.Format{Stream: true}
				events := make([]chat.Event, tt.pieces)
				for i := range events {
					events[i] = chat.Event{Kind: chat.Text, Text: []byte("x")}
				}
				a := storedIn(form, form, events...)
				a.Fast = tt.fast
				began := time.Now()
				p := a.NewPacer()
				defer p.Stop()
				for range tt.pieces {
					if p.Due() && p.Wait(t.Context()) != nil {
						t.Fatal("it was interrupted")
					}
				}
				if took := time.Since(began); took < tt.least || took > tt.most {
					t.Errorf("%d pieces took %s, want %s to %s", tt.pieces, took, tt.least, tt.most)
				}
			})
		})
	}
}

func TestAClientThatLeavesEndsThePacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		a := storedIn(cache.Format{Stream: true}, cache.Format{Stream: true}, chat.Event{Kind: chat.Text, Text: []byte("x")})
		p := a.NewPacer()
		defer p.Stop()
		cancel(gone)
		if err := p.Wait(ctx); !errors.Is(err, gone) {
			t.Errorf("waiting ended with %v", err)
		}
	})
}
