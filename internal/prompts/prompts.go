// Package prompts keeps what callers said and models answered, where an operator asks for it: masked, encrypted in a file, beside requests. It does not know
// requests or layers, nor what may be kept.
package prompts

import (
	"context"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// Entry is a request and its answer.
type Entry struct {
	At        time.Time         `json:"at"` // when the answer was complete, or the request over
	RequestID string            `json:"request_id"`
	Account   policy.Account    `json:"account"`
	Subsystem string            `json:"subsystem,omitempty"`
	Provider  policy.ProviderID `json:"provider,omitempty"`
	Model     policy.ModelID    `json:"model,omitempty"`
	Stop      string            `json:"stop,omitempty"`    // why the model stopped
	Outcome   string            `json:"outcome,omitempty"` // why the answer has no end: cut (its provider), cancelled or left (its client), else how a request failed whose stream had begun; "" for a complete one
	Error     string            `json:"error,omitempty"`   // code of the error that the client got in the place of the end
	Media     int               `json:"media,omitempty"`   // pictures, sound and files of the request, which are not kept
	Request   []Text            `json:"request"`
	Answer    []Text            `json:"answer"`

	Mask Masker `json:"-"`
}

// Text is a text of a request, or of an answer.
type Text struct {
	Turn    int    `json:"turn"` // the message of a request, -1 for none; of an answer, which of several
	Kind    string `json:"kind"` // system, user, assistant, thinking, arguments, result, document, refusal
	Tool    string `json:"tool,omitempty"`
	Text    string `json:"text,omitempty"`
	Omitted int    `json:"omitted,omitempty"` // bytes that are not kept, of a text that is too long or broke off: a part of a value could not be masked
}

// Masker replaces personal data and secrets in texts that belong together, in place. The error is that nothing is known of some of them: none may be kept
// then. Safe for concurrent use.
type Masker interface {
	Redact(ctx context.Context, account policy.Account, texts []string) error
}

// texts are the places of all that is masked.
func (e *Entry) texts() []*string {
	out := make([]*string, 0, 2*(len(e.Request)+len(e.Answer)))
	for _, list := range [...][]Text{e.Request, e.Answer} {
		for i := range list {
			out = append(out, &list[i].Text, &list[i].Tool)
		}
	}
	return out
}

// size is about how many bytes an entry takes in memory.
func (e *Entry) size() int {
	const rest, each = 512, 96
	n := rest
	for _, s := range e.texts() {
		n += len(*s) + each/2
	}
	return n
}

// The results that are counted.
const (
	Written  = "written"
	Full     = "full"     // dropped: too much waits to be written
	Unmasked = "unmasked" // dropped: its texts could not be masked
	Failed   = "failed"   // dropped: it could not be written
)

// MaxWaiting bounds what waits to be written, in bytes of memory.
const MaxWaiting = 16 << 20

// Log takes entries, and has them written beside requests. Safe for concurrent use.
type Log struct {
	count func(result string, n int)
	wake  chan struct{}

	mu      sync.Mutex
	waiting []*Entry
	bytes   int // of what waits, and of what is being written
}

// New is a log without entries. count is told of what becomes of each.
func New(count func(result string, n int)) *Log {
	return &Log{count: count, wake: make(chan struct{}, 1)}
}

// Add takes an entry, which must not be changed any more. It never waits: what does not fit is dropped.
func (l *Log) Add(e *Entry) {
	n := e.size()
	l.mu.Lock()
	fits := l.bytes+n <= MaxWaiting
	if fits {
		l.waiting, l.bytes = append(l.waiting, e), l.bytes+n
	}
	l.mu.Unlock()
	if !fits {
		l.count(Full, 1)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// mostAtOnce is how many entries are written together.
const mostAtOnce = 64

// take removes entries that wait, oldest first. Their bytes count until release.
func (l *Log) take() (batch []*Entry, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), mostAtOnce)
	batch = slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	for _, e := range batch {
		bytes += e.size()
	}
	return batch, bytes
}

func (l *Log) release(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= bytes
}
