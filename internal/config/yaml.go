package config

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

func parseYAML(name string, data []byte) (*node, []Problem) {
	start := pos{file: name, line: 1, col: 1}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, []Problem{yamlError(start, err)}
	}
	r := yamlReader{file: name}
	root := &node{kind: table, at: start}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if len(root.keys) > 0 {
			return nil, []Problem{r.at(doc.Body).problem("", "one document", "a second document in the file")}
		}
		if n := r.read(doc.Body, 0); n.kind != null {
			root = n
		}
	}
	return root, r.problems
}

func yamlError(at pos, err error) Problem {
	message := err.Error()
	var located yaml.Error
	if errors.As(err, &located) {
		message = located.GetMessage()
		if tk := located.GetToken(); tk != nil && tk.Position != nil {
			at.line, at.col = tk.Position.Line, tk.Position.Column
		}
	}
	return at.problem("", "", "not YAML: %s", message)
}

// yamlReader copies the library's tree into ours.
type yamlReader struct {
	file     string
	problems []Problem
}

func (r *yamlReader) at(n ast.Node) pos {
	p := pos{file: r.file, line: 1, col: 1}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		p.line, p.col = tk.Position.Line, tk.Position.Column
	}
	return p
}

func (r *yamlReader) fail(n ast.Node, expected, message string) {
	r.problems = append(r.problems, r.at(n).problem("", expected, "%s", message))
}

func (r *yamlReader) read(n ast.Node, depth int) *node {
	out := &node{at: r.at(n)}
	if depth > maxDepth {
		r.fail(n, "", "nested too deeply")
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			out.items = append(out.items, r.read(v, depth+1))
		}
	case *ast.MappingNode:
		out.kind = table
		for _, v := range n.Values {
			r.entry(out, v, depth)
		}
	case *ast.MappingValueNode:
		out.kind = table
		r.entry(out, n, depth)
	case *ast.AnchorNode, *ast.AliasNode:
		r.fail(n, "the value itself", "anchors and aliases are not read")
	case *ast.TagNode:
		r.fail(n, "the value itself", "tags are not read")
	default:
		r.fail(n, "", "cannot be read here")
	}
	return out
}

func (r *yamlReader) entry(t *node, v *ast.MappingValueNode, depth int) {
	if v.Key.IsMergeKey() {
		r.fail(v.Key, "the keys themselves", "merge keys are not read")
		return
	}
	key := r.read(v.Key, depth+1)
	switch {
	case key.kind != scalar:
		r.fail(v.Key, "a name", "the key is "+key.kind.String())
	case t.get(key.text) != nil:
		r.fail(v.Key, "", "the key "+key.text+" is given twice")
	case v.Value == nil:
		t.keys = append(t.keys, entry{key.text, key.at, &node{at: key.at}})
	default:
		t.keys = append(t.keys, entry{key.text, key.at, r.read(v.Value, depth+1)})
	}
}
