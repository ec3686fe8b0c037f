package configfile

import (
	"errors"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML reads the file twice: the decoder checks all rules of TOML, the unstable parser provides positions.
func parseTOML(name string, data []byte) (*Node, []Problem) {
	var checked map[string]any
	if err := toml.Unmarshal(data, &checked); err != nil {
		return nil, []Problem{tomlError(name, err)}
	}
	r := tomlReader{file: name, data: data}
	r.parser.Reset(data)
	root := &Node{Kind: Table, At: Pos{File: name, Line: 1, Col: 1}}
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
	at := Pos{File: name, Line: 1, Col: 1}
	if located, ok := errors.AsType[*toml.DecodeError](err); ok {
		at.Line, at.Col = located.Position()
	}
	return at.Problem("", "", "not TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
}

// tomlReader converts the library's expressions to nodes.
type tomlReader struct {
	file     string
	data     []byte
	lines    []int // offsets of the line ends, computed on first use
	parser   unstable.Parser
	problems []Problem
}

func (r *tomlReader) at(n *unstable.Node) Pos {
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
	return Pos{File: r.file, Line: line + 1, Col: offset - start + 1}
}

// table returns the table of a dotted key below n. A list in the path means its last element.
func (r *tomlReader) table(n *Node, key unstable.Iterator) *Node {
	for key.Next() {
		at := r.at(key.Node())
		if n = n.Walk(at, string(key.Node().Data)); n == nil {
			return &Node{} // unreachable: the decoder has accepted the file
		}
		if n.Kind == List && !key.IsLast() && len(n.Items) > 0 {
			n = n.Items[len(n.Items)-1]
		}
	}
	if n.Kind == Null {
		n.Kind = Table
	}
	return n
}

// element adds one element to an array of tables.
func (r *tomlReader) element(n *Node) *Node {
	n.Kind = List
	e := &Node{Kind: Table, At: n.At}
	n.Items = append(n.Items, e)
	return e
}

func (r *tomlReader) keyValue(into *Node, e *unstable.Node, depth int) {
	key := e.Key()
	n, at := into, into.At
	for key.Next() && n != nil {
		at = r.at(key.Node())
		n = n.Walk(at, string(key.Node().Data))
	}
	if n != nil {
		*n = *r.read(e.Value(), at, depth+1)
	}
}

// read converts a value; at is the position of its key, or of the list that contains it.
func (r *tomlReader) read(v *unstable.Node, at Pos, depth int) *Node {
	if v.Raw.Length > 0 {
		at = r.at(v)
	}
	out := &Node{At: at, Kind: Scalar}
	if depth > maxDepth {
		r.problems = append(r.problems, at.Problem("", "", "nested too deeply"))
		return &Node{At: at}
	}
	switch v.Kind {
	case unstable.Array:
		out.Kind = List
		for it := v.Children(); it.Next(); {
			out.Items = append(out.Items, r.read(it.Node(), at, depth+1))
		}
	case unstable.InlineTable:
		out.Kind = Table
		for it := v.Children(); it.Next(); {
			r.keyValue(out, it.Node(), depth+1)
		}
	default:
		out.Text = string(v.Data)
	}
	return out
}
