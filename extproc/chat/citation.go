package chat

// Citation is the source of a part of an answer: a web page, or a document in the request. Formats differ in their members; this is the part
// that all of them can express. The zero value is a citation that only its own format can express.
type Citation struct {
	URL   string // of a page
	Title string // of the page, or of the document
	Quote string // quoted text; "" if not given

	File string // of a document: its id at the provider that holds it

	// The range of the answer's text that it supports, in code points over all Text of its choice, End excluded. Both are 0 if unknown.
	Start, End int
}
