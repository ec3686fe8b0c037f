// Package stored finds references in a request to resources that a provider stores under its key, such as files, responses and containers. It
// walks the whole body once and knows the members of all formats by name. It does not know who owns the resources.
package stored

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Ref is a reference to a stored resource.
type Ref struct {
	ID   string
	At   string // path of the member: input[0].content[1].file_id
	Kind Kind
}

// Kind is how a request uses a resource.
type Kind uint8

// The kinds.
const (
	Resource Kind = iota // only the provider that stores it can serve the request
	Item                 // a reference to an item of a stored response: dropped for providers of other formats
	Copy                 // an item with its content: no lookup needed
	URL                  // a URL of media, which Google's API treats as a stored file if it is one of its own
)

// InvalidError is a member that must be an id and is not.
type InvalidError struct{ At string }

// Error names the member.
func (e *InvalidError) Error() string { return e.At + " must be an id: a string" }

// meaning is what a member with a certain name contains.
type meaning uint8

const (
	stringID     meaning = 1 + iota // a string
	idList                          // an array of strings
	idOrObject                      // a string, or an object with an id among other members
	objectWithID                    // an object that may have an id; a string is not an id
	fileURI                         // a string: a stored file of Google's API, or any URL
	anyURL                          // a string with any URL, or an object with one
	items                           // an array of items, which may have ids
	ignored                         // arbitrary names of the user, which no provider looks up
)

// members are the relevant names, in lower case, of all formats.
var members = map[string]meaning{
	"file_id": stringID, "fileid": stringID, "input_file_id": stringID, "previous_response_id": stringID, "container_id": stringID, "vector_store_id": stringID,
	"approval_request_id": stringID, "cachedcontent": stringID, "cached_content": stringID, skillID: stringID,
	"file_ids": idList, "vector_store_ids": idList, "filesearchstorenames": idList, "file_search_store_names": idList,
	"conversation": idOrObject, "container": idOrObject,
	"prompt": objectWithID, "audio": objectWithID, "voice": objectWithID,
	"fileuri": fileURI, "file_uri": fileURI,
	"url": anyURL, "image_url": anyURL, "file_url": anyURL,
	"input": items, "items": items,

	// Schemas, tool arguments and results, and metadata may have any member names. Citations of earlier answers are not looked up.
	"metadata": ignored, "labels": ignored, "parameters": ignored, "parametersjsonschema": ignored, "parameters_json_schema": ignored,
	"input_schema": ignored, "schema": ignored, "responseschema": ignored, "response_schema": ignored, "responsejsonschema": ignored,
	"response_json_schema": ignored, "args": ignored, "arguments": ignored, "response": ignored, "annotations": ignored, "citations": ignored,
}

const skillID = "skill_id"

// Scope selects optional meanings of members.
type Scope uint8

// The parts of a scope.
const (
	Items Scope = 1 << iota // items have ids in this format
	URLs                    // a candidate has Google's format: its API would treat URLs as stored files
)

// scanKeys are the member names that require a walk, by scope.
var scanKeys = func() (keys [4]jsonx.Words) {
	for scope := range keys {
		var names []string
		if Scope(scope)&Items != 0 {
			names = append(names, "id")
		}
		for name, m := range members {
			if m != ignored && m != items && (m != anyURL || Scope(scope)&URLs != 0) {
				names = append(names, name)
			}
		}
		keys[scope] = jsonx.WordsOf(names...)
	}
	return keys
}()

// Named reports whether a request may have references, by the names of its members.
func Named(doc *jsonx.Doc, s Scope) bool { return doc.Stats.Keys.Meets(&scanKeys[s]) }

// Refs lists a request's references in order. The error is an *InvalidError.
func Refs(doc *jsonx.Doc) ([]Ref, error) {
	var f finder
	doc.Root().Walk(&f)
	if f.err != nil {
		return nil, f.err
	}
	return f.refs, nil
}

// IDs returns the ids of resources in a piece of an answer (valid JSON) that the provider created or gave access to. With own, the piece is an item
// or a container and its own id counts.
func IDs(piece []byte, own bool) []string {
	f := finder{answer: true}
	if own {
		f.stack = append(f.stack, level{means: items}) // as an element of items
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

// foldName normalises a name as lenient JSON parsers compare names: case-insensitive, and up to a NUL.
func foldName(key []byte) string {
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

// Names returns the distinct ids of references, sorted.
func Names(refs []Ref) []string {
	ids := make([]string, len(refs))
	for i := range refs {
		ids[i] = refs[i].ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// AppendID appends the id in a JSON string; anything else is ignored.
func AppendID(ids []string, text jsonx.Raw) []string {
	if id, ok := (jsonx.Value{Raw: text}).Str(); ok && id != "" {
		return append(ids, id)
	}
	return ids
}
