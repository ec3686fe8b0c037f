// Package render shows an answer's reasoning as the place where the answer is read wants it: all of it to programs, none to a chat message,
// a sign of life to a terminal. It knows no wire format, but for the names by which some repeat thoughts in words of their own.
package render
