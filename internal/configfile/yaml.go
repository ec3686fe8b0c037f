package configfile

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func parseYAML(name string, data []byte) (*Node, []Problem) {
	r := yamlReader{file: name}
	root := &Node{Kind: Table, At: Pos{File: name, Line: 1, Col: 1}}
	parser := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := parser.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return root, r.problems
		case err != nil:
			return nil, []Problem{yamlError(name, data, err)}
		case len(root.Keys) > 0:
			return nil, []Problem{r.at(&doc).Problem("", "one document", "a second document in the file")}
		}
		if n := r.read(doc.Content[0], 0); n.Kind != Null {
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
	at := Pos{File: name, Line: 1, Col: 1}
	if line, message, expected, ok := layout(data); ok {
		at.Line = line
		return at.Problem("", expected, "%s", message)
	}
	message := err.Error()
	if found := yamlLine.FindStringSubmatch(message); found != nil {
		message = strings.TrimPrefix(message, found[0])
		if line, err := strconv.Atoi(found[1]); err == nil {
			at.Line = line
			if structural.MatchString(message) {
				at.Line = min(line+1, lines(data))
			}
		}
	}
	if found := unknownAnchor.FindStringSubmatch(message); found != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+found[1]))
		at.Line = lines(before)
		return at.Problem("", "the value itself", noAliases)
	}
	return at.Problem("", "", "not YAML: %s", message)
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

func (r *yamlReader) at(n *yaml.Node) Pos { return Pos{File: r.file, Line: n.Line, Col: n.Column} }

func (r *yamlReader) fail(n *yaml.Node, expected, message string) {
	r.problems = append(r.problems, r.at(n).Problem("", expected, "%s", message))
}

func (r *yamlReader) read(n *yaml.Node, depth int) *Node {
	out := &Node{At: r.at(n)}
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
		out.Kind = List
		for _, item := range n.Content {
			out.Items = append(out.Items, r.read(item, depth+1))
		}
	case yaml.MappingNode:
		out.Kind = Table
		for i := 0; i+1 < len(n.Content); i += 2 {
			r.entry(out, n.Content[i], n.Content[i+1], depth)
		}
	default:
		if n.ShortTag() != "!!null" {
			out.Kind, out.Text = Scalar, n.Value
		}
	}
	return out
}

func (r *yamlReader) entry(t *Node, key, value *yaml.Node, depth int) {
	if key.ShortTag() == "!!merge" {
		r.fail(key, "the keys themselves", "merge keys are not read")
		return
	}
	name := r.read(key, depth+1)
	switch {
	case name.Kind != Scalar:
		r.fail(key, "a name", "the key is "+name.Kind.String())
	case t.Get(name.Text) != nil:
		r.fail(key, "", "the key "+name.Text+" is given twice")
	default:
		t.Keys = append(t.Keys, Entry{name.Text, name.At, r.read(value, depth+1)})
	}
}
