// Package sse frames and writes event streams (text/event-stream, WHATWG HTML §9.2), byte-exact: what a Scanner hands
// out is what came in. It does not know what the data of an event mean.
package sse
