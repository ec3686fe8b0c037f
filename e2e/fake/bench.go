package fake

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bench makes a fake answer with bytes that were rendered once: nothing is checked or recorded, so that a benchmark
// measures what stands before it. Credentials are not looked at either.
type Bench struct {
	Tokens    int           // pieces of content per answer; 0: 16
	TokenSize int           // bytes of each; 0: about 5
	Latency   time.Duration // before the headers
	Gap       time.Duration // between the events of a stream
	Hold      bool          // a stream stays open after its first piece of content, until its caller ends it
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (b *Bench) handler(a api) http.Handler {
	tokens := b.Tokens
	if tokens == 0 {
		tokens = 16
	}
	say := &Behaviour{Tokens: tokens, TokenSize: b.TokenSize}
	q := &asked{model: "bench", choices: 1, inputTokens: 100, includeUsage: true}
	body := a.body(q, say, 1)
	frames := a.stream(q, say, 1)
	var whole strings.Builder
	for _, f := range frames {
		whole.WriteString(f.data)
	}
	all := []byte(whole.String())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf, _ := buffers.Get().(*bytes.Buffer)
		buf.Reset()
		defer buffers.Put(buf)
		if _, err := io.Copy(buf, r.Body); err != nil {
			return
		}
		if b.Latency > 0 {
			wait(r, b.Latency)
		}
		if !asksStream(buf.Bytes()) {
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
			_, _ = w.Write(body)
			return
		}
		w.Header()["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
		if b.Gap == 0 && !b.Hold {
			_, _ = w.Write(all)
			return
		}
		b.pace(w, r, frames)
	})
}

func (b *Bench) pace(w http.ResponseWriter, r *http.Request, frames []frame) {
	flush := http.NewResponseController(w)
	for _, f := range frames {
		if f.token && !wait(r, b.Gap) {
			return
		}
		if _, err := io.WriteString(w, f.data); err != nil {
			return
		}
		if f.token && flush.Flush() != nil {
			return
		}
		if f.token && b.Hold {
			<-r.Context().Done()
			return
		}
	}
}

// wait returns false when the caller went away.
func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// asksStream finds "stream": true without parsing the body.
func asksStream(body []byte) bool {
	_, rest, _ := bytes.Cut(body, []byte(`"stream"`))
	return bytes.HasPrefix(bytes.TrimLeft(rest, " :"), []byte("true"))
}
