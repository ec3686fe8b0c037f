// Package structured has answers follow a JSON Schema, whichever model gives them: it chooses how a model is asked (enforced by its
// provider, as the arguments of a tool, or in words), reads the answer out of what comes, and checks it. It knows no provider's JSON and
// no HTTP.
package structured
