package wire

// Addressed is implemented by dialects whose requests carry in their path what other dialects carry in the body, such as the model.
type Addressed interface {
	// ForPath returns the dialect of one request, by its path, without the query, and its query.
	ForPath(path, query string) Dialect
}

// CommentFree is implemented by dialects whose clients do not accept comments in a stream. The gateway writes none there.
type CommentFree interface {
	// Heartbeat is the text that keeps an idle stream alive in place of a comment. It may be written between events only.
	Heartbeat() string
}

// TakesComments reports whether a dialect's clients accept comments in a stream.
func TakesComments(d Dialect) bool {
	_, free := d.(CommentFree)
	return !free
}
