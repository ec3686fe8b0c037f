// Package configfile parses the text of a configuration file, YAML or TOML, into one tree of nodes with their positions. It knows no key of the configuration.
package configfile

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// maxFileBytes limits a configuration file; the parsers are not meant for more.
const maxFileBytes = 1 << 20

// maxDepth limits the nesting of tables and lists.
const maxDepth = 32

// Shape is the form of a value.
type Shape uint8

// The shapes.
const (
	Null Shape = iota // nothing
	Scalar
	List
	Table
)

// String names the shape for messages.
func (k Shape) String() string {
	return [...]string{"nothing", "a single value", "a list", "a table of keys"}[k]
}

// Node is one value of a file with its position, in either format.
type Node struct {
	Kind  Shape
	At    Pos
	Text  string  // of a scalar, as written, without quotes
	Items []*Node // of a list
	Keys  []Entry // of a table, in order of appearance
}

// Entry is one key of a table with its value.
type Entry struct {
	Name  string
	At    Pos
	Value *Node
}

// Get returns an entry of a table; nil if there is none.
func (n *Node) Get(name string) *Entry {
	if i := slices.IndexFunc(n.Keys, func(e Entry) bool { return e.Name == name }); i >= 0 {
		return &n.Keys[i]
	}
	return nil
}

// Walk returns the node below a table at a path of names, created at the position at if missing; nil if another value than a table is in the path.
func (n *Node) Walk(at Pos, path ...string) *Node {
	for _, name := range path {
		if n.Kind == Null {
			n.Kind = Table
		}
		if n.Kind != Table {
			return nil
		}
		e := n.Get(name)
		if e == nil {
			n.Keys = append(n.Keys, Entry{Name: name, At: at, Value: &Node{At: at}})
			e = &n.Keys[len(n.Keys)-1]
		}
		n = e.Value
	}
	return n
}

// Has reports whether there is a node at a path.
func (n *Node) Has(path ...string) bool {
	for _, name := range path {
		e := n.Get(name)
		if e == nil {
			return false
		}
		n = e.Value
	}
	return true
}

// Parse reads a file in the format of its name: TOML for .toml, else YAML (including JSON). It returns nil and the problems of a file that cannot be read,
// or the tree and the problems of what it leaves out.
func Parse(name string, data []byte) (*Node, []Problem) {
	start := Pos{File: name, Line: 1, Col: 1}
	if len(data) > maxFileBytes {
		return nil, []Problem{start.Problem("", "at most 1 MiB", "the file has %d bytes", len(data))}
	}
	if bytes.Contains(data, []byte{0}) {
		return nil, []Problem{start.Problem("", "text", "the file has a zero byte")}
	}
	if strings.EqualFold(filepath.Ext(name), ".toml") {
		return parseTOML(name, data)
	}
	return parseYAML(name, data)
}
