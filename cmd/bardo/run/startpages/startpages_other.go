//go:build !linux

// Package startpages does nothing on this system.
package startpages

// ProgramFile is unknown on this system.
const ProgramFile = ""

// Drop does nothing on this system.
func Drop(string) {}
