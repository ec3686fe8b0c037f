// Package stored finds where a request names what a provider stores under its key, such as a file, a response or a container. It is one walk
// over the whole body, which knows the members of all formats by their names. It does not know whose the things are.
package stored

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Ref is a place where a request names a stored thing.
type Ref struct {
	ID   string
	At   string // the member, as in an error: input[0].content[1].file_id
	Kind Kind
}

// Kind says what a request wants of the thing.
type Kind uint8

// The kinds.
const (
	Thing Kind = iota // only the provider that stores it can serve the request
	Item              // an item of a stored response, without its content: providers of other formats are asked without it
	Copy              // an item with its content: no provider has to look it up
	URL               // the address of a picture or a document: Google's API takes one of its own stored files for that file
)

// InvalidError is a member that should hold an id, and does not.
type InvalidError struct{ At string }

// Error names the member.
func (e *InvalidError) Error() string { return e.At + " must be an id: a string" }

// meaning is what a member of some name holds.
type meaning uint8

const (
	anID     meaning = 1 + iota // a string
	ids                         // an array of strings
	idOrMore                    // a string, or an object with an id among other members
	withID                      // an object that may have an id; a string is none
	fileURI                     // a string: a stored file of Google's, or any address
	address                     // a string: any address; or an object with one
	items                       // an array of items, which may have ids
	opaque                      // what its user named, and what no provider looks up
)

// members are the names that mean something, in lower case, in all formats.
var members = map[string]meaning{
	"file_id": anID, "fileid": anID, "input_file_id": anID, "previous_response_id": anID, "container_id": anID, "vector_store_id": anID,
	"approval_request_id": anID, "cachedcontent": anID, "cached_content": anID, skillID: anID,
	"file_ids": ids, "vector_store_ids": ids, "filesearchstorenames": ids, "file_search_store_names": ids,
	"conversation": idOrMore, "container": idOrMore,
	"prompt": withID, "audio": withID, "voice": withID,
	"fileuri": fileURI, "file_uri": fileURI,
	"url": address, "image_url": address, "file_url": address,
	"input": items, "items": items,

	// A schema's properties, a tool's arguments and results, and notes may have any names. What an earlier answer cites is not looked up.
	"metadata": opaque, "labels": opaque, "parameters": opaque, "parametersjsonschema": opaque, "parameters_json_schema": opaque,
	"input_schema": opaque, "schema": opaque, "responseschema": opaque, "response_schema": opaque, "responsejsonschema": opaque,
	"response_json_schema": opaque, "args": opaque, "arguments": opaque, "response": opaque, "annotations": opaque, "citations": opaque,
}

const skillID = "skill_id"

// Scope says which of a request's members count, besides those that always do.
type Scope uint8

// The parts of a scope.
const (
	Items Scope = 1 << iota // items have ids in this format
	URLs                    // a provider of Google's format may be asked, which takes addresses in other formats for its own
)

// telling are the names that make a request worth a walk, by scope.
var telling = func() (keys [4]jsonx.Keys) {
	for scope := range keys {
		var names []string
		if Scope(scope)&Items != 0 {
			names = append(names, "id")
		}
		for name, m := range members {
			if m != opaque && m != items && (m != address || Scope(scope)&URLs != 0) {
				names = append(names, name)
			}
		}
		keys[scope] = jsonx.KeysOf(names...)
	}
	return keys
}()

// Named reports whether a request may name something stored, as far as the names of its members tell.
func Named(doc *jsonx.Doc, s Scope) bool { return doc.Stats.Keys.Meets(&telling[s]) }

// Refs lists what a request names, in its order. The error is an *InvalidError.
func Refs(doc *jsonx.Doc) ([]Ref, error) {
	var f finder
	doc.Root().Walk(&f)
	if f.err != nil {
		return nil, f.err
	}
	return f.refs, nil
}

// IDs are the ids in a piece of an answer, which is valid JSON: of what the provider stored, or gave access to, while it answered. The
// piece's own id counts if it is that of an item or a container.
func IDs(piece []byte, own bool) []string {
	f := finder{answer: true}
	if own {
		f.stack = append(f.stack, level{means: items}) // as if it stood among items
	}
	jsonx.Value{Raw: piece}.Walk(&f)
	var list []string
	for _, r := range f.refs {
		if r.Kind != URL {
			list = append(list, r.ID)
		}
	}
	return list
}

// same is a name as lenient readers compare names: without regard to case, and up to a NUL.
func same(key []byte) string {
	name, _, _ := strings.Cut(string(key), "\x00")
	return strings.Map(func(r rune) rune {
		switch r {
		case 'ı', 'İ':
			return 'i'
		case 'ſ':
			return 's'
		case 'K': // the sign of kelvin
			return 'k'
		}
		return r
	}, strings.ToLower(name))
}
