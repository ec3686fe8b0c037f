// Package crossing shows what becomes of requests and answers that cross from one dialect into another. It has no code:
// each file in testdata is a pair to read, one feature each, and the tests hold the wire packages to them. It knows no
// provider.
//
// A pair is a txtar archive. Its comment says in a sentence what it shows. in.json is what came, out.json what went on,
// degraded the names of what the other dialect could not say, one on a line, and error the fault's code and message where
// nothing went on. options, if there, are what the provider is known to understand.
//
// To add a pair, write its comment and its input, run "make golden", and read what came out.
package crossing
