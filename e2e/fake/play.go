package fake

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// frame is one event of a stream. Token frames carry content: they are what Gap, FirstToken and Break.Tokens count.
type frame struct {
	data  string
	token bool
	last  bool // the terminator
	usage bool // what the answer took, behind its end
}

// errBroken ends a play that was meant to end there.
var errBroken = errors.New("broken off on purpose")

// player writes one answer. Its err is the first failure; after it nothing is written.
type player struct {
	s      *Server
	api    api
	w      http.ResponseWriter
	r      *http.Request
	rec    *Request
	b      *Behaviour
	n      int64
	id     string
	sealed bool      // the answer is collected first, and sealed
	sum    hash.Hash // of a stream that is signed; nil for any other
	err    error
}

func (p *player) play(o outcome) {
	if o.asked != nil && p.b.From != nil {
		b := p.b.From(p.rec)
		p.b = &b
	}
	if o.asked != nil {
		p.b = p.b.formed(o.asked)
	}
	p.sleep(p.b.HeaderDelay)
	p.breakAt(BeforeHeaders, 0)
	switch {
	case p.err != nil:
	case o.refused != nil:
		p.refuse(o.refused)
	case p.b.Raw != nil:
		p.raw(p.b.Raw)
	case p.b.Status >= http.StatusBadRequest:
		p.refuse(p.programmed())
	default:
		p.vary()
		p.answer(o)
	}
}

// answer writes a successful answer.
func (p *player) answer(o outcome) {
	switch {
	case o.unchanged:
		p.w.Header().Set("ETag", o.etag)
		p.unchanged()
	case o.raw != nil:
		p.raw(o.raw)
	case o.asked == nil:
		if o.etag != "" {
			p.w.Header().Set("ETag", o.etag)
		}
		p.body(http.StatusOK, o.fixed)
	case o.asked.stream:
		p.stream(p.api.stream(o.asked, p.b, p.n))
	default:
		p.json(o.asked)
	}
}

// programmed is the error that the behaviour asks for.
func (p *player) programmed() *refusal {
	status := p.b.Status
	if status == 0 {
		status = 529
		if p.s.cfg.Dialect != Anthropic {
			status = http.StatusServiceUnavailable
		}
	}
	e := *p.api.errorFor(status)
	for dst, v := range map[*string]string{&e.Kind: p.b.ErrorType, &e.Code: p.b.ErrorCode, &e.Message: p.b.Message} {
		if v != "" {
			*dst = v
		}
	}
	return &e
}

func (p *player) refuse(e *refusal) {
	if p.b.RetryAfter != "" {
		p.w.Header().Set("Retry-After", p.b.RetryAfter)
	}
	p.body(e.Status, p.api.refusal(e, p.id))
}

func (p *player) raw(a *Raw) {
	for _, h := range a.Header {
		name, value, _ := strings.Cut(h, ":")
		p.w.Header().Add(name, strings.TrimSpace(value))
	}
	p.header(a.Status)
	if p.breakAt(AfterHeaders, 0); p.err == nil {
		p.write(a.Body)
	}
}

func (p *player) json(q *asked) {
	if p.b.Break.Kind == ErrorEvent {
		p.body(http.StatusOK, p.api.refusal(p.programmed(), p.id))
		return
	}
	p.sleep(p.b.FirstToken)
	p.body(http.StatusOK, p.api.body(q, p.b, p.n))
}

// body answers with a whole body.
func (p *player) body(status int, body []byte) {
	h := p.w.Header()
	p.api.headers(h, p.id)
	h.Set("Content-Type", "application/json")
	if p.b.Encoding != "" {
		h.Set("Content-Encoding", p.b.Encoding)
		body = encode(p.b.Encoding, body)
	}
	var late []string
	if status == http.StatusOK && p.attests() && !p.sealed {
		late = p.sign(body)
	}
	if late == nil {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	p.header(status)
	p.breakAt(AfterHeaders, 0)
	half := len(body) / 2
	p.write(string(body[:half]))
	p.breakAt(AfterTokens, p.b.Break.Tokens)
	p.write(string(body[half:]))
	p.trail(late)
}

// vary changes the headers of a successful answer as the behaviour says.
func (p *player) vary() {
	h := p.w.Header()
	for _, f := range p.s.cfg.Vendor.confirmation() {
		h.Set(f[0], f[1])
	}
	for _, f := range p.b.Header {
		if name, without := strings.CutPrefix(f, "-"); without {
			h.Del(name)
			continue
		}
		name, value, _ := strings.Cut(f, ":")
		h.Add(name, strings.TrimSpace(value))
	}
}

// stream answers with events.
func (p *player) stream(fs []frame) {
	h := p.w.Header()
	p.api.headers(h, p.id)
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	if p.attests() && !p.sealed {
		p.sum = sha256.New()
		defer p.signStream()
	}
	p.header(http.StatusOK)
	p.breakAt(AfterHeaders, 0)
	tokens := 0
	for i, f := range fs {
		if f.token {
			p.beforeToken(tokens)
			tokens++
		}
		if f.usage {
			p.sleep(p.b.UsageDelay)
		}
		if f.last && p.b.Shape.NoTerminator {
			break
		}
		p.write(p.shape(f.data, i == len(fs)-1))
	}
	p.breakAt(AfterTokens, tokens)
}

func (p *player) beforeToken(n int) {
	if n == 0 {
		p.sleep(p.b.FirstToken)
	} else {
		p.sleep(p.b.Gap)
	}
	p.breakAt(AfterTokens, n)
	p.write(p.b.Shape.Before[n])
}

// shape gives an event's bytes the form that the behaviour asks for.
func (p *player) shape(data string, final bool) string {
	sh := p.b.Shape
	if final && sh.Unterminated {
		data = strings.TrimRight(data, "\r\n")
	}
	if sh.NoSpace {
		data = strings.Replace(strings.Replace(data, "data: ", "data:", 1), "event: ", "event:", 1)
	}
	if sh.LineEnd != "" {
		data = strings.ReplaceAll(strings.ReplaceAll(data, "\r\n", "\n"), "\n", sh.LineEnd)
	}
	return data
}

// header sends status and headers now, before any byte of the body.
func (p *player) header(status int) {
	if p.err != nil {
		return
	}
	p.w.WriteHeader(status)
	p.s.log.update(func() { p.rec.Status = status })
	p.flush()
}

// write sends data in pieces of Shape.Cut bytes.
func (p *player) write(data string) {
	cut := p.b.Shape.Cut
	if cut == 0 {
		cut = len(data)
	}
	for data != "" && p.err == nil {
		n := min(cut, len(data))
		if p.sum != nil {
			p.sum.Write([]byte(data[:n]))
		}
		sent, err := p.w.Write([]byte(data[:n]))
		p.s.log.update(func() { p.rec.Sent += int64(sent) })
		p.err = err
		p.flush()
		if data = data[n:]; data != "" && p.b.Shape.CutGap > 0 {
			p.sleep(p.b.Shape.CutGap)
		}
	}
}

func (p *player) flush() {
	if err := http.NewResponseController(p.w).Flush(); err != nil && p.err == nil {
		p.err = err
	}
}

// sleep waits, unless the caller goes away or the fake is stopped.
func (p *player) sleep(d time.Duration) {
	if p.err != nil {
		return
	}
	if d <= 0 {
		p.err = context.Cause(p.r.Context())
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.r.Context().Done():
		p.err = context.Cause(p.r.Context())
	case <-p.s.stopped:
		p.err = http.ErrServerClosed
	}
}

// breakAt breaks off if the behaviour says so for this place.
func (p *player) breakAt(at Stage, tokens int) {
	br := p.b.Break
	if p.err != nil || br.Kind == Healthy || br.At != at || br.Tokens != tokens {
		return
	}
	switch br.Kind {
	case Healthy:
	case Hang:
		p.hang()
	case ErrorEvent:
		if at == BeforeHeaders {
			return
		}
		p.write(p.shape(p.api.errorFrame(p.programmed()).data, false))
		p.err = errBroken
	case Stop:
		p.err = errBroken
	case Reset, Close:
		p.cut(br.Kind, at)
	}
}

func (p *player) hang() {
	select {
	case <-p.r.Context().Done():
		p.err = context.Cause(p.r.Context())
	case <-p.s.stopped:
		p.err = http.ErrServerClosed
	}
}

// cutPause lets the caller read what was sent before a reset makes its kernel report an error, on a busy machine too.
const cutPause = 200 * time.Millisecond

// cut takes the connection down.
func (p *player) cut(kind BreakKind, at Stage) {
	if at != BeforeHeaders {
		p.sleep(cutPause)
	}
	if p.err != nil {
		return
	}
	p.err = errBroken
	conn, _, err := http.NewResponseController(p.w).Hijack()
	if err != nil { // HTTP/2: the stream is reset
		p.end()
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && kind == Reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// broken notes that the caller went away.
func (p *player) broken(err error) {
	if errors.Is(err, http.ErrServerClosed) {
		return
	}
	p.s.log.update(func() { p.rec.Cancelled, p.rec.CancelledAt = true, time.Now() })
}

func (p *player) end() { p.s.log.update(func() { p.rec.Done = true }) }

// encode compresses a body.
func encode(encoding string, body []byte) []byte {
	if encoding == "br" {
		return brotli(body)
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write(body) // a bytes.Buffer takes everything
	_ = z.Close()
	return buf.Bytes()
}

// brotli wraps a body in Brotli meta-blocks that are not compressed (RFC 7932, section 9.2).
func brotli(body []byte) []byte {
	const most = 1 << 16
	var out []byte
	for first := true; len(body) > 0; first = false {
		n := min(len(body), most)
		// Bits: [WBITS 0 = 16, once], ISLAST 0, MNIBBLES 00 = 4, MLEN-1 in 16 bits, ISUNCOMPRESSED 1.
		head := (n-1)<<3 | 1<<19
		if first {
			head <<= 1
		}
		out = append(out, byte(head), byte(head>>8), byte(head>>16))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	if out == nil {
		return []byte{6} // WBITS 0, ISLAST 1, ISLASTEMPTY 1
	}
	return append(out, 3) // ISLAST 1, ISLASTEMPTY 1
}

func requestID(d Dialect, name string, n int64) string {
	if d == Anthropic {
		return fmt.Sprintf("req_01fake%s%016d", name, n)
	}
	return fmt.Sprintf("req_fake%s%024d", name, n)
}
