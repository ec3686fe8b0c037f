// Package schema has the schemas of the answers that an agent's subsystems expect: Go types for agents in Go, the JSON Schemas that the gateway
// enforces, and the default answers. It imports the standard library alone, and does not know providers or how a schema is enforced.
package schema
