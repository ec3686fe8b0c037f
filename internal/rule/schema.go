package rule

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxSchema limits an operator's schema, in bytes.
const MaxSchema = 64 << 10

// Schema is an operator's JSON Schema of arguments. Safe for concurrent use. Clients' schemas are checked by extproc/structured, which limits the
// cost of a hostile one.
type Schema struct{ compiled *jsonschema.Schema }

const schemaURL = "bardo:///schema"

// ParseSchema parses a JSON Schema. The error is one line.
func ParseSchema(text string) (*Schema, error) {
	if len(text) > MaxSchema {
		return nil, fmt.Errorf("longer than %d bytes", MaxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, errors.New("not JSON")
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("not a JSON object")
	}
	lib := jsonschema.NewCompiler()
	lib.DefaultDraft(jsonschema.Draft2020)
	lib.AssertFormat()
	lib.UseLoader(noLoader{})
	if err := lib.AddResource(schemaURL, doc); err != nil {
		return nil, oneLine(err)
	}
	compiled, err := lib.Compile(schemaURL)
	if err != nil {
		return nil, oneLine(err)
	}
	return &Schema{compiled}, nil
}

// oneLine returns an error of the library on one line, without the library's name for the schema.
func oneLine(err error) error {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), schemaURL, "")), " ")
	if _, where, ok := strings.Cut(text, " - at '/"); ok { // cut after the invalid value's location
		text = "at '/" + where
	}
	return errors.New(text)
}

// noLoader refuses to load other schemas.
type noLoader struct{}

// Load implements the library's loader.
func (noLoader) Load(string) (any, error) { return nil, errors.New("other schemas are not loaded") }

// Allows reports whether arguments match the schema.
func (s *Schema) Allows(args map[string]any) bool { return s.compiled.Validate(args) == nil }
