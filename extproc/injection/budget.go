package injection

import "errors"

// Bounds of what is looked at for one request, whatever texts it has. Windows are those that the classifier scores; what it has scored before costs nothing.
const (
	requestWindows = 64
	requestBytes   = 1 << 20
)

// ErrBudget is the error of a text that is not judged, since its request has too many that are not known. When the request comes again, what was judged is known.
var ErrBudget = errors.New("the request has more texts than are judged at a time")

// Budget bounds what is looked at for one request. A nil budget has no bound. Not safe for concurrent use.
type Budget struct{ windows, bytes int }

// NewBudget is that of a request of which nothing was looked at.
func NewBudget() *Budget { return &Budget{requestWindows, requestBytes} }

// text takes a text; false if the request has had too many.
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

// window takes a window; false if the request has had too many.
func (b *Budget) window() bool {
	if b == nil {
		return true
	}
	b.windows--
	return b.windows >= 0
}
