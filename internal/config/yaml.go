package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func parseYAML(name string, data []byte) (*node, []Problem) {
	r := yamlReader{file: name}
	root := &node{kind: table, at: pos{file: name, line: 1, col: 1}}
	parser := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := parser.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return root, r.problems
		case err != nil:
			return nil, []Problem{yamlError(name, data, err)}
		case len(root.keys) > 0:
			return nil, []Problem{r.at(&doc).problem("", "one document", "a second document in the file")}
		}
		if n := r.read(doc.Content[0], 0); n.kind != null {
			root = n
		}
	}
}

// yamlLine is the position in the library's messages.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// structural matches the library's messages about the structure of a document, whose lines count from 0; those about its text count from 1.
var structural = regexp.MustCompile(`^did not find expected (',' or |'-' indicator|key$|node content|<document start>)`)

// unknownAnchor matches the library's message for an alias, which has no line.
var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)

func yamlError(name string, data []byte, err error) Problem {
	at := pos{file: name, line: 1, col: 1}
	if line, message, expected, ok := layout(data); ok {
		at.line = line
		return at.problem("", expected, "%s", message)
	}
	message := err.Error()
	if found := yamlLine.FindStringSubmatch(message); found != nil {
		message = strings.TrimPrefix(message, found[0])
		if line, err := strconv.Atoi(found[1]); err == nil {
			at.line = line
			if structural.MatchString(message) {
				at.line = min(line+1, lines(data))
			}
		}
	}
	if found := unknownAnchor.FindStringSubmatch(message); found != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+found[1]))
		at.line = lines(before)
		return at.problem("", "the value itself", noAliases)
	}
	return at.problem("", "", "not YAML: %s", message)
}

const noAliases = "anchors and aliases are not read"

// lines returns the number of lines of a text, of which the last may be unterminated.
func lines(data []byte) int {
	return 1 + bytes.Count(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

// yamlReader converts the library's tree to nodes.
type yamlReader struct {
	file     string
	problems []Problem
}

func (r *yamlReader) at(n *yaml.Node) pos { return pos{file: r.file, line: n.Line, col: n.Column} }

func (r *yamlReader) fail(n *yaml.Node, expected, message string) {
	r.problems = append(r.problems, r.at(n).problem("", expected, "%s", message))
}

func (r *yamlReader) read(n *yaml.Node, depth int) *node {
	out := &node{at: r.at(n)}
	switch {
	case depth > maxDepth:
		r.fail(n, "", "nested too deeply")
		return out
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fail(n, "the value itself", noAliases)
		return out
	case n.Style&yaml.TaggedStyle != 0:
		r.fail(n, "the value itself", "tags are not read")
		return out
	}
	switch n.Kind {
	case yaml.SequenceNode:
		out.kind = list
		for _, item := range n.Content {
			out.items = append(out.items, r.read(item, depth+1))
		}
	case yaml.MappingNode:
		out.kind = table
		for i := 0; i+1 < len(n.Content); i += 2 {
			r.entry(out, n.Content[i], n.Content[i+1], depth)
		}
	default:
		if n.ShortTag() != "!!null" {
			out.kind, out.text = scalar, n.Value
		}
	}
	return out
}

func (r *yamlReader) entry(t *node, key, value *yaml.Node, depth int) {
	if key.ShortTag() == "!!merge" {
		r.fail(key, "the keys themselves", "merge keys are not read")
		return
	}
	name := r.read(key, depth+1)
	switch {
	case name.kind != scalar:
		r.fail(key, "a name", "the key is "+name.kind.String())
	case t.get(name.text) != nil:
		r.fail(key, "", "the key "+name.text+" is given twice")
	default:
		t.keys = append(t.keys, entry{name.text, name.at, r.read(value, depth+1)})
	}
}
