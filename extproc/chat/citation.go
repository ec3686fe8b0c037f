package chat

// Citation is where something that an answer says is from: a page of the web, or a document that the model was given. Formats tell it in
// members of their own; an Extra has it in the one form that all of them have words for, as far as they do. The zero value is something
// that no other has words for.
type Citation struct {
	URL   string // of a page
	Title string // of the page, or of the document
	Quote string // what stands there; "" if nobody said

	File string // of a document: its id at the provider that holds it

	// What of the answer's text it is about, in code points of all Text of its choice, End excluded. Both are 0 where that is not known.
	Start, End int
}
