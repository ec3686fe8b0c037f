// Package render adapts an answer's reasoning to the surface where it is read: all of it for API clients, none in chat messages, a progress line
// in a terminal. It does not know API formats, except the names of extra members with reasoning.
package render
