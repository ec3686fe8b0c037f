// Package schema holds the forms of answers that the parts of an agent expect: Go types for agents that are written in Go, the JSON
// Schemas that the gateway asks models for, and what stands in for an answer that cannot be had. It imports the standard library alone,
// and knows neither providers nor how a model is made to follow a form.
package schema
