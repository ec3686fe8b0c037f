package injection

import "errors"

// Bounds for one request: windows scored by the classifier, without cached ones, and bytes of texts.
const (
	requestWindows = 64
	requestBytes   = 1 << 20
)

// ErrBudget is the error of a text that is not examined, since its request has too many uncached ones. If the request is repeated, the examined texts are cached.
var ErrBudget = errors.New("the request has more texts than are judged at a time")

// Budget limits the examination of one request. A nil budget is unlimited. Not safe for concurrent use.
type Budget struct{ windows, bytes int }

// NewBudget returns the budget of a new request.
func NewBudget() *Budget { return &Budget{requestWindows, requestBytes} }

// text spends n bytes; false if the budget is exhausted.
func (b *Budget) text(n int) bool {
	if b == nil {
		return true
	}
	if b.bytes <= 0 {
		return false
	}
	b.bytes -= min(n, maxText)
	return true
}

// window spends a window; false if the budget is exhausted.
func (b *Budget) window() bool {
	if b == nil {
		return true
	}
	b.windows--
	return b.windows >= 0
}
