package wire

// Addressed is implemented by dialects whose requests say in their path what others say in their body.
type Addressed interface {
	// At is the dialect of one request: of its path, without the query, and of its query.
	At(path, query string) Dialect
}

// Plain is implemented by dialects whose clients read no comments in a stream. Nothing is told them there besides the
// answer.
type Plain interface {
	// Heartbeat is what keeps a silent stream alive. It goes between events only.
	Heartbeat() string
}
