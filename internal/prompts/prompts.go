// Package prompts is the prompt log: it stores callers' requests and models' answers if an operator enables it, masked and encrypted, outside the
// request path. It does not know requests or layers, nor what may be stored.
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
	At        time.Time         `json:"at"` // when the answer was complete, or the request ended
	RequestID string            `json:"request_id"`
	Account   policy.Account    `json:"account"`
	Subsystem string            `json:"subsystem,omitempty"`
	Provider  policy.ProviderID `json:"provider,omitempty"`
	Model     policy.ModelID    `json:"model,omitempty"`
	Stop      string            `json:"stop,omitempty"`    // why the model stopped
	Outcome   string            `json:"outcome,omitempty"` // why the answer is incomplete: cut (by its provider), cancelled or left (by its client), else how a request failed whose stream had begun; "" for a complete one
	Error     string            `json:"error,omitempty"`   // code of the error that the client got instead of the end
	Media     int               `json:"media,omitempty"`   // number of pictures, audio and other files of the request, which are not stored
	Request   []Text            `json:"request"`
	Answer    []Text            `json:"answer"`

	Mask Masker `json:"-"`
}

// Text is a text of a request, or of an answer.
type Text struct {
	Turn    int    `json:"turn"` // of a request: the message, -1 for none; of an answer: which of several
	Kind    string `json:"kind"` // system, user, assistant, thinking, arguments, result, document, refusal
	Tool    string `json:"tool,omitempty"`
	Text    string `json:"text,omitempty"`
	Omitted int    `json:"omitted,omitempty"` // bytes that are not stored because the text is too long or truncated: a partial value could not be masked
}

// Masker replaces personal data and secrets in related texts, in place. On an error some of them were not checked: none may be stored then. Safe for
// concurrent use.
type Masker interface {
	Redact(ctx context.Context, account policy.Account, texts []string) error
}

// texts returns pointers to all texts that are masked.
func (e *Entry) texts() []*string {
	out := make([]*string, 0, 2*(len(e.Request)+len(e.Answer)))
	for _, list := range [...][]Text{e.Request, e.Answer} {
		for i := range list {
			out = append(out, &list[i].Text, &list[i].Tool)
		}
	}
	return out
}

// size returns the approximate memory size of an entry in bytes.
func (e *Entry) size() int {
	const rest, each = 512, 96
	n := rest
	for _, s := range e.texts() {
		n += len(*s) + each/2
	}
	return n
}

// The counted results.
const (
	Written  = "written"
	Full     = "full"     // dropped: too many entries are pending
	Unmasked = "unmasked" // dropped: its texts could not be masked
	Failed   = "failed"   // dropped: it could not be written
)

// MaxWaiting limits pending entries, in bytes of memory.
const MaxWaiting = 16 << 20

// Log queues entries, and writes them outside the request path. Safe for concurrent use.
type Log struct {
	count func(result string, n int)
	wake  chan struct{}

	mu      sync.Mutex
	waiting []*Entry
	bytes   int // of pending entries, and of those being written
}

// New returns an empty log. count is called with the result of each entry.
func New(count func(result string, n int)) *Log {
	return &Log{count: count, wake: make(chan struct{}, 1)}
}

// Add queues an entry, which must not be changed any more. It never blocks: what does not fit is dropped.
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
	default: // already notified
	}
}

// maxBatch is the maximum number of entries in a batch.
const maxBatch = 64

// take removes pending entries, oldest first. Their bytes count until release.
func (l *Log) take() (batch []*Entry, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), maxBatch)
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
