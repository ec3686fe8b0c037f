package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Rewriter is implemented by dialects that can say a conversation anew in a request of their own: for a provider of the same dialect,
// where all else of the request stays as it came.
type Rewriter interface {
	// Rewrite is req with the system prompt and the messages of c, which has no tools, and names what it could not say. req is not
	// changed. The error is a fault.
	Rewrite(req *chat.Request, c *chat.Conversation) (again *chat.Request, degraded []string, err error)
}

// Rewritten is req with a conversation whose members were set in e, or deleted there.
func Rewritten(req *chat.Request, c *chat.Conversation, e *jsonx.Edits) (*chat.Request, error) {
	doc, err := jsonx.Scan(e.AppendTo(make([]byte, 0, e.Len(&req.Doc)), &req.Doc))
	if err != nil {
		return nil, err
	}
	again := *req
	again.Doc, again.Edit, again.Conv = doc, jsonx.Edits{}, c
	return &again, nil
}

// LostWithin names, besides what was lost already, the members that a conversation does not carry and that stood inside of others: a
// request that is rewritten keeps those at its top.
func LostWithin(req *chat.Request, c *chat.Conversation, lost []string) []string {
	for _, name := range c.Unmapped {
		if req.Doc.Find(name) < 0 && !slices.Contains(lost, name) {
			lost = Named(lost, name)
		}
	}
	return lost
}
