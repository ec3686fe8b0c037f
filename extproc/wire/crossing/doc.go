// Package crossing tests the conversion of requests and answers from one dialect to another. It has no code besides tests: each file in
// testdata is a pair of input and expected output for one feature. It imports no provider.
//
// A pair is a txtar archive. Its comment is a sentence about the feature. in.json is the client's request, out.json the request to the
// provider, degraded the names of members that the other dialect cannot express, one per line, and error the fault's code and message if
// the request was refused. options, if present, are the provider's options.
//
// A pair of answers has in.json or in.sse, the provider's answer, and out.json or out.sse, the client's answer; lost has the names of
// members that the client's format cannot express, and error is the status, type, code and message of a failed answer, with what the client
// had received before it. request.json, if present, is the client's request.
//
// To add a pair, write its comment and its input, run "make golden", and review the output.
package crossing
