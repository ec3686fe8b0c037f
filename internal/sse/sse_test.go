package sse

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// frame is a copy of a Frame.
type frame struct {
	raw, event, data string
	hasData          bool
	tooLong          bool
}

func scan(t testing.TB, s *Scanner, chunks ...string) []frame {
	t.Helper()
	var got []frame
	keep := func(fs []Frame) {
		for _, f := range fs {
			if f.DataAt >= 0 && !bytes.Equal(f.Raw[f.DataAt:f.DataAt+len(f.Data)], f.Data) {
				t.Fatalf("DataAt %d of %q does not lead to %q", f.DataAt, f.Raw, f.Data)
			}
			got = append(got, frame{string(f.Raw), string(f.Event), string(f.Data), f.Data != nil, f.TooLong})
		}
	}
	for _, c := range chunks {
		b := []byte(c)
		keep(s.Next(b))
	}
	keep(s.End())
	return got
}

func TestFramesFollowTheStandardK37(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string
		want   []frame
	}{
		{"a named event", []string{"event: a\ndata: {}\n\n"}, []frame{{raw: "event: a\ndata: {}\n\n", event: "a", data: "{}", hasData: true}}},
		{"no space after the colon", []string{"data:{}\n\n"}, []frame{{raw: "data:{}\n\n", data: "{}", hasData: true}}},
		{"only one space is taken", []string{"data:  x\n\n"}, []frame{{raw: "data:  x\n\n", data: " x", hasData: true}}},
		{"CRLF", []string{"data: 1\r\n\r\ndata: 2\r\n\r\n"}, []frame{
			{raw: "data: 1\r\n\r\n", data: "1", hasData: true}, {raw: "data: 2\r\n\r\n", data: "2", hasData: true},
		}},
		{"bare CR", []string{"data: 1\r\rdata: 2\r\r"}, []frame{
			{raw: "data: 1\r\r", data: "1", hasData: true}, {raw: "data: 2\r\r", data: "2", hasData: true},
		}},
		{"CR and LF in different chunks", []string{"data: 1\r", "\n\r", "\ndata: 2\r\n", "\r\n"}, []frame{
			{raw: "data: 1\r\n\r\n", data: "1", hasData: true}, {raw: "data: 2\r\n\r\n", data: "2", hasData: true},
		}},
		{"mixed line ends", []string{"data: 1\n\r\ndata: 2\r\ndata: 3\r\n\ndata: 4\r\r\n"}, []frame{
			{raw: "data: 1\n\r\n", data: "1", hasData: true},
			{raw: "data: 2\r\ndata: 3\r\n\n", data: "2\n3", hasData: true},
			{raw: "data: 4\r\r", data: "4", hasData: true},
			{raw: "\n"},
		}},
		{"a byte order mark", []string{"\xef\xbb", "\xbfdata: 1\n\ndata: 2\n\n"}, []frame{
			{raw: "\xef\xbb\xbfdata: 1\n\n", data: "1", hasData: true}, {raw: "data: 2\n\n", data: "2", hasData: true},
		}},
		{"the last event unterminated", []string{"data: 1\n\ndata: 2"}, []frame{
			{raw: "data: 1\n\n", data: "1", hasData: true}, {raw: "data: 2", data: "2", hasData: true},
		}},
		{"several data lines", []string{"data: a\ndata\ndata:b\n\n"}, []frame{{raw: "data: a\ndata\ndata:b\n\n", data: "a\n\nb", hasData: true}}},
		{"comments only", []string{": hi\n\n"}, []frame{{raw: ": hi\n\n"}}},
		{"a comment before an event", []string{": hi\ndata: 1\n\n"}, []frame{{raw: ": hi\ndata: 1\n\n", data: "1", hasData: true}}},
		{"blank lines between events", []string{"data: 1\n\n\ndata: 2\n\n"}, []frame{
			{raw: "data: 1\n\n", data: "1", hasData: true}, {raw: "\n"}, {raw: "data: 2\n\n", data: "2", hasData: true},
		}},
		{"id, retry and unknown fields", []string{"id: 7\nretry: 3\nx: y\ndata:\n\n"}, []frame{{raw: "id: 7\nretry: 3\nx: y\ndata:\n\n", hasData: true}}},
		{"nothing", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := scan(t, &Scanner{}, tt.chunks...); !slices.Equal(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestAFrameOfBareCRsIsNotHeldBackForAnLF(t *testing.T) {
	var s Scanner
	if n := len(s.Next([]byte("data: 1\r\r"))); n != 1 {
		t.Fatalf("got %d frames, want 1 at once", n)
	}
}

func TestAnEventThatIsTooLongIsDroppedInBoundedMemoryK39(t *testing.T) {
	s := &Scanner{Max: 64}
	var got []frame
	keep := func(fs []Frame) {
		for _, f := range fs {
			got = append(got, frame{raw: string(f.Raw), data: string(f.Data), hasData: f.Data != nil, tooLong: f.TooLong})
		}
	}
	keep(s.Next([]byte("data: before\n\ndata: ")))
	for range 1 << 14 {
		keep(s.Next([]byte(strings.Repeat("x", 64))))
	}
	keep(s.Next([]byte("\n")))
	keep(s.Next([]byte("\ndata: after\n\n")))
	want := []frame{
		{raw: "data: before\n\n", data: "before", hasData: true},
		{tooLong: true},
		{raw: "data: after\n\n", data: "after", hasData: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if cap(s.buf) > 4096 {
		t.Errorf("the buffer grew to %d bytes for a limit of 64", cap(s.buf))
	}
}

func TestFramesInsideAChunkAreNotCopied(t *testing.T) {
	chunk := []byte(strings.Repeat("event: delta\ndata: {\"x\":1}\n\n", 20))
	var s Scanner
	s.Next(chunk)
	if n := testing.AllocsPerRun(100, func() { s.Next(chunk) }); n != 0 {
		t.Errorf("%v allocations for each chunk", n)
	}
	if f := s.Next(chunk)[3]; &f.Raw[0] != &chunk[3*len(f.Raw)] {
		t.Error("the frame does not alias its chunk")
	}
}

func TestAppend(t *testing.T) {
	tests := []struct{ name, got, want string }{
		{"an event", string(AppendEvent(nil, "ping", []byte("{}"))), "event: ping\ndata: {}\n\n"},
		{"an event without a name", string(AppendEvent(nil, "", []byte("[DONE]"))), "data: [DONE]\n\n"},
		{"data of several lines", string(AppendEvent(nil, "", []byte("a\nb\r\nc\rd"))), "data: a\ndata: b\ndata: c\ndata: d\n\n"},
		{"a comment", string(AppendComment(nil, "bardo {}")), ": bardo {}\n"},
		{"a comment that tries to be a field", string(AppendComment(nil, "a\ndata: b\r")), ": a data: b \n"},
		{"the heartbeat is a comment", string(AppendComment(nil, "heartbeat")), Heartbeat},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %q, want %q", tt.got, tt.want)
			}
		})
	}
}

func FuzzWhereTheStreamIsCutChangesNothing(f *testing.F) {
	f.Add("event: a\ndata: {}\n\n: hi\n\ndata: 2", uint16(3), uint8(0))
	f.Add("data: 1\r\n\r\ndata: 2\r\r\n\ndata:3\r", uint16(1), uint8(9))
	f.Add("\xef\xbb\xbfdata: a\ndata: b\n\n\n\r\n", uint16(2), uint8(200))
	f.Add("\xef\xbbdata: a\n\nid: 1\nevent:b\nevent: c\ndata:\n: hi\n\ndata\n\ndata:  x\ndata: y\n\nevent\ndata: 12345678\n\ndata: 1\n", uint16(5), uint8(17))
	f.Fuzz(func(t *testing.T, stream string, seed uint16, limit uint8) {
		whole := scan(t, &Scanner{Max: int(limit)}, stream)
		if got := scan(t, &Scanner{Max: int(limit)}, cut(stream, seed)...); !slices.Equal(got, whole) {
			t.Fatalf("cut %q\ngot  %+v\nwant %+v", cut(stream, seed), got, whole)
		}
		var joined strings.Builder
		for _, fr := range whole {
			if fr.tooLong {
				return
			}
			joined.WriteString(fr.raw)
		}
		if joined.String() != stream {
			t.Fatalf("the frames are %q, the stream is %q", joined.String(), stream)
		}
	})
}

// cut splits s into pieces of 1 to 8 bytes that depend on seed; seed 0 cuts at every byte.
func cut(s string, seed uint16) []string {
	var pieces []string
	for r := uint32(seed); s != ""; {
		n := 1
		if seed > 0 {
			r = r*1664525 + 1013904223
			n = min(1+int(r>>29), len(s))
		}
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

func BenchmarkNext(b *testing.B) {
	chunk := []byte(strings.Repeat(`event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello there"}}

`, 32))
	var s Scanner
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		s.Next(chunk)
	}
}
