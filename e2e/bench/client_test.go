package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// answering is a client whose server sends text byte by byte and then nothing more.
func answering(t *testing.T, text string) *client {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = c.Read(make([]byte, 64)) // the request
		_, _ = io.Copy(c, iotest.OneByteReader(strings.NewReader(text)))
		_ = c.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // a TCP listener's
		_, _ = io.Copy(io.Discard, c)
	}()
	c, err := dial(t.Context(), l.Addr().String(), time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestAnAnswerCountsOnlyIfItIsWhole(t *testing.T) {
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name, answer string
		stream       bool
		wrong        string // part of the error; "" for none
	}{
		{"one piece", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes", false, ""},
		{"one empty piece", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false, ""},
		{"a stream", chunked + "8\r\ndata: 1\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", true, ""},
		{"its end in two chunks", chunked + "9\r\ndata: [DO\r\n5\r\nNE]\n\n\r\n0\r\n\r\n", true, ""},
		{"trailers", chunked + "e\r\ndata: [DONE]\n\n\r\n0\r\nx-cost: 1\r\n\r\n", true, ""},
		{"an error", "HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy", false, "status 503: …busy"},
		{"an error instead of a stream", "HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\n{}", true, "status 429"},
		{"a stream that was cut", chunked + "8\r\ndata: 1\n\r\n", true, "EOF"},
		{"a stream that ends early", chunked + "8\r\ndata: 1\n\r\n0\r\n\r\n", true, "no end"},
		{"a short body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nyes", false, "EOF"},
		{"no HTTP", "SSH-2.0-OpenSSH_9.9\r\n", false, "status line"},
		{"a chunk without a size", chunked + "what\r\n", true, "chunk of size"},
		{"nothing", "", false, "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, err := answering(t, tt.answer).do([]byte("POST / HTTP/1.1\r\n\r\n"), tt.stream)
			switch {
			case tt.wrong == "" && err != nil:
				t.Error(err)
			case tt.wrong == "" && first.IsZero():
				t.Error("no time of the first byte")
			case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
				t.Errorf("got %v, want %q", err, tt.wrong)
			}
		})
	}
}

func TestAConnectionServesOneAnswerAfterTheOther(t *testing.T) {
	one := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"
	c := answering(t, one+"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"+one)
	for i, stream := range []bool{false, true, false} {
		if _, err := c.do([]byte("x"), stream); err != nil {
			t.Fatalf("answer %d: %v", i+1, err)
		}
	}
}

func TestARequestHasTheSizeOfItsCase(t *testing.T) {
	for _, size := range []int{1_000, 50_000, 1_000_000} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(sizeName(size), " stream ", stream), func(t *testing.T) {
				raw := string(request("/v1/chat/completions", modelOne, "bardo_key", testCase{size: size, stream: stream}))
				head, payload, _ := strings.Cut(raw, "\r\n\r\n")
				if !strings.Contains(head, fmt.Sprintf("Content-Length: %d", size)) || !strings.Contains(head, "Bearer bardo_key") {
					t.Errorf("head %s", head)
				}
				var b struct {
					Model    string
					Stream   bool
					Messages []struct{ Role, Content string }
				}
				if err := json.Unmarshal([]byte(payload), &b); err != nil {
					t.Fatal(err)
				}
				if len(payload) != size || b.Model != modelOne || b.Stream != stream {
					t.Errorf("%d bytes, model %s, stream %v", len(payload), b.Model, b.Stream)
				}
				if last := b.Messages[len(b.Messages)-1]; last.Role != "user" {
					t.Errorf("the conversation ends with %s", last.Role)
				}
			})
		}
	}
}
