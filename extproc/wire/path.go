package wire

// Addressed is implemented by dialects whose requests carry in the path what other dialects carry in the body, such as the model.
type Addressed interface {
	// ForPath returns the dialect of one request from its path, without the query, and its query.
	ForPath(path, query string) Dialect
}

// CommentFree is implemented by dialects whose clients do not accept comments in a stream: the gateway writes none.
type CommentFree interface {
	// Heartbeat returns the text that keeps an idle stream alive instead of a comment. It may be written between events only.
	Heartbeat() string
}

// TakesComments reports whether a dialect's clients accept comments in a stream.
func TakesComments(d Dialect) bool {
	_, free := d.(CommentFree)
	return !free
}
