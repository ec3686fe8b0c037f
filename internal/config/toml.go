package config

import (
	"errors"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML reads the file twice: the decoder checks all rules of TOML, the unstable parser provides positions.
func parseTOML(name string, data []byte) (*node, []Problem) {
	var checked map[string]any
	if err := toml.Unmarshal(data, &checked); err != nil {
		return nil, []Problem{tomlError(name, err)}
	}
	r := tomlReader{file: name, data: data}
	r.parser.Reset(data)
	root := &node{kind: table, at: pos{file: name, line: 1, col: 1}}
	into := root
	for r.parser.NextExpression() {
		e := r.parser.Expression()
		switch e.Kind {
		case unstable.Table:
			into = r.table(root, e.Key())
		case unstable.ArrayTable:
			into = r.element(r.table(root, e.Key()))
		case unstable.KeyValue:
			r.keyValue(into, e, 0)
		default: // comments are dropped
		}
	}
	if err := r.parser.Error(); err != nil {
		return nil, []Problem{tomlError(name, err)}
	}
	return root, r.problems
}

func tomlError(name string, err error) Problem {
	at := pos{file: name, line: 1, col: 1}
	if located, ok := errors.AsType[*toml.DecodeError](err); ok {
		at.line, at.col = located.Position()
	}
	return at.problem("", "", "not TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
}

// tomlReader converts the library's expressions to nodes.
type tomlReader struct {
	file     string
	data     []byte
	lines    []int // offsets of the line ends, computed on first use
	parser   unstable.Parser
	problems []Problem
}

func (r *tomlReader) at(n *unstable.Node) pos {
	if r.lines == nil {
		for i, c := range r.data {
			if c == '\n' {
				r.lines = append(r.lines, i)
			}
		}
	}
	offset := int(n.Raw.Offset)
	line := sort.SearchInts(r.lines, offset)
	start := 0
	if line > 0 {
		start = r.lines[line-1] + 1
	}
	return pos{file: r.file, line: line + 1, col: offset - start + 1}
}

// table returns the table of a dotted key below n. A list in the path means its last element.
func (r *tomlReader) table(n *node, key unstable.Iterator) *node {
	for key.Next() {
		at := r.at(key.Node())
		if n = n.walk(at, string(key.Node().Data)); n == nil {
			return &node{} // unreachable: the decoder has accepted the file
		}
		if n.kind == list && !key.IsLast() && len(n.items) > 0 {
			n = n.items[len(n.items)-1]
		}
	}
	if n.kind == null {
		n.kind = table
	}
	return n
}

// element adds one element to an array of tables.
func (r *tomlReader) element(n *node) *node {
	n.kind = list
	e := &node{kind: table, at: n.at}
	n.items = append(n.items, e)
	return e
}

func (r *tomlReader) keyValue(into *node, e *unstable.Node, depth int) {
	key := e.Key()
	n, at := into, into.at
	for key.Next() && n != nil {
		at = r.at(key.Node())
		n = n.walk(at, string(key.Node().Data))
	}
	if n != nil {
		*n = *r.read(e.Value(), at, depth+1)
	}
}

// read converts a value; at is the position of its key, or of the list that contains it.
func (r *tomlReader) read(v *unstable.Node, at pos, depth int) *node {
	if v.Raw.Length > 0 {
		at = r.at(v)
	}
	out := &node{at: at, kind: scalar}
	if depth > maxDepth {
		r.problems = append(r.problems, at.problem("", "", "nested too deeply"))
		return &node{at: at}
	}
	switch v.Kind {
	case unstable.Array:
		out.kind = list
		for it := v.Children(); it.Next(); {
			out.items = append(out.items, r.read(it.Node(), at, depth+1))
		}
	case unstable.InlineTable:
		out.kind = table
		for it := v.Children(); it.Next(); {
			r.keyValue(out, it.Node(), depth+1)
		}
	default:
		out.text = string(v.Data)
	}
	return out
}
