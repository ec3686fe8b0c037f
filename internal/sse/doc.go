// Package sse frames and writes event streams (text/event-stream, WHATWG HTML §9.2), byte-exact: the frames of
// a Scanner joined are its input. It does not interpret the data of events.
package sse
