package wire

import "bardo.money/gateway/internal/jsonx"

// Members that the requests of all dialects share. Parsers, here and at the provider, may differ in what they accept as a member's name, so
// each dialect lists the names of its API: see jsonx.Form.

// Schema is the form of a JSON Schema. Names of properties and definitions, and values of unknown keywords, are the client's own.
var Schema = schemaForm(jsonx.NewForm())

// CamelSchema is Schema with keywords in snake_case as well, which Google's formats accept.
var CamelSchema = schemaForm(jsonx.NewCamelForm())

func schemaForm(f *jsonx.Form) *jsonx.Form {
	f.Add(f,
		"$schema", "$id", "$ref", "$anchor", "$comment", "ref", "type", "title", "description", "format", "pattern", "nullable", "required", "deprecated",
		"readOnly", "writeOnly", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
		"maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties", "propertyOrdering",
		"contentEncoding", "contentMediaType", "contentSchema", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems",
		"additionalItems", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames")
	f.Add(jsonx.Map(f), "properties", "patternProperties", "dependentSchemas", "$defs", "defs", "definitions")
	f.Add(nil, "default", "const", "enum", "example", "examples", "dependentRequired", "dependencies")
	return f.Others(nil)
}

// Hints is the form of the object with the client's hints to the gateway. Its members are validated where they are read.
var Hints = jsonx.NewForm().Add(Schema, "schema")
