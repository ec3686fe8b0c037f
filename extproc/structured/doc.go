// Package structured implements structured output for any model: it chooses how to ask for a JSON Schema (enforced by the provider, as the
// arguments of a tool call, or in the prompt), extracts the answer from the model's text, and validates it. It does not know the providers'
// JSON formats or HTTP.
package structured
