package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Rewriter is implemented by dialects that can replace the conversation of a request in their own format, for a provider of the same
// dialect. Everything else is unchanged.
type Rewriter interface {
	// Rewrite returns req with the system prompt and the messages of c, which has no tools, and the names of what it could not express. req
	// is not changed. The error is a fault.
	Rewrite(req *chat.Request, c *chat.Conversation) (rewritten *chat.Request, degraded []string, err error)
}

// Rewritten returns req with the edits e applied, which set or delete the members of the conversation c.
func Rewritten(req *chat.Request, c *chat.Conversation, e *jsonx.Edits) (*chat.Request, error) {
	doc, err := jsonx.Scan(e.AppendTo(make([]byte, 0, e.Len(&req.Doc)), &req.Doc))
	if err != nil {
		return nil, err
	}
	rewritten := *req
	rewritten.Doc, rewritten.Edit, rewritten.Conv = doc, jsonx.Edits{}, c
	return &rewritten, nil
}

// DegradedWithin adds to degraded the nested members that a conversation cannot carry. The top-level ones are kept by a rewritten request.
func DegradedWithin(req *chat.Request, c *chat.Conversation, degraded []string) []string {
	for _, name := range c.Unmapped {
		if req.Doc.Find(name) < 0 && !slices.Contains(degraded, name) {
			degraded = AppendDegraded(degraded, name)
		}
	}
	return degraded
}
