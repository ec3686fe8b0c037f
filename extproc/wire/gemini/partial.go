package gemini

import (
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// partialCall is a call whose arguments arrive in pieces, each with a path and a piece of the value.
type partialCall struct {
	block int
	args  node
}

// node is a value in the arguments: an object, an array, or a leaf.
type node struct {
	key   string
	nodes []node
	array bool
	json  []byte // of a leaf that is not a string
	text  []byte // of a string
	leaf  bool
}

// Limits of arguments in pieces.
const (
	maxDepth = 32
	maxNodes = 4096
)

// add adds the pieces of one part.
func (p *partialCall) add(pieces jsonx.Value) {
	for _, v := range pieces.Each {
		path, ok := v.Get("jsonPath").Str()
		if !ok {
			continue
		}
		n := p.args.at(path)
		if n == nil {
			continue
		}
		n.leaf = true
		switch text, number, boolean := v.Get("stringValue"), v.Get("numberValue"), v.Get("boolValue"); {
		case text.Exists():
			t, _ := text.Text(nil)
			n.text, n.json = append(n.text, t...), nil
		case number.Exists():
			n.json = append([]byte(nil), number.Raw...)
		case boolean.Exists():
			n.json = append([]byte(nil), boolean.Raw...)
		default:
			n.json = []byte("null")
		}
	}
}

// at returns the node of a path such as $.city or $.list[0].name, and creates it if necessary; nil for an invalid path.
func (n *node) at(path string) *node {
	rest, ok := strings.CutPrefix(path, "$")
	for depth := 0; ok && rest != ""; depth++ {
		var key string
		index := false
		switch {
		case depth == maxDepth:
			return nil
		case strings.HasPrefix(rest, "["):
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil
			}
			key, rest = rest[1:end], rest[end+1:]
			if quoted := strings.Trim(key, `'"`); quoted != key {
				key = quoted
			} else {
				index = true
			}
		case strings.HasPrefix(rest, "."):
			rest = rest[1:]
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			key, rest = rest[:end], rest[end:]
		default:
			return nil
		}
		n = n.child(key, index)
		if n == nil {
			return nil
		}
	}
	if !ok {
		return nil
	}
	return n
}

func (n *node) child(key string, index bool) *node {
	for i := range n.nodes {
		if n.nodes[i].key == key {
			return &n.nodes[i]
		}
	}
	if len(n.nodes) == maxNodes {
		return nil
	}
	if index {
		if _, err := strconv.Atoi(key); err != nil {
			return nil
		}
		n.array = true
	}
	n.nodes = append(n.nodes, node{key: key})
	return &n.nodes[len(n.nodes)-1]
}

// appendTo appends the value. Elements of an array are in order of arrival.
func (n *node) appendTo(dst []byte) []byte {
	switch {
	case n.leaf && n.json != nil:
		return append(dst, n.json...)
	case n.leaf:
		return jsonx.AppendString(dst, n.text)
	}
	open, end := byte('{'), byte('}')
	if n.array {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	for i := range n.nodes {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !n.array {
			dst = append(jsonx.AppendString(dst, n.nodes[i].key), ':')
		}
		dst = n.nodes[i].appendTo(dst)
	}
	return append(dst, end)
}
