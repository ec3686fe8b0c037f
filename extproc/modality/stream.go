package modality

import (
	"bytes"
	"strings"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// watch determines the usage of a streamed answer: of audio by its length, of an event stream by the reports in it.
type watch struct {
	r           *Request
	to          *policy.Resolution
	contentType string
	used        Used

	begin  []byte // the first bytes of audio
	length int64
	events *sse.Scanner // of an event stream; nil for audio
	failed bool         // the provider reported a failure in an event
}

// beginning is how many bytes of audio are kept to read its format from, including a tag before it.
const beginning = 8 << 10

// longestEvent is the maximum size of an event that is parsed: images are encoded as text.
const longestEvent = 32 << 20

func (r *Request) watch(to *policy.Resolution, contentType string) *watch {
	w := &watch{r: r, to: to, contentType: strings.ToLower(contentType), used: r.Max(to)}
	if strings.HasPrefix(w.contentType, header.EventStream) {
		w.events = &sse.Scanner{Max: longestEvent}
		w.used.Images = 0
	}
	return w
}

// take processes a piece of the answer.
func (w *watch) take(piece []byte) {
	w.length += int64(len(piece))
	if w.events != nil {
		for _, f := range w.events.Next(piece) {
			w.event(f.Data)
		}
		return
	}
	if room := beginning - len(w.begin); room > 0 {
		w.begin = append(w.begin, piece[:min(room, len(piece))]...)
	}
}

// event processes one event. Each complete image has an event of its own, with its own usage.
func (w *watch) event(data []byte) {
	if !bytes.Contains(data, []byte(`"usage"`)) && !bytes.Contains(data, []byte(".completed")) && !bytes.Contains(data, []byte(`"error"`)) {
		return
	}
	v, err := jsonx.Parse(data)
	if err != nil {
		return
	}
	kind, _ := v.Get("type").Str()
	if kind == "error" || kind == "" && v.Get("error").Exists() {
		w.failed = true
		return
	}
	before := w.used
	w.used.report(v.Get("usage"))
	if w.r.Op.images() && strings.HasSuffix(kind, ".completed") {
		w.used.Images++
		if before.Reported && w.used.Reported {
			w.used.Text, w.used.Image, w.used.Output = w.used.Text+before.Text, w.used.Image+before.Image, w.used.Output+before.Output
		}
	}
}

// end returns the usage of the whole answer.
func (w *watch) end() Used {
	if w.events != nil {
		for _, f := range w.events.End() {
			w.event(f.Data)
		}
		if w.failed && !w.used.Reported || w.r.Op.images() && w.used.Images == 0 { // nothing was generated
			return Used{Reported: true, Timed: true}
		}
		return w.r.complete(w.to, w.used)
	}
	if rate := answerRate(w.contentType, w.begin); rate > 0 && w.r.Op.Feature == policy.Speech {
		w.used.Milliseconds, w.used.Timed = w.length*1000/rate, true
	}
	return w.r.complete(w.to, w.used)
}
