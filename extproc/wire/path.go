package wire

// Addressed is implemented by dialects whose requests carry in their path what other dialects carry in the body, such as the model.
type Addressed interface {
	// ForPath returns the dialect of one request, by its path, without the query, and its query.
	ForPath(path, query string) Dialect
}

// Heartbeater is implemented by dialects whose clients do not accept comments in a stream. The gateway writes no comments there.
type Heartbeater interface {
	// Heartbeat is the text that keeps an idle stream alive. It may be written between events only.
	Heartbeat() string
}
