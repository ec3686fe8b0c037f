package api

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy/schema"
)

// schemaObject is one published schema, as listed.
type schemaObject struct {
	Object     string          `json:"object"`
	Name       string          `json:"name"`
	Subsystems []string        `json:"subsystems"` // whose answers follow it unless their request has another schema
	Strict     bool            `json:"strict"`     // an invalid answer is not repaired
	Default    json.RawMessage `json:"default"`    // replaces an answer that is not available; null: none
	Schema     json.RawMessage `json:"schema"`
}

// Schemas is GET /v1/schemas.
func (*Server) Schemas(_ context.Context, c *Caller) (stream.Reply, error) {
	all := schema.All()
	list := struct {
		Object string         `json:"object"`
		Data   []schemaObject `json:"data"`
	}{Object: "list", Data: make([]schemaObject, 0, len(all))}
	for i := range all {
		s := &all[i]
		o := schemaObject{Object: "schema", Name: s.Name, Subsystems: s.Subsystems, Strict: s.Strict, Default: s.Default, Schema: s.JSON}
		if o.Subsystems == nil {
			o.Subsystems = []string{}
		}
		list.Data = append(list.Data, o)
	}
	body, err := json.Marshal(list)
	return c.Head.JSON(body), err
}

// Schema is GET /v1/schemas/{name}: the JSON Schema itself, with the default answer as its default.
func (*Server) Schema(_ context.Context, c *Caller) (stream.Reply, error) {
	name := c.Head.Arg("/v1/schemas/")
	s, ok := schema.Get(name)
	if !ok {
		return stream.Reply{}, fault.Newf(fault.NotFound, "there is no schema %q%s", fault.Clip(name), schemasLike(name))
	}
	return c.Head.JSON(withDefault(&s)), nil
}

// withDefault returns the JSON Schema with one more member at its end.
func withDefault(s *schema.Schema) []byte {
	if s.Default == nil {
		return s.JSON
	}
	body := bytes.TrimSuffix(bytes.TrimSpace(s.JSON), []byte("}"))
	body = append(bytes.TrimRight(bytes.Clone(body), " \n"), ",\n  \"default\": "...)
	return append(append(body, s.Default...), "\n}\n"...)
}

// schemasLike returns the names of similar schemas.
func schemasLike(name string) string {
	if like := near.Names(name, schema.Names(), 3); len(like) > 0 {
		return "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return "; GET /v1/schemas lists them"
}
