package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxFileBytes limits a configuration file; the parsers are not meant for more.
const maxFileBytes = 1 << 20

// maxDepth limits the nesting of tables and lists.
const maxDepth = 32

type shape uint8

const (
	null shape = iota
	scalar
	list
	table
)

func (k shape) String() string {
	return [...]string{"nothing", "a single value", "a list", "a table of keys"}[k]
}

// node is one value of a file with its position, in either format.
type node struct {
	kind  shape
	at    pos
	text  string  // of a scalar, as written, without quotes
	items []*node // of a list
	keys  []entry // of a table, in order of appearance
}

type entry struct {
	name  string
	at    pos
	value *node
}

// pos is a position in a file, or an environment variable (line 0).
type pos struct {
	file      string
	line, col int
}

func (p pos) problem(key, expected, format string, args ...any) Problem {
	return Problem{File: p.file, Line: p.line, Col: p.col, Key: key, Message: fmt.Sprintf(format, args...), Expected: expected}
}

// get returns an entry of a table; nil if there is none.
func (n *node) get(name string) *entry {
	if i := slices.IndexFunc(n.keys, func(e entry) bool { return e.name == name }); i >= 0 {
		return &n.keys[i]
	}
	return nil
}

// walk returns the node below a table at a path of names, created if missing; nil if another value than a table is in the path.
func (n *node) walk(at pos, path ...string) *node {
	for _, name := range path {
		if n.kind == null {
			n.kind = table
		}
		if n.kind != table {
			return nil
		}
		e := n.get(name)
		if e == nil {
			n.keys = append(n.keys, entry{name: name, at: at, value: &node{at: at}})
			e = &n.keys[len(n.keys)-1]
		}
		n = e.value
	}
	return n
}

// has reports whether there is a node at a path.
func (n *node) has(path ...string) bool {
	for _, name := range path {
		e := n.get(name)
		if e == nil {
			return false
		}
		n = e.value
	}
	return true
}

// parseTree reads a file in the format of its name: TOML for .toml, else YAML (including JSON).
func parseTree(name string, data []byte) (*node, []Problem) {
	start := pos{file: name, line: 1, col: 1}
	if len(data) > maxFileBytes {
		return nil, []Problem{start.problem("", "at most 1 MiB", "the file has %d bytes", len(data))}
	}
	if bytes.Contains(data, []byte{0}) {
		return nil, []Problem{start.problem("", "text", "the file has a zero byte")}
	}
	if strings.EqualFold(filepath.Ext(name), ".toml") {
		return parseTOML(name, data)
	}
	return parseYAML(name, data)
}
