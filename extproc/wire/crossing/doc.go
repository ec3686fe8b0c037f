// Package crossing shows what becomes of requests and answers that cross from one dialect into another. It has no code:
// each file in testdata is a pair to read, one feature each, and the tests hold the wire packages to them. It knows no
// provider.
//
// A pair is a txtar archive. Its comment says in a sentence what it shows. in.json is what came, out.json what went on,
// degraded the names of what the other dialect could not say, one on a line, and error the fault's code and message where
// nothing went on. options, if there, are what the provider is known to understand.
//
// A pair of answers has in.json or in.sse, what the provider sent, and out.json or out.sse, what its client reads; lost
// are the names of what the client's format could not say, and error is the status, type, code and message of an answer
// that is none, with what the client had read until then. request.json, if there, is what the client asked.
//
// To add a pair, write its comment and its input, run "make golden", and read what came out.
package crossing
