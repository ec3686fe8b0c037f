package ui

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// eventsOf returns a reader of a stream's events, in order; the name is "" at its end.
func eventsOf(t *testing.T, resp *http.Response) func() (name, data string) {
	t.Helper()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() (name, data string) {
		for lines.Scan() {
			switch text := lines.Text(); {
			case text == "" && name != "":
				return name, data
			case strings.HasPrefix(text, "event: "):
				name = text[len("event: "):]
			case strings.HasPrefix(text, "data: "):
				data = text[len("data: "):]
			}
		}
		return "", ""
	}
}

func TestStreamsAreBounded(t *testing.T) {
	var o streams
	for range maxViewerStreams {
		if !o.open("a") {
			t.Fatal("refused within the limit")
		}
	}
	if o.open("a") || !o.open("b") {
		t.Error("one viewer's streams are not bounded, or bound another one's")
	}
	o.close("a")
	if !o.open("a") {
		t.Error("a closed stream counts")
	}
	for i := 0; o.open(string(rune('c' + i))); i++ {
		if i > maxStreams {
			t.Fatal("all streams together are not bounded")
		}
	}
}

func TestAmountsForPeople(t *testing.T) {
	for want, got := range map[string]string{
		"$0.00": usd(0), "$0.000012": usd(12), "$1.50": usd(1_500_000), "$1234.56": usd(1_234_567_890), "−$0.25": usd(-250_000), "$0.0000000125": pico(12_500),
		"999": count(999), "1\u202f000": count(1000), "-12\u202f345": count(-12345), "7 ms": millis(7), "1.5 s": millis(1500), "2m 05s": millis(125_000),
		"512 B": byteCount(512), "1.5 KiB": byteCount(1536),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
